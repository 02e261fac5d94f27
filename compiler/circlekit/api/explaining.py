# SPDX-License-Identifier: Apache-2.0
"""Explain why passes did not rewrite a model, or an operator of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from circlekit.api.models import check_model
from circlekit.ir.graph import Model
from circlekit.passes.engine import explain as engine
from circlekit.passes.engine.explanation import Explanation, OpExplanation
from circlekit.targets.findings import TargetChoice, choose_targets


def explain(
    model: Model,
    passes: str = engine.ALL_PASSES,
    format: str | None = None,
    settings: Mapping[str, Any] | None = None,
    target: TargetChoice = None,
) -> list[Explanation]:
    """Return what passes would rewrite in ``model``, and why not more; ``model`` is not changed.

    ``passes``: the name of a pass, or ``all``; with ``all``, the pass with the nearest miss comes first.
    ``format``, ``settings``, ``target``: see ``optimize``.
    Raise RewriteError for an unknown pass, UnsupportedError for an unknown target.
    """
    check_model(model)
    format = format or model.format
    return engine.explain_passes(model, passes, format, settings, targets=choose_targets(target, format))


def explain_op(
    model: Model,
    which: str,
    format: str | None = None,
    settings: Mapping[str, Any] | None = None,
    target: TargetChoice = None,
) -> list[OpExplanation]:
    """Return for each chosen operator which passes come nearest to rewriting it, and why they do not.

    ``which``: chooses operators by the name of a result (``%name``), a code (``TRANSPOSE``), the code of a
    custom operator, or a class name.
    ``format``, ``settings``, ``target``: see ``optimize``.
    Return [] if ``which`` names a declared operator, but the model has no such operator.  Raise ModelError if
    ``which`` names nothing in the model and no declared operator, UnsupportedError for an unknown target.
    """
    check_model(model)
    format = format or model.format
    return engine.explain_op(model, which, format, settings, targets=choose_targets(target, format))
