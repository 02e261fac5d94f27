# SPDX-License-Identifier: Apache-2.0
"""The smallest model that still shows something: delta debugging over operators, sizes and constants.

Source of the first step: Zeller and Hildebrandt, Simplifying and Isolating Failure-Inducing Input, 2002.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import ParamSpec

import numpy as np

from circlekit.equivalence import submodel
from circlekit.errors import CirclekitError, FileError
from circlekit.ir.graph import Model
from circlekit.ir.model_equality import difference
from circlekit.ir.shape_inference import check_shapes
from circlekit.ir.value import Array
from circlekit.ir.verifier import verify

P = ParamSpec("P")

TRIES = 2000
"""Models that a reduction looks at, at most: each may be a run of a slow command."""

Shows = Callable[[Model], bool]
"""Whether a model, which is sound, still shows what is looked for; a CirclekitError says no."""


def reduce_model(model: Model, shows: Shows, tries: int = TRIES) -> Model:
    """A model that ``shows`` and of which no single operator, output, attribute, size or constant can go.

    ``model`` must show it, and stays as it is.  Ends early, with the smallest model so far, once ``shows``
    was asked ``tries`` times.
    """
    return _Reducer(model, shows, tries).run()


class _Reducer:
    """``model``: the smallest so far."""

    def __init__(self, model: Model, shows: Shows, tries: int) -> None:
        self.model = model
        self.shows = shows
        self.left = tries

    def run(self) -> Model:
        for graph in range(1, len(self.model.graphs)):
            if self.attempt(submodel.with_main, self.model, graph):
                break
        self.attempt(submodel.bare, self.model)
        steps = (
            self.flatter, self.fewer_ops, self.fewer_inner_ops, self.fewer_outputs, self.defaults,
            self.smaller, self.simpler,
        )  # fmt: skip
        while sum(step() for step in steps) and self.left > 0:
            pass
        return self.model

    def attempt(self, make: Callable[P, Model], *args: P.args, **keywords: P.kwargs) -> bool:
        """Take the model that ``make`` returns if it is sound and shows it."""
        if self.left <= 0:
            return False
        candidate = _sound(make, *args, **keywords)
        if candidate is None or difference(self.model, candidate) is None:
            return False
        self.left -= 1
        try:
            if not self.shows(candidate):
                return False
        except FileError:  # no fault of the candidate
            raise
        except CirclekitError:
            return False
        self.model = candidate
        return True

    # -- operators and outputs -----------------------------------------------------------------

    def flatter(self) -> bool:
        """A graph that an operator runs in the place of this operator, once."""
        changed = False
        while any(self.attempt(submodel.inlined, self.model, *call) for call in _calls(self.model)):
            changed = True
        return changed

    def fewer_inner_ops(self) -> bool:
        """Operators of the other graphs, one by one: what these get and give cannot change."""
        changed = False
        for graph in range(1, len(self.model.graphs)):
            if graph >= len(self.model.graphs):
                break
            for number in reversed(range(len(self.model.graphs[graph]))):
                changed |= self.attempt(submodel.without_op, self.model, graph, number)
                if graph >= len(self.model.graphs):
                    break
        return changed

    def fewer_ops(self) -> bool:
        return self.fewer(submodel.with_ops, len(self.model.main))

    def fewer_outputs(self) -> bool:
        return self.fewer(submodel.with_outputs, len(self.model.main.outputs))

    def fewer(self, select: Callable[[Model, Sequence[int]], Model], count: int) -> bool:
        """Delta debugging: parts alone, then all but a part, of ever smaller parts."""
        start = self.model
        kept, parts = list(range(count)), 2
        while len(kept) > 1:
            chunks = _chunks(kept, min(parts, len(kept)))
            others = [_without(kept, chunk) for chunk in chunks] if parts > 2 else []
            found = next((s for s in [*chunks, *others] if self.attempt(select, start, s)), None)
            if found is not None:
                parts = 2 if found in chunks else max(parts - 1, 2)
                kept = found
            elif parts >= len(kept):
                break
            else:
                parts = min(2 * parts, len(kept))
        return len(kept) < count

    # -- attributes, sizes, constants ----------------------------------------------------------

    def defaults(self) -> bool:
        """Attributes as their declarations have them."""
        changed = False
        for index, graph in enumerate(self.model.graphs):
            for number, op in enumerate(graph.ops):
                for spec in op.attributes:
                    if not spec.is_graph and op.attribute_items()[spec.name] != spec.default:
                        changed |= self.attempt(submodel.with_default, self.model, index, number, spec.name)
        return changed

    def smaller(self) -> bool:
        """Smaller dimensions."""
        return any([self.shrink(old) for old in submodel.sizes(self.model)])  # noqa: C419  # all of them

    def shrink(self, old: int) -> bool:
        """The dimensions of ``old``, as small as can be."""
        sizes = sorted(new for new in {1, 2, 3, old // 2} if 0 < new < old)
        choices = [(new, numbers) for new in sizes for numbers in (True, False)]
        return any(self.attempt(submodel.with_size, self.model, old, *choice) for choice in choices)

    def simpler(self) -> bool:
        """Float constants of rounder numbers."""
        changed = False
        for index, graph in enumerate(self.model.graphs):
            for value in submodel.constants(graph):
                if value.array().dtype.kind == "f" and value.array().size:
                    changed |= any(
                        self.attempt(submodel.with_constant, self.model, index, value.name, array)
                        for array in _rounder(value.array())
                    )
        return changed


def _sound(make: Callable[P, Model], *args: P.args, **keywords: P.kwargs) -> Model | None:
    """The model that ``make`` returns; None where there is none, or it breaks a rule."""
    try:
        candidate = make(*args, **keywords)
        if verify(candidate):
            return None
        check_shapes(candidate)
    except (CirclekitError, ValueError, IndexError, ArithmeticError):  # shape rules see sheer nonsense here
        return None
    return candidate


def _calls(model: Model) -> list[tuple[int, int, int]]:
    """(graph, operator, number of the graph that it runs) of everything that runs another graph."""
    return [
        (index, number, callee)
        for index, graph in enumerate(model.graphs)
        for number, op in enumerate(graph)
        for callee in range(len(op.called_graphs()))
    ]


def _without(items: Sequence[int], some: Sequence[int]) -> list[int]:
    gone = set(some)
    return [item for item in items if item not in gone]


def _chunks(items: Sequence[int], count: int) -> list[list[int]]:
    """``items`` in ``count`` parts of about one length."""
    bounds = [len(items) * part // count for part in range(count + 1)]
    return [list(items[a:b]) for a, b in pairwise(bounds)]


def _rounder(data: Array) -> Iterator[Array]:
    """Simpler contents for a constant, the simplest first, as long as they are simpler than ``data``."""
    with np.errstate(all="ignore"):
        candidates = [
            np.zeros_like(data),
            np.ones_like(data),
            np.full_like(data, np.rint(data.reshape(-1)[0])),
            np.rint(data),
            np.round(data, 1),
        ]
    for candidate in candidates:
        if np.array_equal(candidate, data):
            return
        if np.isfinite(candidate).all():
            yield candidate
