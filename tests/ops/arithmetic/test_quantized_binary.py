# SPDX-License-Identifier: Apache-2.0
"""Arithmetic and comparison of quantized operands, bit for bit as LiteRT's reference kernels."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from circlekit.errors import ModelError, UnsupportedError
from circlekit.ir.dtypes import DType, boolean, i8, i16, u8
from circlekit.ir.enums import Activation
from circlekit.ir.op import REGISTRY
from circlekit.ir.value import Array, Value
from circlekit.ops.arithmetic.binary import Add, Mul, SquaredDifference, Sub
from circlekit.ops.arithmetic.comparison import Comparison
from circlekit.ops.arithmetic.division import Div
from tests.ops.litert import check, kernel_results
from tests.ops.quantized import draw, draw_scale, draw_zero, generator, quantized

SHAPES: list[tuple[tuple[int, ...], tuple[int, ...]]] = [
    ((6, 40), (6, 40)),
    ((3, 5, 7), (7,)),
    ((1,), (50,)),
    ((2, 3, 1, 2, 2), (3, 4, 1, 2)),
    ((300, 1), (1, 300)),
]
ACTIVATIONS = [Activation.NONE, Activation.RELU, Activation.RELU6, Activation.RELU_N1_TO_1]
NARROW = [i8, u8, i16]
ARITHMETIC = ["ADD", "SUB", "MUL", "DIV"]
INTEGER = ["MAXIMUM", "MINIMUM", "FLOOR_DIV", "FLOOR_MOD"]
COMPARISONS = ["LESS", "LESS_EQUAL", "GREATER", "GREATER_EQUAL", "EQUAL", "NOT_EQUAL"]


def away_from(y: Array, zero: int) -> Array:
    """Return ``y`` with the elements equal to ``zero`` changed: divisors must not be 0."""
    other = zero - 1 if zero > np.iinfo(y.dtype).min else zero + 1
    return np.where(y == zero, other, y).astype(y.dtype)


def compare(code: str, dtype: DType, index: int, scales: tuple[float, ...] = (), **attributes: Any) -> None:
    """Check an operator on random integers against LiteRT.

    ``index``: chooses SHAPES and the random numbers.  ``scales``: of left operand, right operand and result;
    (): random.
    """
    rng = generator(code, dtype.short, index, tuple(attributes))
    left, right = SHAPES[index % len(SHAPES)]
    x, y = draw(rng, dtype, left), draw(rng, dtype, right)
    zeros = [draw_zero(rng, dtype) for _ in range(3)]
    kind = REGISTRY[code]
    compared = issubclass(kind, Comparison)
    scales = scales or tuple(draw_scale(rng, high=300.0 if compared else 3.0) for _ in range(3))
    if "DIV" in code or "MOD" in code:
        y = away_from(y, zeros[1] if code == "DIV" else 0)
    shape = np.broadcast_shapes(left, right)
    result = quantized(boolean if compared else dtype, shape, scales[2], zeros[2])
    operands = [quantized(dtype, a.shape, s, z) for a, s, z in zip((x, y), scales, zeros, strict=False)]
    check(kind(*operands, results=[result], **attributes), x, y)


@pytest.mark.parametrize("code", ARITHMETIC)
@pytest.mark.parametrize("dtype", NARROW)
@pytest.mark.parametrize("index", range(8))
def test_arithmetic(code: str, dtype: DType, index: int) -> None:
    attributes: dict[str, Any] = {"pot_scale_int16": index % 3 == 0} if code in ("ADD", "SUB") else {}
    compare(code, dtype, index, act=ACTIVATIONS[index % 4], **attributes)


@pytest.mark.parametrize("code", ["ADD", "SUB"])
@pytest.mark.parametrize("powers", [(-15, -15, -15), (-12, -15, -12), (-9, -6, -6), (-14, -13, -13)])
@pytest.mark.parametrize("act", ACTIVATIONS)
def test_scales_that_are_powers_of_two(code: str, powers: tuple[int, ...], act: Activation) -> None:
    scales = tuple(2.0**p for p in powers)
    compare(code, i16, 0, scales, act=act, pot_scale_int16=True)
    compare(code, i16, 1, scales, act=act, pot_scale_int16=False)


@pytest.mark.parametrize("code", ["ADD", "SUB"])
def test_shifted_operands_need_a_result_with_the_larger_scale(code: str) -> None:
    x = np.zeros(2, np.int16)
    operands = [quantized(i16, (2,), 2.0**-12) for _ in range(2)]
    op = REGISTRY[code](*operands, results=[quantized(i16, (2,), 2.0**-10)])
    with pytest.raises(
        UnsupportedError,
        match=r"2\^-12 and 2\^-12: expected the larger one as result scale, got 2\^-10",
    ):
        kernel_results(op, [x, x])


@pytest.mark.parametrize("dtype", NARROW)
@pytest.mark.parametrize("scales", [(1, 1, 0.01), (0.5, 3, 0.002), (1e-4, 1e-3, 2), (1, 1, 1)])
def test_mul_and_add_of_extreme_scales(dtype: DType, scales: tuple[float, ...]) -> None:
    compare("MUL", dtype, 0, scales)
    compare("ADD", dtype, 0, scales)


@pytest.mark.parametrize("dtype", [i8, u8])
@pytest.mark.parametrize("act", ACTIVATIONS)
def test_mul_of_16_bits_to_8_bits(dtype: DType, act: Activation) -> None:
    rng = generator("narrow", dtype.short, act.name)
    x, y = draw(rng, i16, (20, 30)), draw(rng, i16, (20, 30))
    operands = [quantized(i16, x.shape, 1 / 32768) for _ in range(2)]
    result = quantized(dtype, x.shape, 1 / 128, draw_zero(rng, dtype))
    check(Mul(*operands, results=[result], act=act), x, y)


@pytest.mark.parametrize("dtype", NARROW)
def test_quotients_near_zero_are_as_wrong_as_in_litert(dtype: DType) -> None:
    compare("DIV", dtype, 0, (0.01, 1, 0.5))
    compare("DIV", dtype, 1, (0.001, 2, 0.9))


def test_division_by_a_zero_point_is_refused() -> None:
    op = Div(*[quantized(i8, (2,), 0.1, 3) for _ in range(2)], results=[quantized(i8, (2,), 1)])
    with pytest.raises(ModelError, match=r"expected quantized divisors other than 0\.0"):
        kernel_results(op, [np.ones(2, np.int8), np.full(2, 3, np.int8)])


@pytest.mark.parametrize("code", INTEGER)
@pytest.mark.parametrize("dtype", [i8, i16])
@pytest.mark.parametrize("index", range(4))
def test_operators_on_the_stored_integers_ignore_scales(code: str, dtype: DType, index: int) -> None:
    compare(code, dtype, index)


@pytest.mark.parametrize("index", range(10))
def test_squared_difference(index: int) -> None:
    compare("SQUARED_DIFFERENCE", i8, index)


def test_squared_difference_of_16_bits_is_refused() -> None:
    x = np.zeros(2, np.int16)
    operands = [quantized(i16, (2,), 0.1) for _ in range(2)]
    with pytest.raises(UnsupportedError, match="SQUARED_DIFFERENCE on quantized i16"):
        kernel_results(SquaredDifference(*operands, results=[quantized(i16, (2,), 1)]), [x, x])


@pytest.mark.parametrize("code", COMPARISONS)
@pytest.mark.parametrize("dtype", NARROW)
@pytest.mark.parametrize("index", range(5))
def test_comparison(code: str, dtype: DType, index: int) -> None:
    compare(code, dtype, index)


def test_close_numbers_compare_as_in_litert() -> None:
    """Rounded to 1/256, 3 * 0.0101 and 3 * 0.0102 are one number."""
    x = np.arange(-128, 128).astype(np.int8)
    for code in COMPARISONS:
        result = Value("", boolean, x.shape)
        operands = [quantized(i8, x.shape, scale) for scale in (0.0101, 0.0102)]
        check(REGISTRY[code](*operands, results=[result]), x, x)


def test_wide_integers_are_plain_whatever_their_scale() -> None:
    x = np.array([5, -7, 2**30], np.int32)
    values = [quantized(DType.INT32, (3,), 0.1, 3) for _ in range(3)]
    for kind in (Add, Sub, Mul):
        check(kind(*values[:2], results=[values[2]]), x, x)
        values[2] = quantized(DType.INT32, (3,), 0.1, 3)
