# SPDX-License-Identifier: Apache-2.0
"""Runs passes over a model until none of them finds anything to change."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from circlekit.errors import RewriteError
from circlekit.ir.graph import Model
from circlekit.ir.shape_inference import settle_ranks
from circlekit.passes.engine.registry import find_pass
from circlekit.rewrite.base import Context, Pass

MAX_ROUNDS = 100

Before = Callable[[str], None]
After = Callable[[str, int], None]
Epochs = tuple[int, ...]


@dataclass
class PassRecord:
    """What one pass did: ``changes`` made in ``runs`` runs (a pass with nothing new to see is not run)."""

    name: str
    changes: int = 0
    runs: int = 0


def run_passes(
    model: Model,
    passes: Sequence[type[Pass] | str],
    context: Context,
    after: After | None = None,
    before: Before | None = None,
) -> list[PassRecord]:
    """Run ``passes`` in this order, again and again, until a whole round changes nothing.

    ``before`` is called with the name of a pass that is about to run, ``after`` with the name and the
    number of changes of one that has run.  Returns one record for each pass.  RewriteError for an
    unknown name, and for passes that never come to rest.
    """
    todo = [find_pass(item)() if isinstance(item, str) else item() for item in passes]
    records = [PassRecord(item.name) for item in todo]
    idle: list[Epochs | None] = [None] * len(todo)
    if todo:
        settle_ranks(model, strict=False)
    for _ in range(MAX_ROUNDS):
        busy = []
        for index, (item, record) in enumerate(zip(todo, records, strict=True)):
            if idle[index] == _epochs(model):
                continue
            if before is not None:
                before(item.name)
            changes = item.run(model, context)
            record.changes += changes
            record.runs += 1
            idle[index] = None if changes else _epochs(model)
            if changes:
                busy.append(item.name)
            if after is not None:
                after(item.name, changes)
        if not busy:
            if context.format == "circle":
                _mend_versions(model)
            return records
    raise RewriteError(f"after {MAX_ROUNDS} rounds these passes still change the model: {', '.join(busy)}")


def _mend_versions(model: Model) -> None:
    """Derive anew the versions of operators that use more than the version in their file allows for.

    Exporters to circle write 1 for everything; the versions in TFLite files come from a converter that
    knows them.
    """
    for op in model.ops():
        if op.version is not None and op.version < op.required_version():
            op.version = None


def _epochs(model: Model) -> Epochs:
    return tuple(graph.epoch for graph in model.graphs)
