# SPDX-License-Identifier: Apache-2.0
"""Data movement that a runtime lacks is written as slices, joined or repeated, with equal values.

``runtime("TILE")`` is a runtime that has all operators but TILE.
"""

from __future__ import annotations

import numpy as np
import pytest

from circlekit.interp.interpreter import run
from circlekit.ir.graph import Model
from circlekit.ir.text import parse_model
from circlekit.passes.engine.legalize import legalize
from circlekit.passes.legal import lower_padding
from circlekit.passes.legal.move_by_slices import MAX_PIECES
from tests.passes.kit import make_input
from tests.passes.legal.made_up_runtimes import check, runtime


@pytest.mark.parametrize(
    ("body", "ops"),
    [
        ("%y = Tile(%x, [1,1,1,1])", "Reshape"),
        ("%y = StridedSlice(%x, [0,1,0,0], [1,5,5,4], [1,1,1,1])", "Slice"),
        ("%y = StridedSlice(%x, [0,1,0,0], [1,5,5,4], [1,1,1,1]) {shrink_axis_mask: 2}", "Slice Reshape"),
        ("%y = StridedSlice(%x, [0,1,1,0], [1,8,6,4], [1,2,3,1])", "Reshape Slice Reshape"),
        ("%y = StridedSlice(%x, [0,2,0,0], [1,7,6,4], [1,3,1,1])", "Slice Reshape Slice Reshape"),
        ("%y = StridedSlice(%x, [0,7,0,0], [1,0,6,4], [1,-3,1,1])", "Slice Slice Slice Concatenation"),
        ("%y = Gather(%x, [2,3,4]) {axis: 1}", "Slice"),
        ("%y = Gather(%x, 5) {axis: 2}", "Slice Reshape"),
        ("%y = Gather(%x, [0,1,5,2,3]) {axis: 2}", "Slice Slice Slice Concatenation"),
        ("%y = Gather(%x, [1,0,2,3]) {axis: 3}", "Gather"),
        ("%y = Gather(%x, [2,3,0,1]) {axis: 3}", "Slice Slice Concatenation"),
        ("%y = Gather(%x, [2,2,3,3,4,4]) {axis: 1}", "Slice Reshape Mul Reshape"),
        ("%y = Gather(%x, [2,3,4,2,3,4]) {axis: 1}", "Slice Reshape Mul Reshape"),
        ("%y = MirrorPad(%x, [[0,0],[1,1],[0,0],[0,0]])", "Slice Slice Concatenation"),
        ("%y = MirrorPad(%x, [[0,0],[2,2],[0,0],[0,0]])", "Slice Slice Slice Slice Concatenation"),
        ("%y = ReverseV2(%x, [2])", "Slice Slice Slice Slice Slice Slice Concatenation Concatenation"),
        ("%y = Tile(%x, [1,1,2,1])", "Reshape Mul Reshape"),
        ("%y = BroadcastTo(%x, [3,8,6,4])", "Reshape Mul Reshape"),
        ("%y = BroadcastTo(%x, [2,1,8,6,4])", "Reshape Reshape Mul Reshape"),
        ("%y = ResizeNearestNeighbor(%x, [16,18])", "Reshape Mul Reshape"),
        ("%y = ResizeNearestNeighbor(%x, [8,9])", "Slice Slice Slice Slice Concatenation"),
        ("%y = Pack(%x, %x) {axis: 2, values_count: 2}", "Reshape Reshape Concatenation"),
    ],
)
def test_operators_that_replace_a_movement(body: str, ops: str) -> None:
    code = parse_model(f"graph main(%x: f32[1,8,6,4]) -> %y {{ {body} }}").main.ops[0].code
    check(body, runtime(f"{code} GATHER" if ops != "Gather" else code), ops)


def test_a_gather_with_computed_indices_stays() -> None:
    text = "graph main(%i: i32[2]) -> %y {\n %t = const i32[3,2] [[0,1],[1,0],[2,2]]\n %y = Gather(%t, %i)\n}"
    assert kinds(legalize(parse_model(text), "circle", targets=[runtime("GATHER")])) == ["Gather"]


# MAX_PIECES is 10: two concatenations of 5 slices, and one that joins these
@pytest.mark.parametrize(("rows", "joins"), [(MAX_PIECES, 3), (MAX_PIECES + 1, 0)])
def test_the_number_of_slices_is_limited(rows: int, joins: int) -> None:
    expected = ["Slice"] * rows + ["Concatenation"] * joins if joins else ["ReverseV2"]
    check("%y = ReverseV2(%x, [0])", runtime("REVERSE_V2 GATHER"), " ".join(expected), shape=f"{rows},2")


def test_each_result_of_unpack_is_a_slice() -> None:
    parts = "%a, %b, %c"
    check(
        f"{parts} = Unpack(%x) {{axis: 1, num: 3}}", runtime("UNPACK"), "Slice Reshape " * 3, parts, "2,3,2"
    )


