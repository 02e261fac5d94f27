# SPDX-License-Identifier: Apache-2.0
"""Why a pass leaves things alone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from circlekit.ir.graph import Model
from circlekit.ir.model_equality import clone
from circlekit.passes.engine.describe import rules_of
from circlekit.passes.engine.driver import run_passes
from circlekit.passes.engine.registry import find_pass
from circlekit.rewrite.base import Context, Pass, Refusal

MOST_FAR = 8
"""Far misses that are told: there may be as many as operators."""


def explain_pass(
    model: Model, name: str, format: str, settings: Mapping[str, Any] | None = None
) -> list[Refusal]:
    """The near misses of pass ``name`` on ``model``, once it has done what it can; the model stays as it is.

    For each operator only those refusals that got furthest, in the order of the operators.  Where there are
    none, and nothing was done, those of the far misses that came closest.  RewriteError for an unknown pass.
    """
    explained = find_pass(name)
    copy = clone(model)
    records = run_passes(copy, [name], Context(format, settings=settings or {}))
    refusals: list[Refusal] = []
    explained().run(copy, Context(format, refusals=refusals, settings=settings or {}))
    if not refusals and not any(record.changes for record in records):
        explained().run(copy, Context(format, refusals=refusals, far=True, settings=settings or {}))
        most = max((refusal.progress for refusal in refusals), default=0)
        refusals = [refusal for refusal in refusals if refusal.progress == most][:MOST_FAR]
        refusals = refusals or _without_beginning(copy, explained)
    return _furthest(refusals)


def _without_beginning(model: Model, item: type[Pass]) -> list[Refusal]:
    """That no operator is of the kind with which a picture begins, told of the first output."""
    roots = [rule.definition().before.root for rule in rules_of(item)]
    made = [v for v in model.main.outputs if v.producer is not None]
    if not roots or not made or any(root.fits(op) for root in roots for op in model.ops()):
        return []
    kinds = " or ".join(dict.fromkeys(root.kind_names() for root in roots[:MOST_FAR]))
    value, graph = made[0], model.main.name
    sentence = f"%{value.name}: no operator of its model is {kinds}"
    return [Refusal(item.name, graph, op, sentence, far=True) for op in [value.producer] if op is not None]


def _furthest(refusals: list[Refusal]) -> list[Refusal]:
    reached: dict[int, int] = {}
    for refusal in refusals:
        key = id(refusal.op)
        reached[key] = max(reached.get(key, refusal.progress), refusal.progress)
    best = {(id(r.op), r.sentence): r for r in reversed(refusals) if r.progress == reached[id(r.op)]}
    return list(best.values())[::-1]
