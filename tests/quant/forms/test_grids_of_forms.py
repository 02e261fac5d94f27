# SPDX-License-Identifier: Apache-2.0
"""The numbers that given forms stand for: conversions, finer forms, ranges, and forms that follow."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import circlekit
from circlekit.ir.dtypes import DType, i8, i16, i32, u8
from circlekit.quant.forms.given_forms import (
    add_ranges,
    covered_range,
    finer_activation,
    finer_form,
    given_form,
    given_ranges,
    with_followed,
)
from circlekit.quant.parameters import integers
from circlekit.quant.plan import TensorForm


def numbers_of(form: TensorForm) -> set[float]:
    """All real numbers of a form with one scale."""
    low, high = form.dtype.limits
    return {form.scale[0] * (stored - form.zero_point[0]) for stored in range(low, high + 1)}


@pytest.mark.parametrize("zero_point", [-128, -3, 0, 127])
def test_int8_and_uint8_stand_for_the_same_numbers(zero_point: int) -> None:
    form = TensorForm(i8, (0.25,), (zero_point,))
    other = given_form(form, u8)
    assert other is not None
    assert other.dtype is u8
    assert numbers_of(other) == numbers_of(form)
    assert given_form(other, i8) == form
    assert given_form(form, i8) is form
    for dtype in (None, i16, i32):
        assert given_form(form, dtype) is None
    assert given_form(None, i8) is None


def test_finer_weights_keep_their_numbers() -> None:
    """The factor is the smallest power of 2 that reaches the step, as far as the integers fit."""
    numbers = np.array([[3.0, -2.0], [0.5, 0.25]], np.float32)
    form = TensorForm(i8, (1.0, 0.25), (0, 0), rounds=True)
    for step, factor in ((1.0, 1), (0.99, 2), (0.5, 2), (0.25, 4), (1 / 32, 32), (1 / 1000, 32)):
        finer = finer_form(form, numbers, step)
        assert finer.scale == (1.0 / factor, 0.25 / factor)
        assert factor in (1, 2, 4) or 3.0 * factor <= i8.limits[1] < 2 * 3.0 * factor
    along = replace(form, axis=1)
    assert finer_form(along, numbers, 0.5).scale == (0.5, 0.125)
    assert finer_form(replace(form, rounds=False), numbers, 0.1).scale == form.scale
    zeros = finer_form(replace(form, scale=(1.0,), zero_point=(0,)), np.zeros(2, np.float32), 1e-9)
    assert zeros.scale == (1 / 64,), "as if the largest integer were 1"


@pytest.mark.parametrize(
    ("dtype", "zero_point", "steps", "factor"),
    [
        (u8, (128,), [-100, 50, 90], 1),
        (u8, (128,), [-64, 50, 63], 2),
        (u8, (128,), [-64, 50, 64], 1),
        (u8, (100,), [-12, 5, 19], 8),
        (u8, (0,), [0, 5, 60], 4),
        (i8, (0,), [-64, 0, 1], 1),  # weights do not use -128
        (u8, (128, 0, 100), [-8, 0, 37], 4),
    ],
)
def test_finer_weights_keep_their_numbers_with_a_zero_point(
    dtype: DType, zero_point: tuple[int, ...], steps: list[int], factor: int
) -> None:
    form = TensorForm(dtype, (1.0,) * len(zero_point), zero_point, rounds=True)
    finer = finer_form(form, np.array(steps, np.float32), 1 / 1000)
    assert finer.scale == (1 / factor,) * len(zero_point)
    stored = integers(np.array(steps), finer.scales, finer.zero_points, dtype)
    assert np.array_equal((stored - finer.zero_points) * finer.scales, steps)


@pytest.mark.parametrize(
    ("dtype", "scale", "zero_point"),
    [(i8, (0.5,), (3,)), (u8, (0.5, 0.25), (0, 255)), (DType.INT4, (1.0, 2.0), (0, -8))],
)
def test_covered_ranges(dtype: DType, scale: tuple[float, ...], zero_point: tuple[int, ...]) -> None:
    forms = [TensorForm(dtype, (s,), (z,)) for s, z in zip(scale, zero_point, strict=True)]
    every = set[float]().union(*map(numbers_of, forms))
    assert covered_range(TensorForm(dtype, scale, zero_point)) == (min(every), max(every))


@pytest.mark.parametrize(
    ("low", "high", "factor"),
    [
        (0, 255, None),
        (0, 128, None),
        (0, 127.5, 2),
        (0, 127, 2),
        (10, 137, 2),
        (200, 255, None),  # 0 is at 108 steps
        (108, 108, None),
        (110, 171, 4),
        (0, 20, 2),
        (100, 163, 4),
        (100, 164, 2),
    ],
)
def test_a_finer_activation_holds_the_numbers_that_occur(low: float, high: float, factor: int | None) -> None:
    """``low``, ``high``: steps from the lowest number."""
    form = TensorForm(i8, (0.5,), (-20,))
    ends = [0.5 * (-128 + 20 + step) for step in (low, high)]
    finer = finer_activation(form, *ends)
    if factor is None:
        assert finer is None
        return
    assert finer is not None
    assert finer.scale == (0.5 / factor,)
    assert -128 <= finer.zero_point[0] <= 127
    assert {n for n in numbers_of(form) if ends[0] <= n <= ends[1]} <= numbers_of(finer)


NET = """
graph main(%x: f32[2,3], %k: f32[2,3]) -> %y, %z, %u {
  %r = Relu(%x)
  %n = Neg(%r)
  %s = Reshape(%n, [3, 2])
  %y = Transpose(%s, [1, 0])
  %m = Minimum(%k, [[1.5]])
  %t = Reshape(%k, [6])
  %z = Reshape(%m, [6])
  %u = Exp(%t)
}
"""


def test_forms_follow_where_numbers_stay_on_the_grid() -> None:
    """RELU maps a grid to itself; NEG does not, because 8 bits have more numbers on one side of 0."""
    model = circlekit.parse(NET)
    bound = next(v for v in model.main.values() if v.is_const and v.shape == (1, 1)).name
    form, other = TensorForm(i8, (0.5,), (3,)), TensorForm(i8, (0.25,), (0,))
    assert with_followed(model.main, {}) == {}
    assert with_followed(model.main, {"x": form}) == {"x": form, "r": form}
    nearly_symmetric = TensorForm(i8, (0.5,), (-1,))  # -127 to 128 steps
    assert with_followed(model.main, {"x": nearly_symmetric}) == dict.fromkeys("xr", nearly_symmetric)
    assert with_followed(model.main, {bound: other}) == {bound: other, "m": other, "z": other}
    assert with_followed(model.main, {"n": form}) == dict.fromkeys("nsy", form)
    assert with_followed(model.main, {"y": form}) == {"y": form, "s": form, "n": form}
    assert with_followed(model.main, {"z": form, "m": other})["m"] is other
    assert with_followed(model.main, {"u": form}) == {"u": form}, "EXP computes"
    assert "k" not in with_followed(model.main, {"t": form}), "another operator reads it"
    wide = TensorForm(i16, (0.5,), (0,))
    assert with_followed(model.main, {"x": wide}) == {"x": wide}, "65536 numbers are not tried"
    positive = TensorForm(u8, (0.5,), (0,))
    assert with_followed(model.main, {"x": positive}) == {"x": positive, "r": positive}
    low = TensorForm(i8, (0.5,), (-100,))
    assert with_followed(model.main, {"x": low}) == {"x": low, "r": low}


def test_ranges_that_follow() -> None:
    model = circlekit.parse(NET)
    bound = next(v for v in model.main.values() if v.is_const and v.shape == (1, 1)).name
    form = TensorForm(i8, (0.5,), (0,))
    found = given_ranges(model.main, {bound: form, "m": form, "x": form}, {"x": (-1.0, 1.0)})
    assert found == {bound: (-64.0, 63.5), "m": (-64.0, 1.5), "x": (-64.0, 63.5)}
    assert given_ranges(model.main, {"m": form}, {}) == {"m": (-64.0, 63.5)}
    wide = TensorForm(i16, (0.5,), (0,))
    observed = {"m": (-1.0, 9.0), "x": (-1e9, 1.0), "r": (0.0, 1.0)}
    found = given_ranges(model.main, {bound: wide, "m": wide, "x": wide}, observed)
    assert found == {bound: (-16384.0, 16383.5), "m": (-1.0, 1.5), "x": (-16384.0, 1.0)}
    ranges = {"x": (-2.0, 3.0), "m": (-1.0, 1.5)}
    add_ranges(model.main, ranges)
    moved = {"n": (-3.0, 0.0), "s": (-3.0, 0.0), "y": (-3.0, 0.0), "z": (-1.0, 1.5)}
    assert ranges == {"x": (-2.0, 3.0), "m": (-1.0, 1.5), "r": (0.0, 3.0), **moved}, "%k has two users"
    ranges = {"t": (0.0, 1000.0)}
    add_ranges(model.main, ranges)
    assert ranges == {"t": (0.0, 1000.0)}, "the range of EXP would be infinite"
    one_user = circlekit.parse("graph main(%k: f32[2]) -> %m {\n  %m = Minimum(%k, [1.5])\n}")
    ranges = {"m": (-1.0, 1.5)}
    add_ranges(one_user.main, ranges)
    assert ranges["k"] == (-1.0, 1.5)
    joined = circlekit.parse(
        "graph main(%a: f32[2], %b: f32[2]) -> %c {\n  %c = Concatenation(%a, %b, [7.0]) {axis: 0}\n}"
    )
    for known, expected in (({"a": (-1.0, 2.0), "b": (0.0, 3.0)}, (-1.0, 7.0)), ({"a": (-1.0, 2.0)}, None)):
        ranges = dict(known)
        add_ranges(joined.main, ranges)
        assert ranges.get("c") == expected
