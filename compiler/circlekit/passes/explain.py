# SPDX-License-Identifier: Apache-2.0
"""Why a pass leaves things alone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from circlekit.ir.compare import clone
from circlekit.ir.graph import Model
from circlekit.passes.optimize import find_pass, run_passes
from circlekit.rewrite.base import Context, Refusal


def explain_pass(
    model: Model, name: str, format: str, settings: Mapping[str, Any] | None = None
) -> list[Refusal]:
    """The near misses of pass ``name`` on ``model``, once it has done what it can; the model stays as it is.

    For each operator only those refusals that got furthest, in the order of the operators.  RewriteError
    for an unknown pass.
    """
    explained = find_pass(name)
    copy = clone(model)
    run_passes(copy, [name], Context(format, settings=settings or {}))
    refusals: list[Refusal] = []
    explained().run(copy, Context(format, refusals=refusals, settings=settings or {}))
    return _furthest(refusals)


def _furthest(refusals: list[Refusal]) -> list[Refusal]:
    reached: dict[int, int] = {}
    for refusal in refusals:
        key = id(refusal.op)
        reached[key] = max(reached.get(key, refusal.progress), refusal.progress)
    best = {(id(r.op), r.sentence): r for r in reversed(refusals) if r.progress == reached[id(r.op)]}
    return list(best.values())[::-1]
