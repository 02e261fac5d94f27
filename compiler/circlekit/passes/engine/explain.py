# SPDX-License-Identifier: Apache-2.0
"""Explain why a pass did not rewrite a model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from circlekit.ir.clone import clone
from circlekit.ir.graph import Model
from circlekit.passes.engine.describe import rules_of
from circlekit.passes.engine.driver import run_passes
from circlekit.passes.engine.registry import find_pass
from circlekit.rewrite.base import Context, Pass, Refusal

MAX_PARTIAL_MATCHES = 8
"""How many partial matches are shown; there may be as many as operators."""


def explain_pass(
    model: Model, name: str, format: str, settings: Mapping[str, Any] | None = None
) -> list[Refusal]:
    """Return the near misses of the pass ``name`` that remain after it has run; ``model`` does not change.

    For each operator, the refusals that got furthest, in the order of the operators.  If the pass did nothing
    and there is no near miss, the partial matches that came closest.  RewriteError for an unknown pass.
    """
    explained = find_pass(name)
    copy = clone(model)
    context = Context(format, settings=settings or {})
    records = run_passes(copy, [name], context)
    refusals: list[Refusal] = []
    context = replace(context, refusals=refusals)
    explained().run(copy, context)
    if not refusals and not any(record.changes for record in records):
        explained().run(copy, replace(context, partial_matches=True))
        best = max((refusal.progress for refusal in refusals), default=0)
        refusals = [refusal for refusal in refusals if refusal.progress == best][:MAX_PARTIAL_MATCHES]
        refusals = refusals or _missing_root(copy, explained)
    return _furthest(refusals)


def _missing_root(model: Model, item: type[Pass]) -> list[Refusal]:
    """Return a refusal, at the first output, if the model has no operator that is the root of a picture."""
    roots = [rule.definition().before.root for rule in rules_of(item)]
    outputs = [value for value in model.main.outputs if value.producer is not None]
    if not roots or not outputs or any(root.fits(op) for root in roots for op in model.ops()):
        return []
    kinds = " or ".join(dict.fromkeys(root.kind_names() for root in roots[:MAX_PARTIAL_MATCHES]))
    sentence = f"%{outputs[0].name}: no operator of its model is {kinds}"
    op = outputs[0].producer
    return [] if op is None else [Refusal(item.name, model.main.name, op, sentence, is_partial=True)]


def _furthest(refusals: list[Refusal]) -> list[Refusal]:
    """Return the refusals with the highest progress of each operator, without repetitions."""
    reached: dict[int, int] = {}
    for refusal in refusals:
        key = id(refusal.op)
        reached[key] = max(reached.get(key, refusal.progress), refusal.progress)
    best = {(id(r.op), r.sentence): r for r in reversed(refusals) if r.progress == reached[id(r.op)]}
    return list(best.values())[::-1]
