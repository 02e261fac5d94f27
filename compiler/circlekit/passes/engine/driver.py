# SPDX-License-Identifier: Apache-2.0
"""Run passes over a model until none of them changes it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from circlekit.errors import RewriteError
from circlekit.ir.graph import Model
from circlekit.ir.shape_inference import settle_ranks
from circlekit.passes.engine.registry import find_pass
from circlekit.passes.pipelines import Phase
from circlekit.rewrite.base import Context, Pass

MAX_ROUNDS = 100

Before = Callable[[str], None]
After = Callable[[str, int], None]
Epochs = tuple[int, ...]
"""A number for each graph that increases with every change."""


@dataclass
class PassRecord:
    """What one pass did: the ``changes`` it made in ``runs`` runs."""

    name: str
    changes: int = 0
    runs: int = 0


def run_passes(
    model: Model,
    passes: Sequence[Phase | type[Pass] | str],
    context: Context,
    after: After | None = None,
    before: Before | None = None,
) -> list[PassRecord]:
    """Run ``passes`` in this order, again and again, until none of them changes the model.

    The passes of a phase, and those between two phases, run until they change nothing before the next ones
    run; then all run again.  ``before`` is called with the name of a pass that is about to run, ``after``
    with the name of one that has run, and how many changes it made.

    Returns a record for each pass.  RewriteError for an unknown name, and for passes that still change the
    model after MAX_ROUNDS rounds.
    """
    groups = [[_Step(item, before, after) for item in group] for group in _groups(passes)]
    if groups:
        settle_ranks(model, strict=False)
    for _ in range(MAX_ROUNDS):
        busy = [name for group in groups for name in _fixed_point(group, model, context)]
        if not busy:
            if context.format == "circle":
                _raise_versions(model)
            return [step.record for group in groups for step in group]
    raise _endless(busy)


def _groups(passes: Iterable[Phase | type[Pass] | str]) -> Iterator[list[type[Pass] | str]]:
    """The passes of each phase, and those between phases, in order."""
    loose: list[type[Pass] | str] = []
    for item in passes:
        if not isinstance(item, Phase):
            loose.append(item)
            continue
        if loose:
            yield loose
        loose = []
        yield list(item.passes)
    if loose:
        yield loose


class _Step:
    """A pass at its place in the order.  ``idle_at``: the epochs at which it found nothing to change."""

    def __init__(self, item: type[Pass] | str, before: Before | None, after: After | None) -> None:
        self.item = (find_pass(item) if isinstance(item, str) else item)()
        self.record = PassRecord(self.item.name)
        self.before = before
        self.after = after
        self.idle_at: Epochs | None = None

    def run(self, model: Model, context: Context) -> int:
        """Run the pass unless the model is as when it last found nothing; return its changes."""
        if self.idle_at == _epochs(model):
            return 0
        if self.before is not None:
            self.before(self.record.name)
        changes = self.item.run(model, context)
        self.record.changes += changes
        self.record.runs += 1
        self.idle_at = None if changes else _epochs(model)
        if self.after is not None:
            self.after(self.record.name, changes)
        return changes


def _fixed_point(steps: Sequence[_Step], model: Model, context: Context) -> list[str]:
    """Run ``steps`` until a round changes nothing; return the names of those that changed something."""
    changed: dict[str, None] = {}
    for _ in range(MAX_ROUNDS):
        busy = [step.record.name for step in steps if step.run(model, context)]
        if not busy:
            return list(changed)
        changed.update(dict.fromkeys(busy))
    raise _endless(busy)


def _endless(busy: Sequence[str]) -> RewriteError:
    return RewriteError(f"after {MAX_ROUNDS} rounds these passes still change the model: {', '.join(busy)}")


def _raise_versions(model: Model) -> None:
    """Clear the versions of operators that are too low for what the operators use; saving derives new ones.

    Exporters to circle write version 1 for every operator.  The versions in TFLite files come from a
    converter that computes them.
    """
    for op in model.ops():
        if op.version is not None and op.version < op.required_version():
            op.version = None


def _epochs(model: Model) -> Epochs:
    return tuple(graph.epoch for graph in model.graphs)
