# SPDX-License-Identifier: Apache-2.0
"""``circlekit.check``: what a runtime cannot run, why, and what helps."""

from __future__ import annotations

import pytest

import circlekit
from circlekit.errors import ModelError, UnsupportedError
from circlekit.targets.target import Target
from tests.targets.toy import toy

HARD_SWISH = """
graph main(%x: f32[1,4]) -> %y {
  %a = Tanh(%x)
  %y = HardSwish(%a)
}
"""

HARD_SWISH_PARTS = ("TANH", "ADD", "MUL", "RELU6", "MAXIMUM", "MINIMUM", "DIV")

LRN = "graph main(%x: f32[1,2,2,4]) -> %y {\n  %y = LocalResponseNormalization(%x)\n}"


def test_a_finding_names_operator_place_reason_and_remedy() -> None:
    (finding,) = circlekit.check(circlekit.parse(HARD_SWISH), toy(*HARD_SWISH_PARTS))
    assert (finding.target, finding.graph, finding.index) == ("toy", "main", 1)
    assert (finding.operator, finding.result, finding.reason) == ("HARD_SWISH", "y", "Toy has no HARD_SWISH")
    assert finding.remedy


def test_a_remedy_is_a_pass_where_no_legalization_helps() -> None:
    """The remedy is a pass of O1, or a pass that is in no pipeline."""
    parts = "graph main(%x: f32[1,4], %z: f32[1,4]) -> %y {\n  %n = Neg(%z)\n  %y = Add(%x, %n)\n}"
    first, second = circlekit.check(circlekit.parse(parts), toy("SUB"))
    assert first.remedy == second.remedy == "circlekit optimize --O1 --target toy replaces it"
    minus = "graph main(%x: f32[1,4]) -> %y {\n  %y = Sub(%x, [1.0, 2.0, 3.0, 4.0])\n}"
    (finding,) = circlekit.check(circlekit.parse(minus), toy("ADD", "NEG", "MUL"))
    assert finding.remedy == "the pass --replace_sub_with_add replaces it"


INT8 = """
graph main(%x: i8[1,3,4,5] quant(scale: 0.5)) -> %y {
  %y = Transpose(%x, [0,2,3,1]) : i8[1,4,5,3] quant(scale: 0.5)
}
"""


INT8_CONSTANT = """
graph main(%x: i8[1,4] quant(scale: 0.5)) -> %y {
  %w = const i8[1,4] quant(scale: 0.25) [[1, 2, 3, 4]]
  %y = PRelu(%x, %w) : i8[1,4] quant(scale: 0.5)
}
"""


BLOCKS = """
graph main(%x: f32[?,4,4,2]) -> %y {
  %y = SpaceToDepth(%x) {block_size: 2} : f32[?,2,2,8]
}
"""


@pytest.mark.parametrize(
    ("text", "target", "remedy"),
    [
        (
            BLOCKS,
            "onert",
            "circlekit resize --shapes with known sizes of the inputs gives it a form that runs; or",
        ),
        (LRN, toy(), "luci runs it (--target luci); or export operators that Toy has instead"),
        (LRN, toy(), "litert runs it in a .tflite file (--target litert)"),
        (INT8, "luci", "circlekit quantize --scheme uint8 --target luci on the float model gives it"),
        (
            INT8_CONSTANT,
            "luci",
            "circlekit quantize --scheme uint8 --target luci on the float model gives it",
        ),
        (INT8, "luci", "export TRANSPOSE for f32,i32:f32 or i64,i32:i64 or u8,i32:u8 or u8q,i32:u8q instead"),
        (LRN, toy(LOCAL_RESPONSE_NORMALIZATION={"f32:f32": {"rank": 3}}), "NORMALIZATION with ranks up to 3"),
    ],
)
def test_a_remedy_is_an_option_or_another_export_where_no_pass_helps(
    text: str, target: Target | str, remedy: str
) -> None:
    (finding,) = circlekit.check(circlekit.parse(text), target)
    assert remedy in finding.remedy
    assert str(finding).endswith(f"{finding.reason}; {finding.remedy}")


@pytest.mark.parametrize("target", ["onert", "luci", toy()])
def test_the_remedy_of_an_operator_without_a_declaration(target: Target | str) -> None:
    """No scheme and no shapes are tried on such an operator."""
    text = """
    graph main(%x: f32[?,4]) -> %y {
      %y = Opaque(%x) {code: "CUSTOM", custom_code: "Mine"} : f32[?,4]
    }"""
    (finding,) = circlekit.check(circlekit.parse(text), target)
    assert finding.remedy.startswith("export ")


def test_a_model_that_runs_has_no_finding_and_stays_as_it_is() -> None:
    model = circlekit.parse(HARD_SWISH)
    before = str(model), model.main.ops, model.main.epoch
    assert circlekit.check(model, toy("TANH", "HARD_SWISH")) == []
    circlekit.check(model, toy("TANH"))
    assert (str(model), model.main.ops, model.main.epoch) == before


def test_each_of_several_targets_is_checked() -> None:
    found = circlekit.check(circlekit.parse(LRN), "luci,tflm")
    assert [finding.target for finding in found] == ["tflm"]  # luci, ONE's interpreter, has the kernel
    with pytest.raises(UnsupportedError, match="no target is named onnx"):
        circlekit.check(circlekit.parse(LRN), "luci,onnx")


def test_a_pass_that_fails_on_an_invalid_model_says_what_is_wrong_with_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fails(*arguments: object) -> None:
        raise IndexError("tuple index out of range")

    monkeypatch.setattr("circlekit.api.checking.with_remedies", fails)
    model = circlekit.parse(HARD_SWISH.replace("Tanh(%x)", "Tanh(%x) : f32[2]"))
    with pytest.raises(ModelError, match="the passes failed on an invalid model: %a has shape"):
        circlekit.check(model)


def test_graphs_may_have_the_same_name() -> None:
    """The remedy is that of the operator in the finding, though the last graph of this name is shorter."""
    first = LRN.replace("(%x)\n", "(%a)\n").replace("{\n", "{\n  %a = Neg(%x)\n")
    model = circlekit.parse(f"{first}\ngraph other(%u: f32[4]) -> %v {{\n  %v = Neg(%u)\n}}")
    model.graphs[1].name = "main"
    (finding,) = circlekit.check(model, toy("NEG"))
    assert (finding.graph, finding.index, finding.operator) == ("main", 1, "LOCAL_RESPONSE_NORMALIZATION")
    assert "luci runs it (--target luci)" in finding.remedy
