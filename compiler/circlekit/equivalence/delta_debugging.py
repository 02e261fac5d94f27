# SPDX-License-Identifier: Apache-2.0
"""Reduce a model that shows a fault to a small model that shows the same fault.

A function or a command tests whether a model shows the fault.  The reduction removes operators and outputs,
resets attributes to their defaults, and makes sizes smaller and constants simpler.
Source of ``_Reducer.select``: Zeller and Hildebrandt, Simplifying and Isolating Failure-Inducing Input, 2002.
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import ParamSpec

import numpy as np

from circlekit.equivalence import reduction_steps
from circlekit.errors import CirclekitError, FileError, counted
from circlekit.io.write.file_writer import write_file
from circlekit.io.write.save import format_of, save
from circlekit.ir.graph import Model
from circlekit.ir.model_equality import difference
from circlekit.ir.resources.progress import Progress, progress, watched
from circlekit.ir.shape_inference import check_shapes
from circlekit.ir.text import print_model
from circlekit.ir.value import Array
from circlekit.ir.verifier import verify

P = ParamSpec("P")

MAX_TRIES = 2000
"""The default limit on the number of models that are tested; each test may run a slow command."""

Shows = Callable[[Model], bool]
"""A function that returns whether a valid model shows the fault.

A CirclekitError that it raises counts as False, except a FileError, which ends the reduction.
"""


def reduce_model(model: Model, shows: Shows, tries: int = MAX_TRIES) -> Model:
    """Reduce ``model``, for which ``shows`` must be true, until no step makes it smaller or simpler.

    Return the smallest model found for which ``shows`` is true; ``model`` itself is not changed.
    ``tries``: the largest number of tests; after these, the reduction ends.
    Raise FileError if ``shows`` raises it, because the test itself cannot run.
    """
    return _Reducer(model, shows, tries).run()


class _Reducer:
    """Reduces one model.  ``model``: the smallest model so far, which shows the fault.

    Each reduction step is a method that returns whether it found a smaller or simpler model.
    """

    def __init__(self, model: Model, shows: Shows, tries: int) -> None:
        self.model = model
        self.shows = shows
        self.tries_left = tries

    def run(self) -> Model:
        # a graph other than the main graph may show the fault by itself
        for graph in range(1, len(self.model.graphs)):
            if self.attempt(reduction_steps.with_main, self.model, graph):
                break
        self.attempt(reduction_steps.bare, self.model)
        steps = (
            self.inline_calls,
            lambda: self.select(reduction_steps.with_ops, len(self.model.main)),
            self.remove_ops_of_callees,
            lambda: self.select(reduction_steps.with_outputs, len(self.model.main.outputs)),
            self.reset_attributes, self.shrink_sizes, self.simplify_constants,
        )  # fmt: skip
        # ``sum`` runs all steps, ``any`` would stop at the first that finds a smaller model
        while sum(step() for step in steps) and self.tries_left > 0:
            pass
        return self.model

    def attempt(self, make: Callable[P, Model], *args: P.args, **keywords: P.kwargs) -> bool:
        """Keep the model that ``make`` returns if it is valid, different, and shows the fault.

        Return whether the model was kept.
        """
        if self.tries_left <= 0:
            return False
        try:
            candidate = make(*args, **keywords)
            if verify(candidate):
                return False
            check_shapes(candidate)
        except (CirclekitError, ValueError, IndexError, ArithmeticError):  # ``make`` or a shape rule failed
            return False
        if difference(self.model, candidate) is None:
            return False
        self.tries_left -= 1
        try:
            if not self.shows(candidate):
                return False
        except FileError:  # the test itself cannot run
            raise
        except CirclekitError:
            return False
        self.model = candidate
        return True

    # -- operators and outputs -----------------------------------------------------------------

    def inline_calls(self) -> bool:
        """Replace one operator that calls graphs by the operators of one of these graphs."""
        # (index of a graph, index of an operator in it, index among the graphs that the operator calls)
        calls = [
            (index, number, callee)
            for index, graph in enumerate(self.model.graphs)
            for number, op in enumerate(graph)
            for callee in range(len(op.called_graphs()))
        ]
        return any(self.attempt(reduction_steps.inlined, self.model, *call) for call in calls)

    def remove_ops_of_callees(self) -> bool:
        """Remove operators of called graphs one by one; keep the inputs and outputs of these graphs."""
        # (index of a graph, index of an operator in it), the last operator first
        places = [
            (graph, number)
            for graph in range(1, len(self.model.graphs))
            for number in reversed(range(len(self.model.graphs[graph])))
        ]
        # ``attempt`` returns False for a place that no longer exists
        removed = [self.attempt(reduction_steps.without_op, self.model, *place) for place in places]
        return any(removed)

    def select(self, with_items: Callable[[Model, Sequence[int]], Model], count: int) -> bool:
        """Keep few of ``count`` items: operators or outputs.

        The items are divided into parts.  First each part alone is tried, then all items without one part.
        If no such choice shows the fault, the parts are made smaller.
        ``with_items``: returns a model with only the items at the given indices.
        """
        start = self.model
        kept, parts = list(range(count)), 2
        while len(kept) > 1 and self.tries_left > 0:
            smaller = next((s for s in _choices(kept, parts) if self.attempt(with_items, start, s[0])), None)
            if smaller is not None:
                kept, parts = smaller
            elif parts >= len(kept):
                break
            else:
                parts = min(2 * parts, len(kept))
        return len(kept) < count

    # -- attributes, sizes, constants ----------------------------------------------------------

    def reset_attributes(self) -> bool:
        """Reset attributes to their defaults, one by one."""
        changed = False
        for index, graph in enumerate(self.model.graphs):
            for number, op in enumerate(graph.ops):
                for spec in op.attributes:
                    value = op.attribute_values.get(spec.name, spec.default)
                    if not spec.is_graph and value != spec.default:
                        changed |= self.attempt(
                            reduction_steps.with_default, self.model, index, number, spec.name
                        )
        return changed

    def shrink_sizes(self) -> bool:
        """Replace each size by the least of 1, 2, 3 and its half for which the fault remains.

        All dimensions of the same size change together.  Each new size is tried twice: first in dimensions,
        and in constants and attributes that may hold shapes; then in dimensions only.
        """
        changed = False
        for old in reduction_steps.sizes(self.model):
            smaller = sorted(new for new in {1, 2, 3, old // 2} if 0 < new < old)
            # (new size, whether it also replaces the old size in constants and attributes)
            choices = [(new, numbers) for new in smaller for numbers in (True, False)]
            changed |= any(
                self.attempt(reduction_steps.with_size, self.model, old, *choice) for choice in choices
            )
        return changed

    def simplify_constants(self) -> bool:
        """Replace the elements of float constants by zeros, ones or rounded numbers."""
        changed = False
        for index, graph in enumerate(self.model.graphs):
            for value in reduction_steps.constants(graph):
                if value.array().dtype.kind == "f" and value.array().size:
                    changed |= any(
                        self.attempt(reduction_steps.with_constant, self.model, index, value.name, array)
                        for array in _simpler_constants(value.array())
                    )
        return changed


def _choices(items: list[int], parts: int) -> Iterator[tuple[list[int], int]]:
    """Divide ``items`` into ``parts`` parts; yield each part alone, then all items without one part.

    With each choice comes the number of parts into which it is divided next.
    """
    bounds = list(pairwise(len(items) * part // parts for part in range(parts + 1)))
    yield from ((items[a:b], 2) for a, b in bounds)
    if parts > 2:  # with two parts, all items without one part are the other part, which is tried already
        yield from ((items[:a] + items[b:], parts - 1) for a, b in bounds)


def _simpler_constants(data: Array) -> Iterator[Array]:
    """Yield arrays that are simpler than ``data``, the elements of a constant; the simplest first.

    Stop at the first candidate that equals ``data``: the later ones are not simpler.  Leave out candidates
    with infinity or NaN, and repeated ones.  ``data`` is not empty.
    """
    with np.errstate(all="ignore"):
        candidates = [
            np.zeros_like(data),
            np.ones_like(data),
            np.full_like(data, np.rint(data.reshape(-1)[0])),
            np.rint(data),
            np.round(data, 1),
        ]
    for index, candidate in enumerate(candidates):
        if np.array_equal(candidate, data):
            return
        is_new = not any(np.array_equal(candidate, earlier) for earlier in candidates[:index])
        if is_new and np.isfinite(candidate).all():
            yield candidate


PATH_PLACEHOLDER = "{}"
"""In the words of a command, this text stands for the path of the model.

