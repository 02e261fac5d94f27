# SPDX-License-Identifier: Apache-2.0
"""Convolutions of groups of channels become one grouped Conv2D in TFLite; circle's runtimes lack the form."""

from __future__ import annotations

import numpy as np
import pytest

import circlekit
from circlekit.index_maps.of_operators import Movement, movement_of
from circlekit.ir.op import Op
from circlekit.ir.text import parse_model
from circlekit.passes.engine.registry import all_passes
from circlekit.passes.fuse import join_grouped_convolution
from circlekit.rewrite.base import Context
from tests.ops.litert import run_litert
from tests.passes.kit import check_pass

NAME = "join_grouped_convolution"

WEIGHTS = """
    %v = const f32[3,3,3,2] gaussian(0, 1)
    %w = const f32[3,3,3,2] gaussian(0, 1)
"""

LAST = (
    WEIGHTS
    + """
    %a, %b = Split(3, %x) {num_splits: 2}
    %c = Conv2D(%a, %v, [1.0, 2.0, 3.0]) {act: RELU}
    %d = Conv2D(%b, %w, [4.0, 5.0, 6.0]) {act: RELU}
    %y = Concatenation(%c, %d) {axis: 3}
"""
)
"""Channels last."""

FIRST = (
    WEIGHTS
    + """
    %a = Slice(%x, [0,0,0,0], [1,2,6,5])
    %b = Slice(%x, [0,2,0,0], [1,2,6,5])
    %ta = Transpose(%a, [0,2,3,1])
    %tb = Transpose(%b, [0,2,3,1])
    %c = Conv2D(%ta, %v, [1.0, 2.0, 3.0]) {dilation_w: 2}
    %d = Conv2D(%tb, %w, [4.0, 5.0, 6.0]) {dilation_w: 2}
    %tc = Transpose(%c, [0,3,1,2])
    %td = Transpose(%d, [0,3,1,2])
    %y = Concatenation(%tc, %td) {axis: 1}
"""
)
"""Channels first, as exporters write it."""


def net(body: str, shape: str = "1,6,5,4", outputs: str = "%y") -> str:
    return f"graph main(%x: f32[{shape}]) -> {outputs} {{ {body} }}"


@pytest.mark.parametrize(
    ("body", "shape", "ops"),
    [(LAST, "1,6,5,4", ["Conv2D"]), (FIRST, "1,4,6,5", ["Transpose", "Conv2D", "Transpose"])],
    ids=["last", "first"],
)
def test_groups_become_one_convolution(body: str, shape: str, ops: list[str]) -> None:
    check_pass(net(body, shape), NAME, ops, format="tflite")


@pytest.mark.parametrize(
    ("shape", "part", "joined"),
    [
        ("?,4,6,5", "[-1,2,6,5]", True),
        ("1,4,6,?", "[1,2,6,-1]", True),
        ("?,4,6,5", "[1,2,6,5]", False),  # perhaps not all of the batch
        ("?,4,6,?", "[-1,2,6,-1]", False),
        ("1,?,6,5", "[1,2,6,5]", False),
    ],
)
def test_one_dimension_but_the_channels_may_be_unknown(shape: str, part: str, joined: bool) -> None:
    body = FIRST.replace("[1,2,6,5]", part)
    model = parse_model(net(body, shape))
    assert all_passes()[NAME]().run(model, Context("tflite")) == joined
    x = np.random.default_rng(5).normal(size=(1, 4, 6, 5)).astype(np.float32)
    (expected,), (result,) = circlekit.run(parse_model(net(body, shape)), [x]), run_litert(model.main, [x])
    np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-4)


def test_a_split_is_examined_once(monkeypatch: pytest.MonkeyPatch) -> None:
    examined = []

    def recorded(op: Op) -> Movement | None:
        examined.append(type(op).__name__)
        return movement_of(op)

    monkeypatch.setattr(join_grouped_convolution, "movement_of", recorded)
    check_pass(net(LAST), NAME, ["Conv2D"], format="tflite")
    assert examined == ["Split"]