@pytest.mark.parametrize(
    ("kind", "movement", "ops"),
    [
        ("i32[2,3]", "Tile(%x, [2,1]) : i32[4,3]", "Reshape Concatenation Reshape"),
        ("i8[1,2,3,4] Q", "ResizeNearestNeighbor(%x, [4,9]) : i8[1,4,9,4] Q",
         "Reshape Concatenation Concatenation Reshape"),
        ("u8[2,1] Q", "BroadcastTo(%x, [2,3]) : u8[2,3] Q", "Reshape Concatenation Reshape"),
        ("i32[2,1]", "BroadcastTo(%x, [2,10]) : i32[2,10]", f"Reshape {'Concatenation ' * 3}Reshape"),
        ("i32[2,1]", "BroadcastTo(%x, [2,11]) : i32[2,11]", "BroadcastTo"),
    ],
)  # fmt: skip
def test_repeated_integers_are_joined(kind: str, movement: str, ops: str) -> None:
    text = f"graph main(%x: {kind}) -> %y {{ %y = {movement} }}"
    model = parse_model(text.replace("Q", "quant(scale: 0.5, zero_point: 3)"))
    legal = legalize(model, "circle", targets=[runtime("TILE RESIZE_NEAREST_NEIGHBOR BROADCAST_TO GATHER")])
    assert kinds(legal) == ops.split()
    inputs = [make_input(value, "normal") for value in model.main.inputs]
    for expected, actual in zip(run(model, inputs), run(legal, inputs), strict=True):
        np.testing.assert_array_equal(actual, expected)


def test_quantized_elements_keep_their_scale() -> None:
    kind = "i8[2,3] quant(scale: 0.5, zero_point: 3)"
    text = f"graph main(%x: {kind}) -> %y {{\n %y = ReverseV2(%x, [0]) : {kind}\n}}"
    legal = legalize(parse_model(text), "circle", targets=[runtime("REVERSE_V2")])
    assert kinds(legal) == ["Slice", "Slice", "Concatenation"]
    assert all(op.output.quantization == legal.main.inputs[0].quantization for op in legal.main)


def test_channels_of_different_scales_do_not_move() -> None:
    kind = "i8[2,3,4] quant(scale: [0.5, 0.25], zero_point: [0, 0], axis: 0)"
    text = f"graph main(%x: {kind}) -> %y {{\n %y = ReverseV2(%x, [1]) : {kind}\n}}"
    model, one = parse_model(text), parse_model(text.replace("[0.5, 0.25], zero_point: [0, 0]", "0.5"))
    assert kinds(legalize(model, "circle", targets=[runtime("REVERSE_V2")])) == ["ReverseV2"]
    assert "ReverseV2" not in kinds(legalize(one, "circle", targets=[runtime("REVERSE_V2")]))


@pytest.mark.parametrize(
    ("paddings", "ops"),
    [
        ("[[0,0],[1,1],[2,1],[0,0]]", "Concatenation Concatenation"),
        ("[[0,0],[0,1],[0,0],[0,0]]", "Concatenation"),
        ("[[0,0],[0,0],[0,0],[0,0]]", "PadV2"),
    ],
)
def test_padding_with_a_number(paddings: str, ops: str) -> None:
    check(f"%y = PadV2(%x, {paddings}, -1.5)", runtime("PADV2"), ops)


def test_padding_of_no_elements_stays() -> None:
    check("%y = PadV2(%x, [[1,1],[2,1]], -1.5)", runtime("PADV2"), "PadV2", shape="0,3")


@pytest.mark.parametrize(("limit", "op"), [(40, "Concatenation"), (39, "PadV2")])
def test_the_number_of_padded_elements_is_limited(
    limit: int, op: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lower_padding, "MAX_CONSTANT_ELEMENTS", limit)
    # 1 row before and 3 rows behind, in 2 images of 5 columns: 2 * 4 * 5 = 40 elements
    check("%y = PadV2(%x, [[0,0],[1,3],[0,0]], 2.0)", runtime("PADV2"), op, shape="2,4,5")
    for rows, dtype in (("?", "i32"), ("3", "f32")):  # unknown rows; paddings of f32, as in a damaged file
        model = parse_model(f"""
        graph main(%x: f32[{rows},4]) -> %y {{
          %p = const {dtype}[2,2] [0, 0, 1, 1]
          %y = PadV2(%x, %p, 2.0) : f32[{rows},6]
        }}""")
        assert kinds(legalize(model, "circle", targets=[runtime("PADV2")])) == ["PadV2"]


def test_many_operands_are_joined_in_parts() -> None:
    operands = ", ".join(["%x"] * 7)
    few = runtime(forms={"CONCATENATION": {"f32:f32": {"operands": [2, 5]}}})
    check(f"%y = Concatenation({operands}) {{axis: 2}}", few, "Concatenation Concatenation Concatenation")
    check("%y = Concatenation(%x) {axis: 2}", few, "Reshape")


def kinds(model: Model) -> list[str]:
    return [type(op).__name__ for op in model.main]
