# SPDX-License-Identifier: Apache-2.0
"""Conditions for moving constants towards the layer that absorbs them."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from circlekit.ir.dtypes import f32
from circlekit.ir.text import parse_model
from circlekit.ir.value import Array, Shape, Value
from circlekit.passes.support.linear_producer import (
    MAX_STEPS,
    channel_refusal,
    fold_bias,
    has_transpose_before,
    per_channel,
    producer_refusal,
)

CONV = "%c = Conv2D(%x, %w, none) {padding: SAME}"
SHARED = "has other users, or is an output of the graph"
LAYER = "expected a convolution or fully connected layer"


def moves(count: int) -> str:
    """Return ``count`` lines that compute %v from %c, each with a Mul by a constant."""
    names = ["c", *(f"m{index}" for index in range(count - 1)), "v"]
    return "\n".join(f"%{b} = Mul(%{a}, 2.0)" for a, b in itertools.pairwise(names))


@pytest.mark.parametrize(
    ("body", "is_offset", "refusal"),
    [
        (f"{CONV} %v = Mul(%c, 2.0)", True, None),
        (f"{CONV} %v = Mul(2.0, %c)", True, None),
        (f"{CONV} %v = Add(%c, 2.0)", True, None),
        (f"{CONV} %v = Neg(%c)", True, f"%v: comes from Neg, {LAYER}"),
        ("%v = Mul(%x, 2.0)", True, f"%x: comes from an input, {LAYER}"),
        ("%v = Transpose(%w, [0,1,2,3])", True, f"%w: comes from a constant, {LAYER}"),
        (f"{CONV} %v = Mul(%c, %c)", True, f"%v: comes from Mul, {LAYER}"),
        (f"{CONV} %v = Add(%c, 2.0) {{act: RELU}}", True, f"%v: comes from Add, {LAYER}"),
        (f"{CONV} %o = Neg(%c) %v = Mul(%c, 2.0)", True, f"%c: {SHARED}"),
        (
            "%c = Conv2D(%x, %w, none) {padding: SAME, act: RELU} %v = Mul(%c, 2.0)",
            True,
            "%c: act is RELU, expected NONE",
        ),
        (
            "%c = Conv2D(%x, %f, none) {padding: SAME} %v = Mul(%c, 2.0)",
            True,
            "%f: is not a float32 constant, so nothing can be folded into it",
        ),
        (f"{CONV} %v = Pad(%c, [[0,0],[1,1],[0,0],[0,0]])", False, None),
        (
            f"{CONV} %v = Pad(%c, [[0,0],[1,1],[0,0],[0,0]])",
            True,
            f"%v: comes from Pad, {LAYER}",
        ),
        (
            f"{CONV} %p = Pad(%c, [[0,0],[1,1],[0,0],[0,0]]) %v = Add(%p, 1.0)",
            False,
            f"%p: comes from Pad, {LAYER}",
        ),
        (f"{CONV} %v = AveragePool2D(%c) {{padding: SAME, filter_height: 2, filter_width: 2}}", False, None),
        (
            f"{CONV} %v = AveragePool2D(%c) {{padding: SAME, filter_height: 2, filter_width: 2, act: RELU}}",
            False,
            f"%v: comes from AveragePool2D, {LAYER}",
        ),
        (f"{CONV} {moves(MAX_STEPS - 1)}", True, None),
        (
            f"{CONV} {moves(MAX_STEPS)}",
            True,
            f"%v: none of the {MAX_STEPS} operators before it is a convolution or fully connected layer",
        ),
    ],
)
def test_a_producer_absorbs_a_constant_or_says_why_not(
    body: str, is_offset: bool, refusal: str | None
) -> None:
    """If ``is_offset``, a constant is added to %v; else %v is multiplied by a constant."""
    model = parse_model(
        f"""graph main(%x: f32[1,4,4,3], %f: f32[3,1,1,3]) -> %y {{
              %w = const f32[3,1,1,3] gaussian(0, 1)
              {body}
              %y = Neg(%v)
            }}"""
    )
    value = next(v for v in model.main.values() if v.name == "v")
    assert producer_refusal(value, is_offset) == refusal


def test_outputs_stay_as_they_are() -> None:
    model = parse_model(
        f"""graph main(%x: f32[1,4,4,3]) -> %y, %c {{
              %w = const f32[3,1,1,3] gaussian(0, 1)
              {CONV}
              %y = Neg(%c)
            }}"""
    )
    assert producer_refusal(model.main.outputs[1], True) == f"%c: {SHARED}"


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("%t = Transpose(%x, [0,2,1]) %y = Mul(%t, 2.0)", True),
        ("%t = Transpose(%x, [0,2,1]) %y = Neg(%t)", False),
        ("%y = Mul(%x, 2.0)", False),
    ],
)
def test_transpose_before(body: str, expected: bool) -> None:
    model = parse_model(f"graph main(%x: f32[1,2,3]) -> %y {{ {body} }}")
    assert has_transpose_before(model.main.outputs[0]) is expected


@pytest.mark.parametrize(
    ("constant", "shape", "fits"),
    [
        ((), (2, 3), True),
        ((1, 1), (2, 3), True),
        ((3,), (2, 3), True),
        ((1, 3), (2, 3), True),
        ((3, 1), (2, 3), False),
        ((2, 3), (2, 3), False),
        ((2,), (2, 3), False),
        ((3,), (2, None), False),
        ((3,), None, False),
    ],
)
def test_one_number_per_channel(constant: tuple[int, ...], shape: Shape | None, fits: bool) -> None:
    refusal = channel_refusal(np.zeros(constant, np.float32), Value("x", f32, shape))
    assert (refusal is None) is fits
    if not fits:
        assert refusal is not None
        assert refusal.startswith("%x: expected a constant with one number per channel, got shape [")


def test_constants_of_channels() -> None:
    one, many = np.full((1, 1), 2, np.float32), np.array([[1, 2, 3]], np.float32)
    np.testing.assert_array_equal(per_channel(one, 3), [2, 2, 2])
    np.testing.assert_array_equal(per_channel(many, 3), [1, 2, 3])


@pytest.mark.parametrize(
    ("bias", "scale", "expected"),
    [([5, 7], [2, 3], [11, 23]), ([5, 7], None, [6, 9]), (None, [2, 3], [1, 2])],  # bias * scale + [1, 2]
)
def test_fold_bias(bias: list[int] | None, scale: list[int] | None, expected: list[int]) -> None:
    def array(numbers: list[int] | None) -> Array | None:
        return None if numbers is None else np.array(numbers, np.float32)

    found = fold_bias(array(bias), array(scale), np.array([1, 2], np.float32))
    assert found.dtype == np.float32
    np.testing.assert_array_equal(found, expected)
