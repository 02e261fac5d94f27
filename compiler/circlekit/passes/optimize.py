# SPDX-License-Identifier: Apache-2.0
"""Runs passes over a model until none of them finds anything to change.

Over 120 lines because beside the driver it has every question about names of passes.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from circlekit.errors import RewriteError
from circlekit.ir.collector import paused
from circlekit.ir.graph import Model
from circlekit.ir.inference import settle_ranks
from circlekit.ir.lexer import near_miss
from circlekit.passes import all_passes
from circlekit.passes.pipelines import PIPELINES
from circlekit.passes.plugins import load_plugins
from circlekit.rewrite.base import PASSES, Context, Pass

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
    names = [item for item in passes if isinstance(item, str)]
    known = passes_with(names) if names else {}
    todo = [_resolve(item, known)() for item in passes]
    records = [PassRecord(p.name) for p in todo]
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
            with paused():
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


def find_pass(name: str) -> type[Pass]:
    """The pass of that name; RewriteError where there is none."""
    return _resolve(name, passes_with([name]))


def _resolve(item: type[Pass] | str, known: Mapping[str, type[Pass]]) -> type[Pass]:
    if not isinstance(item, str):
        return item
    if item not in known:
        raise RewriteError(unknown_name("pass", item, known))
    return known[item]


def passes_with(names: Iterable[str]) -> dict[str, type[Pass]]:
    """Every pass by name; those of other packages only if one of ``names`` is none of ours."""
    known = all_passes()
    if all(name in known or name in PIPELINES for name in names):
        return known
    load_plugins()
    return all_passes()


def check_settings(settings: Mapping[str, Any]) -> None:
    """RewriteError for a setting that no pass has."""
    known = [option.name for item in PASSES.values() for option in item.options]
    for name in settings:
        if name not in known:
            raise RewriteError(unknown_name("setting of a pass", name, known))


def pass_names(
    passes: str | Iterable[str], disable: Collection[str] = (), format: str | None = None
) -> list[str]:
    """The passes that are meant: the names of pipelines replaced by their passes, without ``disable``.

    A pass of a pipeline that makes no sense for ``format``, or would undo a pass that is named, is left
    out.  One that is named stays: what ``format`` lacks is replaced when the model is written.
    RewriteError for a name that is neither a pass nor a pipeline, in ``disable`` too.
    """
    asked = [passes] if isinstance(passes, str) else list(passes)
    if not asked and not disable:
        return []  # without a look at the passes, which takes longer than to copy a small model
    known = passes_with(asked)
    names: dict[str, None] = {}
    for name in asked:
        if name not in known and name not in PIPELINES:
            raise RewriteError(unknown_name("pass or pipeline", name, [*known, *PIPELINES]))
        of_pipeline = [
            n
            for n in PIPELINES.get(name, ())
            if (format is None or format in known[n].formats) and not known[n].undoes.intersection(asked)
        ]
        names.update(dict.fromkeys(of_pipeline if name in PIPELINES else (name,)))
    for name in disable:
        names.pop(find_pass(name).name, None)
    return list(names)


def only_pipelines(passes: str | Iterable[str]) -> bool:
    """Whether no pass is asked for by its own name."""
    return all(name in PIPELINES for name in ([passes] if isinstance(passes, str) else passes))


def unknown_name(kind: str, name: str, known: Iterable[str]) -> str:
    """The sentence for a name that does not exist, with the names that it may have meant."""
    return f"there is no {kind} {name!r}" + near_miss(name, known, 3)
