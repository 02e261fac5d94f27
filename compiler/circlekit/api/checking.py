# SPDX-License-Identifier: Apache-2.0
"""Find the operators of a model that a runtime cannot run."""

from __future__ import annotations

from circlekit.api.remedy_options import with_other_remedies
from circlekit.api.structure_checks import blaming_model
from circlekit.ir.graph import Model, check_model
from circlekit.passes.engine.remedies import with_remedies
from circlekit.targets.target_choice import TargetChoice, choose_targets
from circlekit.targets.unsupported import Finding, find_unsupported


def check(model: Model, target: TargetChoice = None) -> list[Finding]:
    """Return a finding for each operator, input and output of ``model`` that a target cannot run or take.

    The structure of the model is not checked; ``verify`` does that.
    ``target``: the runtimes (see ``TargetChoice``), for example their names, separated by commas; ``none``:
    no runtime, so there are no findings; None: litert for a TFLite model, and luci (ONE's interpreter) for a
    circle model.
    ``Finding`` describes the fields of a finding.  For an input or output, ``Finding.is_operator`` is False.
    The remedy of an operator is a conversion, a pipeline or a pass after which the target runs the operator;
    this was tried on a copy of ``model``.  If no conversion, pipeline or pass helps, the remedy says what to
    export instead.  In front of this advice, it names other help, if there is any: known shapes, a scheme of
    ``quantize`` in which the target has the operator, another runtime that runs the operator.
    Raise UnsupportedError for an unknown target, ModelError if a conversion or pass fails on a model that
    breaks a structural or shape rule.
    """
    check_model(model)
    findings: list[Finding] = []
    targets = choose_targets(target, model.format)
    with blaming_model(model):
        for chosen in targets:
            found = with_remedies(model, chosen, find_unsupported(model, chosen))  # conversions and passes
            findings += with_other_remedies(model, chosen, found)
    return findings
