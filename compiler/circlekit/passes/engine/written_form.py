# SPDX-License-Identifier: Apache-2.0
"""Whether targets run an operator in the form in which legalization writes it."""

from __future__ import annotations

from circlekit.ir.graph import Model
from circlekit.ir.op import Op
from circlekit.passes.engine.legalize import legalize
from circlekit.passes.support.lone_model import can_stand_alone, is_folded, lone_model
from circlekit.rewrite.base import TargetRules
from circlekit.targets.delegation import Delegation, find_delegation
from circlekit.targets.findings import Refusal, TargetSet
from circlekit.targets.operator_form import form_of
from circlekit.targets.target import Target


def written_refusal(targets: TargetSet, format: str, check: Refusal | None = None) -> Refusal:
    """Return a function that says why ``targets`` do not take an operator when it is written as ``format``.

    The function returns None for an operator that they take, or for which legalization writes operators that
    they take; an operand that constant folding will compute counts as constant.  ``check``: one of
    ``targets.checks``, by default the first: whether they run it.
    """
    check = check or targets.refusal
    runs: dict[object, bool] = {}  # legalization is slow: once for operators that are alike

    def refusal(op: Op) -> str | None:
        sentence = check(op)
        if sentence is None or not can_stand_alone(op):
            return sentence
        shapes = tuple(value and value.shape for value in (*op.inputs, *op.results))
        constant = tuple(value is None or is_folded(value) for value in op.inputs)
        key = (sentence, form_of(op), shapes, constant, repr(op.attribute_items()))
        if key not in runs:
            written = legalize(lone_model(op), format, targets=targets.legalized, is_excerpt=True)
            runs[key] = all(check(made) is None for made in written.ops())
        return None if runs[key] else sentence

    return refusal


def written_delegation(model: Model, format: str, target: Target) -> Delegation | None:
    """Return what the delegate of ``target`` runs of the main graph of ``model``, written without passes.

    ``format``: what is written, if the target reads that.  Return None if there is no delegate.
    """
    if not target.delegated:
        return None
    format = format if format in target.formats else min(target.formats)
    return find_delegation(legalize(model, format).main, target)


def rules_of_targets(targets: TargetSet, format: str) -> TargetRules | None:
    """Return the rules for a model that has to run on all of ``targets`` when it is written as ``format``.

    Return None if there are no targets.
    """
    if not targets:
        return None
    checks = [written_refusal(targets, format, check) for check in targets.checks]
    names = tuple(target.name for target in targets)
    run_bytes = max(target.run_bytes for target in targets)
    return TargetRules(checks, names, targets.is_default, run_bytes=run_bytes)
