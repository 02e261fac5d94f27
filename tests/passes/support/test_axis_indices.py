# SPDX-License-Identifier: Apache-2.0
"""``moved_operand``: which operators can be examined for the indices that they take."""

from __future__ import annotations

import pytest

from circlekit.ir.text import parse_model
from circlekit.passes.support.axis_indices import MAX_ELEMENTS, moved_operand


@pytest.mark.parametrize(
    ("shape", "is_examined"),
    [
        ("2,3", True),
        ("0,3", False),
        ("?,3", False),
        (f"1,{MAX_ELEMENTS}", True),
        (f"1,{MAX_ELEMENTS + 1}", False),
    ],
)
def test_tensors_are_static_small_and_not_empty(shape: str, is_examined: bool) -> None:
    op = parse_model(f"graph main(%x: f32[{shape}]) -> %y {{ %y = Transpose(%x, [1, 0]) }}").main.ops[0]
    assert moved_operand(op) is (op.inputs[0] if is_examined else None)


@pytest.mark.parametrize(
    ("repeats", "is_examined"), [(MAX_ELEMENTS, True), (MAX_ELEMENTS + 1, False), (0, False)]
)
def test_the_size_of_the_result_is_limited_too(repeats: int, is_examined: bool) -> None:
    op = parse_model(f"graph main(%x: f32[1]) -> %y {{ %y = Tile(%x, [{repeats}]) }}").main.ops[0]
    assert (moved_operand(op) is not None) == is_examined


@pytest.mark.parametrize("call", ["Transpose(%x, %p)", "Neg(%x)", "Reshape(%x, %p)"])
def test_only_data_movement_with_constant_operands_is_examined(call: str) -> None:
    op = parse_model(f"graph main(%x: f32[2,3], %p: i32[2]) -> %y {{ %y = {call} : f32[2,3] }}").main.ops[0]
    assert moved_operand(op) is None
