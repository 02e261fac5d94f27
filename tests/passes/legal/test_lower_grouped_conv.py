# SPDX-License-Identifier: Apache-2.0
"""Grouped convolutions become convolutions of the parts of a split."""

from __future__ import annotations

import pytest

from circlekit.ir.model_equality import difference
from circlekit.ir.text import parse_model
from circlekit.passes.engine.legalize import legalize
from circlekit.targets.target import find_target
from tests.passes.legal.made_up_runtimes import check, runtime

UNGROUPED = {"same_dims": [["filter", -1, "input", -1]]}
NO_GROUPS = runtime(forms={"CONV_2D": {"f32,f32,f32:f32": UNGROUPED, "f32,f32:f32": UNGROUPED}})
GROUPED = """
    %w = const f32[6,3,3,2] gaussian(0, 1)
    %y = Conv2D(%x, %w, [0.1, 0.2, 0.3, 0.4, 0.5, 0.6]) {act: RELU6, padding: VALID, dilation_w: 2}
"""


def test_grouped_convolution() -> None:
    check(GROUPED, runtime(), "Conv2D")
    check(GROUPED, NO_GROUPS, "Split Conv2D Conv2D Concatenation")
    check(GROUPED.replace("f32[6,3,3,2]", "f32[6,3,3,4]"), NO_GROUPS, "Conv2D")
    unbiased = GROUPED.replace(", [0.1, 0.2, 0.3, 0.4, 0.5, 0.6]", "")
    check(unbiased, NO_GROUPS, "Split Conv2D Conv2D Concatenation")


@pytest.mark.parametrize("shape", ["1,8,6,4", "?,8,6,4", "?,?,?,4"])
def test_only_the_channels_must_be_known(shape: str) -> None:
    onert = find_target("onert")
    model = parse_model(f"graph main(%x: f32[{shape}]) -> %y {{\n{GROUPED}\n}}")
    legal = legalize(model, "circle", targets=[onert])
    assert [type(op).__name__ for op in legal.main] == ["Split", "Conv2D", "Conv2D", "Concatenation"]
    assert not any(onert.refusal(op) for op in legal.main)
    if shape == "?,8,6,4":
        check(GROUPED, NO_GROUPS, "Split Conv2D Conv2D Concatenation", shape=shape)


@pytest.mark.parametrize(
    "text",
    [
        f"graph main(%x: f32[1,8,6,?]) -> %y {{\n{GROUPED}\n}}",  # an unknown number of channels
        "graph main(%x: f32[1,8,6,4], %w: f32[6,3,3,2]) -> %y { %y = Conv2D(%x, %w) }",  # no constant
    ],
)
def test_a_convolution_that_cannot_be_divided_stays(text: str) -> None:
    model = parse_model(text)
    assert difference(legalize(model, "circle", targets=[NO_GROUPS]), model) is None


def test_a_convolution_stays_if_the_runtime_would_not_run_the_parts() -> None:
    no_join = runtime("CONCATENATION", {"CONV_2D": {"f32,f32,f32:f32": UNGROUPED}})
    check(GROUPED, no_join, "Conv2D")
