# SPDX-License-Identifier: Apache-2.0
"""The limits of each constraint: what just holds, what just breaks, and what the model does not determine."""

from __future__ import annotations

from typing import Any

import pytest

import circlekit
from circlekit.ir.op import Op
from circlekit.targets.constraints import obstacles
from circlekit.targets.operator_properties import broadcast_rank, named_values


def op_of(line: str, *inputs: str) -> Op:
    """Return the last operator of a graph with these inputs and lines."""
    declared = ", ".join(inputs)
    return circlekit.parse(f"graph main({declared}) -> %y {{\n{line}\n}}").main.ops[-1]


ADD = "%y = Add(%x, %v)"


@pytest.mark.parametrize(
    ("op", "constraint", "expected"),
    [
        (op_of(ADD, "%x: f32[4,1]", "%v: f32[1,3]"), {"least": {"lhs": [4, 1], "rhs": [1]}}, None),
        (op_of(ADD, "%x: f32[4,1]", "%v: f32[1,3]"), {"least": {"lhs": [4, 2]}}, "lhs of at least [4,2]"),
        (op_of(ADD, "%x: f32[4,1]", "%v: f32[1,3]"), {"least": {"rhs": [2]}}, "rhs of at least [2]"),
        (op_of(ADD, "%x: f32[?,4]", "%v: f32[4]"), {"least": {"lhs": [9, 4], "rhs": [1, 9]}}, None),
        (op_of(ADD, "%x: f32[5,2,3]", "%v: f32[3]"), {"row_multiple": {"lhs": 3, "rhs": 1}}, None),
        (op_of(ADD, "%x: f32[5,2,3]", "%v: f32[3]"), {"row_multiple": {"lhs": 5}}, "multiple of 5, got 6"),
        (op_of(ADD, "%x: f32[8,3]", "%v: f32[3]"), {"row_multiple": {"lhs": 4}}, "multiple of 4, got 3"),
        (op_of(ADD, "%x: f32[?,3]", "%v: f32[3]"), {"row_multiple": {"lhs": 4}}, None),
        (op_of(ADD, "%x: f32[2,3]", "%v: f32[3]"), {"elements": {"lhs": 6}}, None),
        (op_of(ADD, "%x: f32[2,3]", "%v: f32[3]"), {"elements": {"lhs": 5}}, "at most 5 elements, got 6"),
        (op_of(ADD, "%x: f32[?,3]", "%v: f32[3]"), {"elements": {"lhs": 1}}, None),
        (op_of(ADD, "%x: f32[2,3]", "%v: f32[3]"), {"rank": 1}, "ranks up to 1, got rank 2"),
        (op_of(ADD, "%x: f32[2,3]", "%v: f32[3]"), {"operands": [2, 2]}, None),
        (op_of(ADD, "%x: f32[2,3]", "%v: f32[3]"), {"operands": [3, None]}, "at least 3 operands, got 2"),
        (op_of(ADD, "%x: f32[2,3]", "%v: f32[3]"), {"operands": [None, 1]}, "at most 1 operand, got 2"),
        (op_of(ADD, "%x: f32[2,3]", "%v: f32[3]"), {"broadcast_rank": 2}, None),
        (op_of(ADD, "%x: f32[2,3]", "%v: f32[3]"), {"broadcast_rank": 1}, "up to 1, got rank 2"),
        (op_of(ADD, "%x: f32[2,3]", "%v: f32[2,3]"), {"broadcast_rank": 0}, None),
        (op_of(ADD, "%x: f32[2,3]", "%v: f32[3]"), {"dims": [["lhs", -2, 2], ["lhs", 1, 3]]}, None),
        (op_of(ADD, "%x: f32[2,3]", "%v: f32[3]"), {"dims": [["lhs", -2, 3]]}, "3 along axis -2"),
        (op_of(ADD, "%x: f32[2,3]", "%v: f32[3]"), {"dims": [["lhs", 2, 9], ["lhs", -3, 9]]}, None),
        (op_of(ADD, "%x: f32[?,3]", "%v: f32[3]"), {"dims": [["lhs", 0, 9]]}, None),
        (op_of(ADD, "%x: f32[2,3]", "%v: f32[3]"), {"same_dims": [["lhs", 1, "rhs", -1]]}, None),
        (op_of(ADD, "%x: f32[2,3]", "%v: f32[3]"), {"same_dims": [["lhs", -2, "rhs", 0]]}, "got 2 and 3"),
        (op_of(ADD, "%x: f32[2,3]", "%v: f32[3]"), {"same_dims": [["lhs", 2, "rhs", 0]]}, None),
        (op_of(ADD, "%x: f32[?,3]", "%v: f32[3]"), {"same_dims": [["lhs", 0, "rhs", 0]]}, None),
        (op_of(ADD, "%x: f32[?,3]", "%v: f32[3]"), {"same_shape": [["lhs", "rhs"]]}, None),
        (op_of(ADD, "%x: f32[2,3]", "%v: f32[3]"), {"at_most": [[["lhs", 0], ["lhs", 1]]]}, None),
        (op_of(ADD, "%x: f32[3,3]", "%v: f32[3]"), {"at_most": [[["lhs", 0], ["lhs", -1]]]}, None),
        (op_of(ADD, "%x: f32[3,2]", "%v: f32[2]"), {"at_most": [[["lhs", -2], ["lhs", 1]]]}, "2, got 3"),
        (op_of(ADD, "%x: f32[3,2]", "%v: f32[2]"), {"at_most": [[["lhs", 0], ["lhs", 2]]]}, None),
        (op_of("%y = ReverseV2(%x, [0])", "%x: f32[2,3]"), {"lowest": {"axis": 0}}, None),
        (op_of("%y = ReverseV2(%x, [0])", "%x: f32[2,3]"), {"lowest": {"axis": 1}}, "from 1 on, got 0"),
        (op_of("%y = ReverseV2(%x, %a)", "%x: f32[2,3]", "%a: i32[1]"), {"lowest": {"axis": 9}}, None),
        (op_of("%y = ReverseV2(%x, %a)", "%x: f32[2,3]", "%a: i32[1]"), {"numbers": {"axis": [9]}}, None),
        (op_of("%y = Sum(%x, [1, 2])", "%x: f32[2,3,4,5]"), {"consecutive": ["axis"]}, None),
        (op_of("%y = Sum(%x, [-1, 2])", "%x: f32[2,3,4,5]"), {"consecutive": ["axis"]}, None),
        (op_of("%y = Sum(%x, [1, 3])", "%x: f32[2,3,4,5]"), {"consecutive": ["axis"]}, "got 1, 3"),
        (op_of("%y = Sum(%x, [1, -3])", "%x: f32[2,3,4,5]"), {"consecutive": ["axis"]}, None),
        (op_of("%y = Sum(%x, %a)", "%x: f32[2,3]", "%a: i32[1]"), {"consecutive": ["axis"]}, None),
        (op_of("%y = Sum(%x, %a)", "%x: f32[2,3]", "%a: i32[2]"), {"consecutive": ["axis"]}, "unknown ones"),
    ],
)  # fmt: skip
def test_limits(op: Op, constraint: dict[str, Any], expected: str | None) -> None:
    found = list(obstacles(op, constraint))
    assert len(found) == (expected is not None)
    assert expected is None or expected in found[0]


