# SPDX-License-Identifier: Apache-2.0
"""Whether targets run what legalization writes for an operator."""

from __future__ import annotations

from pathlib import Path

import pytest

import circlekit
from circlekit.api.options import Options
from circlekit.ir.op import Op
from circlekit.passes.engine.written_form import rules_of_targets, written_refusal
from circlekit.targets.target_choice import choose_targets


def op_of(call: str) -> Op:
    return circlekit.parse(f"graph main(%x: f32[1,2,2,3]) -> %y {{ %y = {call} }}").main.ops[0]


def test_operators_run_as_what_is_written_for_them() -> None:
    """TFLite has no RMS_NORM; legalization writes five operators that LiteRT has."""
    targets = choose_targets("litert", "tflite")
    refusal = written_refusal(targets, "tflite")
    custom = op_of('Opaque(%x) {code: "CUSTOM", custom_code: "Mine"} : f32[1,2,2,3]')
    norm, plain = op_of("RmsNorm(%x, [1.0])"), op_of("Abs(%x)")
    assert targets.refusal(norm) is not None
    assert refusal(norm) is None
    assert refusal(plain) is None
    assert refusal(custom) == targets.refusal(custom) == "LiteRT has no custom Mine"
    rules = rules_of_targets(targets, "tflite")
    assert rules is not None
    assert [op.code for op in rules.written(norm)] == ["SQUARE", "MEAN", "ADD", "RSQRT", "MUL"]
    assert list(rules.written(custom)) == [custom]
    assert list(rules.written(plain)) == [plain]


def test_operators_that_differ_in_a_constant_or_scale_are_legalized_apart() -> None:
    """With the factors [1, 1, 1], RMS_NORM needs no second MUL.  GATHER, for GATHER_ND, keeps the scale."""
    rules = rules_of_targets(choose_targets("litert", "tflite"), "tflite")
    assert rules is not None
    counts = [len(rules.written(op_of(f"RmsNorm(%x, {gamma})"))) for gamma in ([1, 1, 1], [1, 2, 1])]
    assert counts == [5, 6]
    model = circlekit.parse(
        "graph main(%x: i8[4,3] quant(scale: 0.5, zero_point: 0)) -> %a, %b {\n"
        "  %a = GatherNd(%x, [[0],[1]]) : i8[2,3] quant(scale: 0.5, zero_point: 0)\n"
        "  %b = GatherNd(%x, [[0],[1]]) : i8[2,3] quant(scale: 0.25, zero_point: 0)\n}"
    )
    refusal = written_refusal(choose_targets("luci", "circle"), "circle")
    assert [refusal(op) is None for op in model.main] == [True, False]


def test_without_targets_there_are_no_rules() -> None:
    assert rules_of_targets(choose_targets("none", "tflite"), "tflite") is None


SELECTED = """
    graph main(%x: f32[1,3]) -> %z {
      %c = Greater(%x, 0.0)
      %n = Mul(%x, [0.1, 0.2, 0.3])
      %z = SelectV2(%c, %x, %n)
    }
"""
"""Three operators; without PRELU, legalization writes four: RELU, MINIMUM, MUL, ADD."""


def test_no_operator_that_would_be_written_as_more_than_it_replaces() -> None:
    """PRELU is missing in onert."""
    model = circlekit.parse(SELECTED)
    report = circlekit.optimize(model, "O1", target="onert", format="circle")
    assert [op.code for op in model.main] == ["GREATER", "MUL", "SELECT_V2"]
    assert (report.changes, report.legalizations) == ({}, {})
    explanation = circlekit.optimize(model, "O1", target="onert", format="circle", explain="fuse_prelu")
    assert "a target has no PRELU: 4 operators would be written instead of 3" in str(explanation.explanations)
    circlekit.optimize(model, "O1", target="luci", format="circle")
    assert [op.code for op in model.main] == ["PRELU"]


def test_pipelines_improve_what_legalization_wrote() -> None:
    """HARD_SWISH is missing in onert.  The ADD takes the RELU6; no pass makes a HARD_SWISH again."""
    model = circlekit.parse("graph main(%x: f32[1,3]) -> %y { %y = HardSwish(%x) }")
    circlekit.optimize(model, "O1", verify=True, target="onert", format="circle")
    assert [op.code for op in model.main] == ["ADD", "MUL", "MUL"]


ROUND_TRIPS = [
    ("luci", "circle", "%t = TransposeConv([1,2,2,1], [[[[1.0, -2.0, 0.5]]]], %x)  %y = Relu(%t)"),
    ("onert", "circle", "%t = Maximum(%x, -1.0)  %y = Minimum(%t, 1.0)"),
]
"""(target, format, operators): a pass fuses the two operators, and legalization makes the same two again."""


@pytest.mark.parametrize(("target", "format", "body"), ROUND_TRIPS)
def test_it_is_no_change_if_legalization_undoes_the_passes(
    target: str, format: str, body: str, tmp_path: Path
) -> None:
    model = circlekit.parse(f"graph main(%x: f32[1,2,2,3]) -> %y {{ {body} }}")
    codes = [op.code for op in model.main]
    path, again = tmp_path / f"model.{format}", tmp_path / f"again.{format}"
    circlekit.save(model, path)
    report = circlekit.convert(path, again, Options(("O1",), target=target))
    assert (report.changes, report.legalizations, report.unchanged) == ({}, {}, True)
    assert again.read_bytes() == path.read_bytes()
    report = circlekit.optimize(model, "O1", verify=True, target=target, format=format)
    assert report.changes == {}
    assert [op.code for op in model.main] == codes
