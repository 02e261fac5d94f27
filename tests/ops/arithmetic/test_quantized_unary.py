# SPDX-License-Identifier: Apache-2.0
"""Functions of one quantized element, bit for bit like LiteRT's reference kernels, for all integers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from circlekit.errors import ModelError, ShapeError, UnsupportedError
from circlekit.ir.dtypes import DType, i8, i16, u8
from circlekit.ir.op import REGISTRY
from circlekit.ir.value import Array, Value
from circlekit.ops.arithmetic.activation import HardSwish, Logistic, PRelu, Tanh
from circlekit.ops.arithmetic.unary import Rsqrt, Sqrt
from circlekit.ops.quantized_values import dtype_limits
from tests.ops.litert import check, kernel_results
from tests.ops.quantized import draw, draw_scale, draw_zero, generator, quantized

FORMS = {
    "ABS": [i8, i16],
    "NEG": [i8, i16],
    "EXP": [i8, i16],
    "LOG": [i8, i16],
    "SQRT": [i8, i16],
    "RSQRT": [i8, i16],
    "RELU": [i8, u8, i16],
    "RELU6": [i8, u8, i16],
    "RELU_N1_TO_1": [i8, u8],
    "RELU_0_TO_1": [i8, u8],
    "LEAKY_RELU": [i8, u8, i16],
    "ELU": [i8],
    "HARD_SWISH": [i8, u8],
    "GELU": [i8, u8, i16],
    "LOGISTIC": [i8, u8, i16],
    "TANH": [i8, u8, i16],
}
"""The dtypes for which LiteRT has a quantized kernel, by operator."""

ATTRIBUTES: dict[str, list[dict[str, Any]]] = {
    "LEAKY_RELU": [{"alpha": a} for a in (0.1, 1.5, -0.3, 0.0)],
    "GELU": [{"approximate": False}, {"approximate": True}],
}
RESULT_SCALES = {("LOGISTIC", 8): 2.0**-8, ("LOGISTIC", 16): 2.0**-15, ("TANH", 16): 2.0**-15}


def everything(dtype: DType) -> Array:
    """Return every integer of ``dtype``."""
    low, high = dtype_limits(dtype)
    return np.arange(low, high + 1).astype(dtype.numpy)


@pytest.mark.parametrize(
    ("code", "dtype"), [(code, dtype) for code, dtypes in FORMS.items() for dtype in dtypes]
)
@pytest.mark.parametrize("index", range(6))
def test_function(code: str, dtype: DType, index: int) -> None:
    rng = generator(code, dtype.short, index)
    finer = 0.01 if dtype is i16 else 1
    source, target = (draw_scale(rng, 0.002 * finer, 2 * finer) for _ in range(2))
    zeros = [draw_zero(rng, dtype) for _ in range(2)]
    if code == "HARD_SWISH":
        target = max(target, source / 100)  # LiteRT takes no finer result
    target = RESULT_SCALES.get((code, dtype.bits), target)
    x = everything(dtype)
    if code in ("SQRT", "RSQRT"):
        x = x[x >= zeros[0]]
    attributes = ATTRIBUTES.get(code, [{}])
    op = REGISTRY[code](
        quantized(dtype, x.shape, source, zeros[0]),
        results=[quantized(dtype, x.shape, target, zeros[1])],
        **attributes[index % len(attributes)],
    )
    check(op, x)


@pytest.mark.parametrize("dtype", [i8, u8])
@pytest.mark.parametrize("scale", [0.002, 0.004, 0.008, 0.02, 0.3])
def test_hard_swish(dtype: DType, scale: float) -> None:
    """The fixed-point shift of x / 3 is negative for small scales, 0 for 0.008, positive for large ones."""
    x, zero = everything(dtype), 3 if dtype is i8 else 120
    for target in (scale / 50, 0.01):
        check(
            HardSwish(quantized(dtype, x.shape, scale, zero), results=[quantized(dtype, x.shape, target, 5)]),
            x,
        )


@pytest.mark.parametrize("dtype", [i8, u8])
@pytest.mark.parametrize("scale", [0.1, 1.0])
@pytest.mark.parametrize("ratio", [255, 500, 513, 2000, 1e5, 1e9])
def test_hard_swish_with_a_coarse_result(dtype: DType, scale: float, ratio: float) -> None:
    """If ``ratio`` is above 512, LiteRT rounds all results away from 0, even those that are 0."""
    x = everything(dtype)
    source = quantized(dtype, x.shape, scale, 0 if dtype is i8 else 128)
    check(HardSwish(source, results=[quantized(dtype, x.shape, scale * ratio, 5)]), x)


@pytest.mark.parametrize("scale", [1e-4, 1.0, 3e3, 1e4, 5e6, 1e8, 1e12])
def test_rsqrt_with_any_scale_of_the_result(scale: float) -> None:
    """For scales from 3e3 to 1e8, LiteRT shifts int32 numbers by more than 31 bits."""
    x = np.arange(128, dtype=np.int8)
    check(Rsqrt(quantized(i8, x.shape, 2.0), results=[quantized(i8, x.shape, scale, 3)]), x)


def test_only_rsqrt_of_quantized_int16_needs_a_caution() -> None:
    for source, is_cautious in (
        (quantized(i16, (4,), 2.0), True), (quantized(i8, (4,), 2.0), False), (Value("x", i16, (4,)), False),
    ):  # fmt: skip
        assert (Rsqrt(source).integer_caution() is not None) == is_cautious


@pytest.mark.parametrize("dtype", [i8, u8])
def test_hard_swish_with_the_largest_multiplier_of_16_bits(dtype: DType) -> None:
    """The mantissa of the multiplier would round up to 1."""
    x = everything(dtype)
    source = quantized(dtype, x.shape, 0.01, dtype_limits(dtype)[0])
    result = quantized(dtype, x.shape, 0.01 * (1 + 2.0**-20), 0 if dtype is i8 else 128)
    check(HardSwish(source, results=[result]), x)


@pytest.mark.parametrize("kind", [Logistic, Tanh])
@pytest.mark.parametrize("scale", [2.0**-12, 2.0**-11, 2.0**-13, 2.0**-15, 1e-5, 3e-4, 0.01, 0.5, 10.0])
def test_curves_of_16_bits(kind: type[Logistic], scale: float) -> None:
    """Inputs of scale 2^-12 (for TANH also 2^-11) are shifted; inputs of other scales are multiplied.

    With the scale 10.0, LiteRT's product overflows.
    """
    x = everything(i16)
    op = kind(quantized(i16, x.shape, scale), results=[quantized(i16, x.shape, 2.0**-15)])
    check(op, x)
    assert (op.integer_fault() is not None) == (scale == 10.0)


@pytest.mark.parametrize("dtype", [i8, u8])
def test_results_beyond_all_integers(dtype: DType) -> None:
    x = everything(dtype)
    if dtype is i8:
        check(REGISTRY["EXP"](quantized(i8, x.shape, 3.0), results=[quantized(i8, x.shape, 1e-6)]), x)
    check(REGISTRY["GELU"](quantized(dtype, x.shape, 1e5), results=[quantized(dtype, x.shape, 1e-6)]), x)


@pytest.mark.parametrize("dtype", [i8, u8])
@pytest.mark.parametrize("zero", [0, 5])
def test_a_result_that_is_the_first_beyond_int32(dtype: DType, zero: int) -> None:
    """GELU of a large x is x.  Here 2^7 * 2^24 (uint8) and 2^6 * 2^25 (int8) are 2^31, which int32 lacks."""
    x = everything(dtype)
    source = quantized(dtype, x.shape, 2.0**24 if dtype is u8 else 2.0**25)
    check(REGISTRY["GELU"](source, results=[quantized(dtype, x.shape, 1.0, zero)]), x)


@pytest.mark.parametrize("scale", [0.001, 0.02, 0.1, 0.7])
@pytest.mark.parametrize("dtype", [i8, u8])
def test_hard_swish_shifts_either_way(dtype: DType, scale: float) -> None:
    x = everything(dtype)
    zero = 3 if dtype is i8 else 130
    op = REGISTRY["HARD_SWISH"](
        quantized(dtype, x.shape, scale, zero), results=[quantized(dtype, x.shape, scale * 0.9, zero)]
    )
    check(op, x)


@pytest.mark.parametrize("dtype", [i8, u8, i16])
@pytest.mark.parametrize("shape", [(2, 3, 50), (1, 50), (50,), (3, 1)])
def test_prelu(dtype: DType, shape: tuple[int, ...]) -> None:
    rng = generator("prelu", dtype.short, shape)
    narrow = i8 if dtype is i16 else dtype
    x, alpha = draw(rng, dtype, (2, 3, 50)), draw(rng, narrow, shape)
    op = PRelu(
        quantized(dtype, x.shape, draw_scale(rng), draw_zero(rng, dtype)),
        quantized(narrow, shape, draw_scale(rng), draw_zero(rng, narrow)),
        results=[quantized(dtype, x.shape, draw_scale(rng), draw_zero(rng, dtype))],
    )
    check(op, x, alpha)


@pytest.mark.parametrize("kind", [Logistic, Tanh])
@pytest.mark.parametrize(("zero_in", "zero_out"), [(1, 0), (0, 1)])
def test_curves_of_16_bits_take_no_zero_point(kind: type[Logistic], zero_in: int, zero_out: int) -> None:
    x = np.array([-3, 4], np.int16)
    op = kind(quantized(i16, (2,), 2.0**-12, zero_in), results=[quantized(i16, (2,), 2.0**-15, zero_out)])
    with pytest.raises(UnsupportedError, match="of int16 has no kernel for zero points other than 0"):
        kernel_results(op, [x])


def test_numbers_and_forms_without_a_kernel_are_errors() -> None:
    x = np.array([-3, 4], np.int8)
    op = Sqrt(quantized(i8, (2,), 0.1, -2), results=[quantized(i8, (2,), 0.1)])
    with pytest.raises(ModelError, match="SQRT: expected numbers >= 0, got a negative number"):
        kernel_results(op, [x])
    wrong = Logistic(quantized(i8, (2,), 0.1), results=[quantized(i8, (2,), 0.1)])
    with pytest.raises(
        UnsupportedError, match=r"LOGISTIC has no kernel for a result of scale 0\.1, only for 0\.00390625"
    ):
        kernel_results(wrong, [x])
    for code in ("ABS", "SIN", "ELU"):
        unsigned = REGISTRY[code](quantized(u8, (2,), 0.1), results=[quantized(u8, (2,), 0.1)])
        with pytest.raises(UnsupportedError, match=f"{code} on quantized u8"):
            kernel_results(unsigned, [x.view(np.uint8)])
    with pytest.raises(ShapeError, match="expected input and alpha of one dtype, got i8 and i16"):
        PRelu(quantized(i8, (2,), 1), quantized(i16, (2,), 1))