def test_groups_without_bias() -> None:
    body = LAST.replace(", [1.0, 2.0, 3.0])", ")").replace(", [4.0, 5.0, 6.0])", ")")
    check_pass(net(body), NAME, ["Conv2D"], format="tflite")
    check_pass(net(body.replace("%a, %v)", "%a, %v, [1.0, 2.0, 3.0])")), NAME, ["Conv2D"], format="tflite")


def test_groups_of_other_dimensions_than_channels_stay() -> None:
    images = LAST.replace("%a, %b = Split(3, %x) {num_splits: 2}", "%a, %b = Unpack(%x) {num: 2}")
    kinds = ["Unpack", "Conv2D", "Conv2D", "Concatenation"]
    check_pass(net(images, "2,1,6,5,2"), NAME, kinds, format="tflite")
    rows = LAST.replace("Split(3, %x)", "Split(1, %x)")
    check_pass(net(rows, "1,12,5,2"), NAME, refused="%c: does not read the channels", format="tflite")


@pytest.mark.parametrize(("kind", "operands"), [("Reshape", "%x, [1,6,5,2]"), ("Abs", "%x")])
def test_groups_of_values_that_are_not_parts_stay(kind: str, operands: str) -> None:
    parts = f"%a = {kind}({operands})\n%b = {kind}({operands})"
    body = LAST.replace("%a, %b = Split(3, %x) {num_splits: 2}", parts)
    shape = "1,5,6,2" if kind == "Reshape" else "1,6,5,2"
    check_pass(net(body, shape), NAME, [kind, kind, "Conv2D", "Conv2D", "Concatenation"], format="tflite")


def test_groups_of_a_variable_stay() -> None:
    text = net(LAST).replace("%x: f32[1,6,5,4]", "")
    model = parse_model(text.replace("{", "{ %x: f32[1,6,5,4] variable", 1))
    assert all_passes()[NAME]().run(model, Context("tflite")) == 0


def test_groups_of_a_split_along_a_computed_axis_stay() -> None:
    for axis, changes in (("%s", 0), ("3", 1)):
        split = f"Split({axis}, %x) {{num_splits: 2}} : f32[1,6,5,2], f32[1,6,5,2]"
        body = LAST.replace("Split(3, %x) {num_splits: 2}", split)
        model = parse_model(net(body).replace("%x:", "%s: i32[], %x:"))
        assert all_passes()[NAME]().run(model, Context("tflite")) == changes


def test_transposes_by_a_computed_perm_stay() -> None:
    text = net(FIRST, "1,4,6,5").replace("%x:", "%p: i32[4], %x:")
    for name, perm in (("tc", "[0,3,1,2]"), ("ta", "[0,2,3,1]")):
        shape = "f32[1,3,6,5]" if name == "tc" else "f32[1,6,5,2]"
        line = next(line for line in text.splitlines() if f"%{name} =" in line)
        model = parse_model(text.replace(line, f"{line.replace(perm, '%p')} : {shape}"))
        assert all_passes()[NAME]().run(model, Context("tflite")) == 0


def test_a_group_with_another_user_stays() -> None:
    body = LAST.replace("%y = Concatenation", "%n = Neg(%c) %y = Concatenation")
    check_pass(
        net(body, outputs="%y, %n"),
        NAME,
        ["Split", "Conv2D", "Conv2D", "Neg", "Concatenation"],
        format="tflite",
    )


@pytest.mark.parametrize("format", ["tflite", "circle"])
def test_o1_joins_groups_for_runtimes_that_have_the_form(format: str) -> None:
    model = parse_model(net(LAST))
    circlekit.optimize(model, "O1", format=format)
    assert len(model.main) == (1 if format == "tflite" else 4)