If no word contains it, the path is appended as the last word.
"""


def write_model(model: Model, path: Path) -> None:
    """Write a model in the format of the extension of ``path``; any other extension means the text form.

    Raise the errors of ``save``.
    """
    if format_of(path):
        save(model, path)
    else:
        write_file(path, [print_model(model).encode()])


@dataclass
class ShowsFault:
    """A test for ``reduce_model``: a model shows the fault if a command on its file ends with exit code 0.

    ``words``: the command.  ``path``: the file to which each model is written before the command runs.
    ``timeout``: the seconds after which the command is stopped; then the model does not show the fault.
    None: there is no limit.  ``runs``: how many runs were begun.
    """

    words: Sequence[str]
    path: Path
    timeout: float | None = None
    runs: int = 0

    def __call__(self, model: Model) -> bool:
        """Run the command on ``model``.

        Raise FileError if the command cannot be started, and the errors of ``write_model``.
        """
        self.runs += 1
        progress().begin(f"reducing: run {self.runs}, {counted(len(model.main), 'operator')}")
        with watched(Progress()):  # writing must not replace the progress message of this run
            write_model(model, self.path)
        words = [word.replace(PATH_PLACEHOLDER, str(self.path)) for word in self.words]
        if words == [*self.words]:  # no placeholder
            words.append(str(self.path))
        silent = subprocess.DEVNULL
        try:
            done = subprocess.run(
                words, stdin=silent, stdout=silent, stderr=silent, timeout=self.timeout, check=False
            )
        except subprocess.TimeoutExpired:
            return False
        except OSError as error:
            raise FileError(f"cannot run {self.words[0]}: {error.strerror}") from None
        return done.returncode == 0