QUANTIZED = """%s = const i8[{shape}] quant(scale: 0.5) constant(1)
%y = Add(%x, %s) {{act: {act}}} : i8[2] quant(scale: 0.5)"""


@pytest.mark.parametrize(
    ("shape", "act", "is_allowed"),
    [("1,1", "RELU", False), ("1,1", "NONE", True), ("1", "RELU", True), ("", "RELU", True)],
)
def test_the_rank_of_a_quantized_scalar_before_an_activation(shape: str, act: str, is_allowed: bool) -> None:
    op = op_of(QUANTIZED.format(shape=shape, act=act), "%x: i8[2] quant(scale: 0.5)")
    assert (not list(obstacles(op, {"scalar_rank": [["rhs", "lhs"]]}))) == is_allowed
    float_op = op_of(f"%y = Add(%x, [[1.0]]) {{act: {act}}}", "%x: f32[2]")
    assert not list(obstacles(float_op, {"scalar_rank": [["rhs", "lhs"]]}))


@pytest.mark.parametrize(
    ("least", "greatest", "is_allowed"), [(2, 4, True), (4, 4, False), (2, 2, False), (1, 9, True)]
)
def test_ratios_of_scales_hold_for_every_channel(least: float, greatest: float, is_allowed: bool) -> None:
    """The ratios, input times weights over output, are 0.5 * 2 / 0.5 = 2 and 0.5 * 4 / 0.5 = 4."""
    op = op_of(
        """%w = const i8[2,4] quant(scale: [2.0, 4.0], axis: 0) constant(1)
        %y = FullyConnected(%x, %w) : i8[1,2] quant(scale: 0.5)""",
        "%x: i8[1,4] quant(scale: 0.5)",
    )
    assert (
        not list(obstacles(op, {"scale_ratio": [[["input", "weights"], "output", least, greatest]]}))
    ) == is_allowed


