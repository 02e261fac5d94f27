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
    """Return what a pass would rewrite in ``model``, and why not more; ``model`` stays as it is.

    ``passes``: the name of a pass, or ``all``: then the pass with the nearest miss comes first.  ``format``,
    ``settings`` and ``target``: as for ``optimize``.  Raise RewriteError for an unknown pass.
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
    """Return which passes come nearest to rewriting an operator of ``model``, and why they do not.

    ``which``: the name of a result (``%name``), a code (``TRANSPOSE``), a custom code, or a class name; there
    is an item for each operator that it names.  Raise ModelError if it is neither a name of the model nor
    that of a declared operator.
    """
    check_model(model)
    format = format or model.format
    return engine.explain_op(model, which, format, settings, targets=choose_targets(target, format))
