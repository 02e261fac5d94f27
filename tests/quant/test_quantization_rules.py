# SPDX-License-Identifier: Apache-2.0
"""Every operator's quantization rule names its own operands, and fits the table of LiteRT."""

from __future__ import annotations

import pytest

from circlekit.ir.dtypes import BY_SHORT
from circlekit.ir.op import REGISTRY
from circlekit.ir.quantization_rule import QuantizationRule
from circlekit.targets.target import find_target

WITH_RULE = sorted(code for code, kind in REGISTRY.items() if kind.quantization_rule is not None)


def rule_of(code: str) -> QuantizationRule:
    rule = REGISTRY[code].quantization_rule
    assert rule is not None
    return rule


def test_rules_name_operands_and_results() -> None:
    for code in WITH_RULE:
        kind = REGISTRY[code]
        rule = rule_of(code)
        operands = {operand.name for operand in kind.operands}
        named = {*rule.operands_follow, *rule.weights, *rule.not_negative, *rule.not_zero}
        named |= {name for name in (rule.results_follow, rule.bias) if name is not None}
        assert named <= operands, code
        assert set(rule.symmetric) <= operands | set(kind.result_names), code


@pytest.mark.parametrize("code", ["LOGISTIC", "SOFTMAX", "LOG_SOFTMAX", "L2_NORMALIZATION", "TANH"])
def test_fixed_parameters_are_those_that_litert_was_measured_to_require(code: str) -> None:
    fixed = rule_of(code).fixed
    measured = {
        BY_SHORT[form.split(":")[1].removesuffix("q")]: tuple(constraints["scale"]["output"])
        for form, constraints in find_target("litert").operators[code]["forms"].items()
        if "scale" in constraints
    }
    assert measured
    assert {dtype: fixed[dtype] for dtype in measured} == measured
