# SPDX-License-Identifier: Apache-2.0
"""Arithmetic on two operands against LiteRT."""

from __future__ import annotations

import zlib

import numpy as np
import pytest

from circlekit.errors import ModelError, ShapeError
from circlekit.ir.dtypes import i8
from circlekit.ir.enums import Activation
from circlekit.ir.op import REGISTRY
from circlekit.ir.value import Array
from circlekit.ops.arithmetic.binary import Add, AddN, Atan2, Maximum, Minimum, Mul, Pow, Sub
from circlekit.ops.arithmetic.division import Div, FloorDiv, FloorMod
from tests.ops.litert import check, const, kernel_results, var
from tests.ops.quantized import quantized

SHAPES: list[tuple[tuple[int, ...], tuple[int, ...]]] = [
    ((2, 3, 4), (2, 3, 4)),
    ((2, 3, 4), (3, 1)),
    ((4,), (2, 3, 4)),
    ((), (3, 2)),
    ((1, 3, 1, 2), (2, 1, 4, 1)),
    ((2, 1, 3, 1, 2), (1, 2, 1, 2, 2)),
    ((0, 3), (1, 3)),
]
FORMS = {
    "ADD": ["f4", "i4", "i8", "i2"],
    "SUB": ["f4", "i4", "i8"],
    "MUL": ["f4", "i4", "i8", "i2", "u4", "c8"],
    "DIV": ["f4", "i4"],
    "MAXIMUM": ["f4", "i4", "i8", "i2", "i1", "u1"],
    "MINIMUM": ["f4", "i4", "i8", "i2", "i1", "u1"],
    "SQUARED_DIFFERENCE": ["f4", "i4"],
    "FLOOR_DIV": ["f4", "i4", "i2", "i1"],
    "FLOOR_MOD": ["f4", "i4", "i8", "i2", "i1"],
}
CASES = [
    (code, dtype, *pair)
    for code, dtypes in FORMS.items()
    for dtype in dtypes
    for pair in (SHAPES[:1] if dtype == "c8" else SHAPES)  # LiteRT does not broadcast complex numbers
]


def numbers(name: str, dtype: str, shape: tuple[int, ...], spread: float = 40.0) -> Array:
    """Return nonzero numbers of both signs (of one sign if unsigned); complex ones with an imaginary part."""
    rng = np.random.default_rng(zlib.crc32(name.encode()))
    drawn = rng.normal(0, spread, shape)
    if np.dtype(dtype).kind == "u":
        drawn = np.abs(drawn)
    if np.dtype(dtype).kind != "f":
        drawn = np.clip(drawn, -120, 120)
    if np.dtype(dtype).kind == "c":
        drawn = drawn + 1j * drawn[..., ::-1]
    array = np.asarray(drawn.astype(dtype))
    return np.where(array == 0, np.ones_like(array), array)


@pytest.mark.parametrize(("code", "dtype", "left", "right"), CASES)
def test_binary(code: str, dtype: str, left: tuple[int, ...], right: tuple[int, ...]) -> None:
    x, y = numbers(f"{code}x", dtype, left), numbers(f"{code}y", dtype, right)
    check(REGISTRY[code](var(x), var(y)), x, y)


@pytest.mark.parametrize("code", ["ADD", "SUB", "MUL", "DIV"])
@pytest.mark.parametrize("act", [Activation.RELU, Activation.RELU6, Activation.RELU_N1_TO_1])
@pytest.mark.parametrize("dtype", ["f4", "i4"])
def test_fused_activation(code: str, act: Activation, dtype: str) -> None:
    x, y = numbers("x", dtype, (3, 4)), numbers("y", dtype, (3, 4), 10)
    check(REGISTRY[code](var(x), var(y), act=act), x, y)


def test_a_fused_activation_of_scalars_gives_an_array() -> None:
    op = Add(const(-2.0, np.float32), const(0.5, np.float32), act=Activation.RELU)
    (result,) = kernel_results(op, [])
    assert isinstance(result, np.ndarray)
    assert (result.shape, float(result)) == ((), 0.0)


@pytest.mark.parametrize("kind", [Add, Sub, Mul])
def test_integers_wrap(kind: type[Add]) -> None:
    x = np.array([2**31 - 1, -(2**31), 65536, 3], np.int32)
    y = np.array([2**31 - 1, 1, 65536, 4], np.int32)
    check(kind(var(x), var(y)), x, y)


def test_scalars_wrap() -> None:
    x = np.array(2**31 - 1, np.int32)
    check(Add(var(x), var(x)), x, x)


@pytest.mark.parametrize("kind", [Maximum, Minimum])
def test_extremes_of_nan(kind: type[Maximum]) -> None:
    x = np.array([np.nan, 1, np.inf, -np.inf, np.nan], np.float32)
    y = np.array([1, np.nan, 2, 3, np.nan], np.float32)
    check(kind(var(x), var(y)), x, y)


def test_float_division_by_zero() -> None:
    x, y = np.array([1, -1, 0], np.float32), np.zeros(3, np.float32)
    # DIV has a fused activation, so even with NONE it clamps infinities to the largest finite numbers
    (quotients,) = check(Div(var(x), var(y)), x, y)
    assert quotients[0] == np.finfo(np.float32).max
    check(Atan2(var(x), var(y)), x, y)
    (out,) = kernel_results(FloorDiv(var(x), var(y)), [x, y])  # LiteRT refuses it
    np.testing.assert_array_equal(out, [np.inf, -np.inf, np.nan])


