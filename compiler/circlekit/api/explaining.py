# SPDX-License-Identifier: Apache-2.0
"""Explain why passes did not rewrite a model, or an operator of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from circlekit.api.options import with_records
from circlekit.api.structure_checks import blaming_model
from circlekit.io.write.save import check_format
from circlekit.ir.graph import Model, check_model
from circlekit.passes.engine import explain as engine
from circlekit.passes.engine.explanation import Explanation, OpExplanation
from circlekit.passes.engine.pass_settings import checked_settings
from circlekit.targets.target_choice import TargetChoice, choose_targets


def explain(
    model: Model,
    passes: str = engine.ALL_PASSES,
    format: str | None = None,
    settings: Mapping[str, Any] | None = None,
    target: TargetChoice = None,
) -> list[Explanation]:
    """Return what passes would rewrite in ``model``, and why not more; ``model`` is not changed.

    ``passes``: the name of a pass, or ``all``.  With ``all``, the pass that came nearest to one more rewrite
    comes first.
    ``format``: the format in which the model will be written.  ``settings``: {name of an option of a pass:
    value}.  ``target``: the runtimes that have to run the model.  The defaults are those of ``optimize``.
    Raise RewriteError for a pipeline, an unknown pass or a wrong setting; UnsupportedError for an unknown
    format or target; FileError, FormatError or LimitError if the file of a setting is unusable; ModelError if
    a pass fails on a model that breaks a structural or shape rule.  If a pass raises a CirclekitError, this
    error is raised; with ``all``, it is a remark in the explanation of the pass.
    """
    check_model(model)
    format = format or model.format
    check_format(format)
    values = with_records(checked_settings(settings))
    targets = choose_targets(target, format)
    with blaming_model(model):
        return engine.explain_passes(model, passes, format, values, targets=targets)


def explain_op(
    model: Model,
    which: str,
    format: str | None = None,
    settings: Mapping[str, Any] | None = None,
    target: TargetChoice = None,
) -> list[OpExplanation]:
    """Return for each chosen operator which passes would rewrite it, and why passes that come near do not.

    ``which``: chooses operators.  It is the name of a result (``%name`` or ``name``), a code
    (``TRANSPOSE``), the code of a custom operator, or the name of an operator class (``Transpose``).
    ``format``, ``settings``, ``target``: see ``explain``.
    If the model has no such operator, return [] for a code or class that circlekit declares, and raise
    ModelError for any other word.  The other errors are those of ``explain``, but a pass that raises a
    CirclekitError is left out.
    """
    check_model(model)
    format = format or model.format
    check_format(format)
    values = with_records(checked_settings(settings))
    targets = choose_targets(target, format)
    with blaming_model(model):
        return engine.explain_op(model, which, format, values, targets=targets)
