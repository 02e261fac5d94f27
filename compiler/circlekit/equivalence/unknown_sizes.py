# SPDX-License-Identifier: Apache-2.0
"""Choose sizes for the unknown dimensions of inputs: the first sizes with which a model runs."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from itertools import count
from typing import NamedTuple, TypeVar

from circlekit.errors import CirclekitError, ShapeError, UnsupportedError
from circlekit.interp.interpreter import run
from circlekit.ir.graph import Graph, Model
from circlekit.ir.value import Array, Shape

T = TypeVar("T")


class Sizes(NamedTuple):
    """The sizes that stand for the unknown dimensions of each input.

    ``first``: the size of the first unknown dimension of an input; each further one is larger by ``step``
    than the one before.  ``batch``: the size that instead stands for an unknown axis 0 of an input that has
    other unknown dimensions; None: axis 0 is like the others.
    """

    first: int = 1
    step: int = 0
    batch: int | None = None

    def fill(self, shape: Shape) -> tuple[int, ...]:
        """Return ``shape`` with these sizes for its unknown dimensions."""
        if self.batch is not None and shape[:1] == (None,) and None in shape[1:]:
            shape = (self.batch, *shape[1:])
        sizes = count(self.first, self.step)
        return tuple(next(sizes) if dim is None else dim for dim in shape)


SIZES_OF_1 = Sizes()

FIRST_LARGER_SIZE = 6
"""Large enough for most slices of constant size, and even, because models may halve a dimension."""

LARGE_SIZES = [Sizes(32 * 4**step, batch=1) for step in range(7)]
"""Sizes for models that need a minimum of data, such as an image or the samples of a spectrum."""

MAX_LARGE_ELEMENTS = 1 << 20
"""One of LARGE_SIZES is used only if every input then has at most this many elements."""


def has_unknown_dimensions(graph: Graph) -> bool:
    """Return whether a dimension of an input is unknown."""
    return any(None in (value.shape or ()) for value in graph.inputs)


def first_that_runs(
    graph: Graph,
    attempt: Callable[[Sizes], T],
    sizes: Sequence[Sizes] = (SIZES_OF_1, Sizes(FIRST_LARGER_SIZE)),
) -> T:
    """Return ``attempt(s)`` for the first s of ``sizes`` and LARGE_SIZES for which it raises no error.

    ``attempt``: a function that runs ``graph`` on inputs of these sizes.  It is called only once if no
    dimension is unknown.  The search ends at the first of LARGE_SIZES for which it raises another error than
    ShapeError, because then the operators take these sizes, but not the numbers.
    Raise UnsupportedError at once; if no size is found, raise the error for the last one of ``sizes``.
    """
    failure: CirclekitError | None = None
    for item in _candidates(graph, sizes):
        try:
            return attempt(item)
        except UnsupportedError:  # noqa: PERF203  # a few sizes
            raise
        except CirclekitError as error:
            failure = error if failure is None or item in sizes else failure
            if item not in sizes and not isinstance(error, ShapeError):
                break
    assert failure is not None  # there is at least one size
    raise failure


def sizes_that_run(model: Model, make: Callable[[Sizes], list[Array]], graph: int = 0) -> Sizes:
    """Return the first sizes with which the graph at index ``graph`` runs; sizes of 1 if it runs with none.

    ``make``: a function that returns inputs of these sizes.  If no dimension is unknown, nothing is run.
    """
    if not has_unknown_dimensions(model.graphs[graph]):
        return SIZES_OF_1

    def attempt(sizes: Sizes) -> Sizes:
        run(model, make(sizes), graph)
        return sizes

    try:
        return first_that_runs(model.graphs[graph], attempt)
    except CirclekitError:
        return SIZES_OF_1


def _candidates(graph: Graph, sizes: Sequence[Sizes]) -> Iterator[Sizes]:
    """Yield ``sizes``, then the usable ones of LARGE_SIZES; only the first if no dimension is unknown."""
    if not has_unknown_dimensions(graph):
        yield sizes[0]
        return
    yield from sizes
    for item in LARGE_SIZES:
        if all(math.prod(item.fill(value.shape or ())) <= MAX_LARGE_ELEMENTS for value in graph.inputs):
            yield item
