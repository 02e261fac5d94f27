# SPDX-License-Identifier: Apache-2.0
"""Run passes over a model until none of them changes it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import chain

from circlekit.errors import RewriteError
from circlekit.ir.graph import Graph, Model
from circlekit.ir.shape_inference import release_dims, settle_ranks
from circlekit.ir.value import Value
from circlekit.passes.engine.optimization_report import PassRecord
from circlekit.passes.engine.registry import find_pass
from circlekit.passes.engine.run_for_target import run_for_target
from circlekit.passes.pipelines import Phase
from circlekit.rewrite.base import Context, Pass, checked_changes

MAX_ROUNDS = 100
"""How many rounds a group of passes, and all groups together, may take; ``_rounds`` may add more.

In a round of a group, each of its passes runs once.  In a round of all groups, each group runs until it
changes nothing.
"""

BeforePass = Callable[[str], None]
AfterPass = Callable[[str, int], None]
"""A BeforePass is called with the name of a pass, an AfterPass also with the number of its changes."""

Epochs = tuple[int, ...]
"""For each graph of a model, a number that increases with every change of the graph."""


def run_passes(
    model: Model,
    passes: Sequence[Phase | type[Pass] | str],
    context: Context,
    after: AfterPass | None = None,
    before: BeforePass | None = None,
) -> list[PassRecord]:
    """Run ``passes`` in this order, again and again, until none of them changes the model.

    The passes of a phase, and consecutive passes outside of phases, form a group.  Each group runs until it
    changes nothing before the next group runs; then all groups run again.  ``before`` and ``after`` are
    called before and after each run of a pass.  Before each round, shapes that may be
    wrong become unknown (``settle_ranks``, ``release_dims``).  At the end, if the format of ``context`` is
    circle, operator versions that are too low are cleared, so that saving derives new ones.

    Return a record for each pass, in order.  Raise RewriteError for a name that no pass has (also for
    the name of a pipeline), or if passes still change the model after the last round that ``_rounds`` allows.
    """
    groups: list[list[_Step]] = []
    is_open = False  # whether the last group consists of passes outside of phases, and may get another
    for item in passes:
        is_phase = isinstance(item, Phase)
        if is_phase or not is_open:
            groups.append([])
        is_open = not is_phase
        members = item.passes if isinstance(item, Phase) else (item,)
        groups[-1] += [_Step(member, before, after) for member in members]
    for _ in _rounds(model):
        if groups:
            settle_ranks(model, strict=False)
            release_dims(model)
        changing = [name for group in groups for name in _fixed_point(group, model, context)]
        if not changing:
            if context.format == "circle":
                _clear_low_versions(model)
            return [step.record for group in groups for step in group]
    raise _no_fixed_point(changing)


class _Step:
    """A pass at its place in the order.

    ``idle_at``: the epochs of the model after the last run of the pass; None if that run changed something,
    or if there was none.
    """

    def __init__(self, item: type[Pass] | str, before: BeforePass | None, after: AfterPass | None) -> None:
        self.item = (find_pass(item) if isinstance(item, str) else item)()
        self.record = PassRecord(self.item.name)
        self.before = before
        self.after = after
        self.idle_at: Epochs | None = None

    def run(self, model: Model, context: Context) -> int:
        """Run the pass and return the number of its changes.

        The pass does not run if it changed nothing last time, and nothing has changed since.
        """
        if self.idle_at == _epochs(model):
            return 0
        if self.before is not None:
            self.before(self.record.name)
        changes = checked_changes(run_for_target(self.item, model, context), self.item, "run")
        self.record.changes += changes
        self.record.runs += 1
        self.idle_at = None if changes else _epochs(model)
        if self.after is not None:
            self.after(self.record.name, changes)
        return changes


def _fixed_point(steps: Sequence[_Step], model: Model, context: Context) -> list[str]:
    """Run ``steps`` until a round changes nothing; return the names of the passes that changed something."""
    changed: dict[str, None] = {}
    for _ in _rounds(model):
        changing = [step.record.name for step in steps if step.run(model, context)]
        if not changing:
            return list(changed)
        changed.update(dict.fromkeys(changing))
    raise _no_fixed_point(changing)


def _rounds(model: Model) -> Iterator[None]:
    """Yield once for each round that is allowed; the caller stops after a round that changes nothing.

    If the rounds end before that, the passes do not terminate, and the caller raises an error.
    There are at most MAX_ROUNDS rounds, plus one for each operator: in a deep model a rewrite may move an
    operator by one place in each round.  After MAX_ROUNDS, the rounds end as soon as a state of the model
    occurs again.
    """
    states = set[int]()
    for number in range(MAX_ROUNDS + sum(map(len, model.graphs))):
        if number >= MAX_ROUNDS:
            state = hash(tuple(_state(graph) for graph in model.graphs))
            if state in states:
                return
            states.add(state)
        yield


def _state(graph: Graph) -> tuple[object, ...]:
    """Return the operators of ``graph`` without names: codes, attributes, shapes of results, and operands.

    A number stands for an operand; None for a constant and for an absent operand.
    """
    numbers: dict[Value | None, int] = {}
    for value in chain(graph.inputs, *(op.results for op in graph)):
        numbers[value] = len(numbers)
    return tuple(
        (
            op.code,
            repr(op.attribute_items()),
            tuple(v.shape for v in op.results),
            *map(numbers.get, op.inputs),
        )
        for op in graph
    )


def _no_fixed_point(names: Sequence[str]) -> RewriteError:
    """Return the error for passes that do not terminate: ``names`` changed the model in the last round."""
    return RewriteError(
        f"after {MAX_ROUNDS} rounds or more, these passes still change the model: {', '.join(names)}"
    )


def _clear_low_versions(model: Model) -> None:
    """Clear operator versions that are too low for what the operators use; saving then derives new ones.

    Exporters to circle write version 1 for every operator, while TFLite's converter computes the versions.
    """
    for op in model.ops():
        if op.version is not None and op.version < op.required_version():
            op.version = None  # does not count as a change: by itself no reason to write a new file


def _epochs(model: Model) -> Epochs:
    return tuple(graph.epoch for graph in model.graphs)