def test_floor_div_does_not_round_the_quotient_up() -> None:
    x, y = np.array([1, -1, 0.5, 7, np.inf], np.float32), np.array([0.1, 0.1, -0.1, 0.7, 2], np.float32)
    (out,) = check(FloorDiv(var(x), var(y)), x, y)
    assert out[0] == 9  # 0.1 in float32 is above 1/10


def test_a_floor_mod_of_zero_has_the_sign_of_the_dividend() -> None:
    x, y = np.array([-0.0, 0.0, 4, -4, 4, -1], np.float32), np.array([2, -2, -2, 2, -3, np.inf], np.float32)
    (out,) = check(FloorMod(var(x), var(y)), x, y)
    np.testing.assert_array_equal(np.signbit(out), [True, False, False, True, True, False])


def test_a_quotient_above_all_integers_is_the_largest() -> None:
    """That is -2^31 / -1 only."""
    x = np.array([-(2**31), -(2**31), 1 - 2**31, 2**31 - 1], np.int32)
    y = np.array([-1, 1, -1, -1], np.int32)
    (out,) = check(Div(var(x), var(y)), x, y)
    assert out[0] == 2**31 - 1


@pytest.mark.parametrize("kind", [Div, FloorDiv, FloorMod])
def test_integer_division_by_zero_is_refused(kind: type[Div]) -> None:
    x, y = np.array([1, 2], np.int32), np.array([1, 0], np.int32)
    with pytest.raises(ModelError, match="expected integer divisors other than 0, got 0"):
        kernel_results(kind(var(x), var(y)), [x, y])


def test_pow_of_floats() -> None:
    x, y = np.abs(numbers("x", "f4", (3, 4), 3)), numbers("y", "f4", (4,), 2)
    check(Pow(var(x), var(y)), x, y)


@pytest.mark.parametrize(
    "exponent", [0.5, [0.5], [[0.5]], -0.5, 1.0, 2.0, 3.0, 2.000005, 2.00002, -1.0, 0.0, np.inf, np.nan]
)
@pytest.mark.parametrize("number", [0.0, -0.0, np.inf, -np.inf, np.nan, 3e38, -3e38, 4.0])
def test_pow_by_one_exponent(number: float, exponent: float | list[float]) -> None:
    """LiteRT multiplies for an exponent near a whole number above 1, and clamps infinite products."""
    x, y = np.full(2, number, np.float32), np.array(exponent, np.float32)
    check(Pow(var(x), var(y)), x, y)


def test_the_power_one_half_of_negative_zero_is_positive() -> None:
    x, y = np.array([-0.0, 0.0], np.float32), np.array(0.5, np.float32)
    (out,) = check(Pow(var(x), var(y)), x, y)
    assert not np.signbit(out).any()


def test_pow_of_integers() -> None:
    x, y = np.array([2, -3, 7, 1, 0], np.int32), np.array([10, 5, 3, 30, 4], np.int32)
    check(Pow(var(x), var(y)), x, y)


def test_integers_have_no_negative_power() -> None:
    x, y = np.array([2], np.int32), np.array([-1], np.int32)
    with pytest.raises(ModelError, match="expected no negative exponent"):
        kernel_results(Pow(var(x), var(y)), [x, y])


def test_atan2() -> None:
    x, y = numbers("x", "f4", (3, 4)), numbers("y", "f4", (3, 4))
    check(Atan2(var(x), var(y)), x, y)


@pytest.mark.parametrize("dtype", ["f4", "i4"])
@pytest.mark.parametrize("count", [2, 3, 5])
def test_add_n(dtype: str, count: int) -> None:
    terms = [numbers(str(i), dtype, (2, 3)) for i in range(count)]
    check(AddN(*[var(t) for t in terms]), *terms)


def test_operands_of_other_dtypes_or_shapes_are_shape_errors() -> None:
    x = var(np.zeros((2, 3), np.float32))
    with pytest.raises(ShapeError, match="expected lhs and rhs of one dtype, got f32 and i32"):
        Add(x, var(np.zeros(3, np.int32)))
    with pytest.raises(ShapeError, match=r"shapes \[2,3\] and \[4\] do not broadcast"):
        Mul(x, var(np.zeros(4, np.float32)))
    with pytest.raises(ShapeError, match="ADD_N: expected at least one operand, got none"):
        AddN()


@pytest.mark.parametrize("kind", [Add, Sub, Div])
def test_quantized_operands_need_a_quantized_result(kind: type[Add]) -> None:
    left, right = (quantized(i8, (2,), scale, data=np.ones(2, np.int8)) for scale in (0.1, 0.2))
    with pytest.raises(ModelError, match="expected a scale, got i8 without"):
        kernel_results(kind(left, right), [])


@pytest.mark.parametrize("kind", [Maximum, Minimum])
def test_equally_quantized_extremes_need_no_rescaling(kind: type[Maximum]) -> None:
    x, y = np.array([-5, 7], np.int8), np.array([2, 1], np.int8)
    left, right = (quantized(i8, (2,), 0.1, 3) for _ in range(2))
    check(kind(left, right), x, y)