@pytest.mark.parametrize(
    ("weights", "bias", "got"),
    [
        ("0.25", "quant(scale: 0.125)", None),
        ("0.25", "quant(scale: 0.140625)", None),  # 1/64 of the scale of the result is below the tolerance
        ("0.25", "quant(scale: 0.15625)", "0.15625"),  # 1/32 is above it
        ("0.25", "quant(scale: 0.09375)", "0.09375"),
        ("0.25", "", "none"),
        ("0.25", "quant(scale: [0.125, 0.125], axis: 0)", "0.125, 0.125"),  # several count as none
        ("[0.25, 0.25], axis: 0", "", None),
    ],
)
def test_the_scale_of_a_bias(weights: str, bias: str, got: str | None) -> None:
    op = op_of(
        f"""%w = const i8[2,4] quant(scale: {weights}) constant(1)
        %b = const i32[2] {bias} [1, 2]
        %y = FullyConnected(%x, %w, %b) : i8[1,2] quant(scale: 1.0)""",
        "%x: i8[1,4] quant(scale: 0.5)",
    )
    found = list(obstacles(op, {"sum_scale": [[["input", "weights"], "bias", "output", 0.02]]}))
    assert found == ([f"bias of scale 0.125, the product of input and weights, got {got}"] if got else [])


@pytest.mark.parametrize(
    ("weights", "bias", "found"),
    [
        ("0.25", "quant(scale: 0.125)", []),
        ("0.25", "", ["a scale of bias, got none"]),
        (
            "[0.25, 0.25], axis: 0",
            "quant(scale: 0.125)",
            ["as many scales of weights as of bias, got 2 and 1"],
        ),
        ("[0.25, 0.25], axis: 0", "quant(scale: [0.125, 0.125], axis: 0)", []),
    ],
)
def test_the_number_of_scales(weights: str, bias: str, found: list[str]) -> None:
    op = op_of(
        f"""%w = const i8[2,4] quant(scale: {weights}) constant(1)
        %b = const i32[2] {bias} [1, 2]
        %y = FullyConnected(%x, %w, %b) : i8[1,2] quant(scale: 1.0)""",
        "%x: i8[1,4] quant(scale: 0.5)",
    )
    assert list(obstacles(op, {"scaled": ["bias"], "scale_count": [["weights", "bias"]]})) == found


@pytest.mark.parametrize(
    ("line", "rank"),
    [
        ("Add(%x, %v)", 2),
        ("Add(%x, %x)", 0),
        ("Concatenation(%x, %z) {axis: 0}", 0),  # shapes differ, and nothing broadcasts
        ("Select(%c, %x, %x)", 2),
    ],
)
def test_the_rank_of_operands_that_broadcast(line: str, rank: int) -> None:
    op = op_of(f"%y = {line}", "%x: f32[2,3]", "%v: f32[3]", "%z: f32[4,3]", "%c: bool[2]")
    assert broadcast_rank(op) == rank


def test_results_of_a_list_have_one_name() -> None:
    op = op_of("%y, %r = Split(0, %x) {num_splits: 2}", "%x: f32[2,3]")
    assert [name for name, _ in named_values(op)] == ["split_dim", "value", "output", "output"]


def test_a_constraint_finds_a_second_result_by_its_name() -> None:
    op = op_of("%y, %i = TopKV2(%x, 2)", "%x: f32[3,5]")
    assert not list(obstacles(op, {"elements": {"indices": 6}}))
    (found,) = obstacles(op, {"elements": {"indices": 5}})
    assert "indices of at most 5 elements, got 6" in found
