# SPDX-License-Identifier: Apache-2.0
"""Quantized normalizations, bit for bit as LiteRT's reference kernels."""

from __future__ import annotations

import numpy as np
import pytest

from circlekit.errors import UnsupportedError
from circlekit.ir.dtypes import DType, i8, i16, u8
from circlekit.ir.op import Op
from circlekit.ir.value import Array, Value
from circlekit.ops.numerics.output_stage import Kernels, following
from circlekit.ops.quantized_values import dtype_limits
from circlekit.ops.reduction.normalization import L2Normalization, LogSoftmax, Softmax
from tests.ops.litert import check, kernel_results
from tests.ops.quantized import draw, draw_scale, draw_zero, generator, quantized

# LiteRT aborts where the exponentials of a vector add up to 512 or more
SHAPES: list[tuple[int, ...]] = [(4, 10), (3, 1), (2, 3, 5, 7), (6,), (2, 300)]


def softmax_result(input: Value, dtype: DType) -> Value:
    assert input.shape is not None
    zero = {i8: -128, u8: 0, i16: 0}[dtype]
    return quantized(dtype, input.shape, 2.0 ** -(15 if dtype is i16 else 8), zero)


def drawn(rng: np.random.Generator, dtype: DType, shape: tuple[int, ...], index: int) -> Array:
    """Return integers over the whole range, close to each other, or all equal."""
    x = draw(rng, dtype, shape)
    if index % 3 == 1:
        x = (x >> 4).astype(dtype.numpy)
    return np.full_like(x, x.reshape(-1)[-1]) if index % 7 == 6 else x


@pytest.mark.parametrize(("dtype", "output"), [(i8, i8), (u8, u8), (i8, i16), (u8, i16), (i16, i16)])
@pytest.mark.parametrize("index", range(14))
def test_softmax(dtype: DType, output: DType, index: int) -> None:
    rng = generator("softmax", dtype.short, output.short, index)
    shape = SHAPES[index % len(SHAPES)]
    scale = draw_scale(rng, 1e-6, 1e-2) if dtype is i16 else draw_scale(rng, 1e-4, 5)
    data = quantized(dtype, shape, scale, draw_zero(rng, dtype))
    op = Softmax(data, beta=(1.0, 0.3, 2.5)[index % 3], results=[softmax_result(data, output)])
    check(op, drawn(rng, dtype, shape, index))


@pytest.mark.parametrize("scale", [31.0, 33.0, 1e4])
def test_softmax_of_large_scales_has_the_maximum_only(scale: float) -> None:
    """A step of 31 divides the exponential by over 2^44.  From a step of 32 on, the multiplier is limited."""
    data = quantized(i8, (1, 4), scale, 3)
    op = Softmax(data, results=[softmax_result(data, i8)])
    x = np.array([[5, -128, 127, 126]], np.int8)
    assert kernel_results(op, [x])[0].tolist() == [[-128, -128, 127, -128]]
    check(op, x)


@pytest.mark.parametrize("dtype", [i8, u8])
def test_softmax_of_8_bits_needs_a_beta_of_0_or_more(dtype: DType) -> None:
    """For a beta of 0 all results are equal.  LiteRT's reference kernel ends the process for 0, too."""
    data, x = quantized(dtype, (1, 4), 0.1, 3), np.array([[0, 1, 50, 7]], dtype.numpy)
    result = softmax_result(data, dtype)
    low = dtype_limits(dtype)[0]
    assert kernel_results(Softmax(data, beta=0.0, results=[result]), [x])[0].tolist() == [[low + 64] * 4]
    with pytest.raises(UnsupportedError, match=r"beta of 0 or more for 8-bit data, got -0\.5"):
        kernel_results(Softmax(data, beta=-0.5, results=[softmax_result(data, dtype)]), [x])


@pytest.mark.parametrize("dtype", [i8, u8])
def test_softmax_of_8_bits_with_a_negative_beta_follows_the_optimized_kernels(dtype: DType) -> None:
    data, x = quantized(dtype, (2, 7), 0.1, 3), draw(generator("negative beta"), dtype, (2, 7))
    with following(Kernels.OPTIMIZED):
        check(Softmax(data, beta=-0.5, results=[softmax_result(data, dtype)]), x, optimized=True)


@pytest.mark.parametrize("scale", [2.0**-26, 1e-8, 1e-9, 1e-18, 1e-30])
@pytest.mark.parametrize("kind", [Softmax, LogSoftmax])
def test_tiny_scales_make_all_elements_equal(kind: type[Op], scale: float) -> None:
    """LiteRT's reference kernels abort on such scales; its optimized ones compute in floats."""
    data = quantized(i8, (2, 7), scale, 3)
    result = softmax_result(data, i8) if kind is Softmax else quantized(i8, (2, 7), 1 / 16, 127)
    x = draw(generator("tiny scales"), i8, (2, 7))
    x[0, :2] = -128, 127
    check(kind(data, results=[result]), x, optimized=True)


@pytest.mark.parametrize("dtype", [i8, u8])
@pytest.mark.parametrize("index", range(14))
def test_log_softmax(dtype: DType, index: int) -> None:
    rng = generator("log softmax", dtype.short, index)
    shape = SHAPES[index % len(SHAPES)]
    data = quantized(dtype, shape, draw_scale(rng, 1e-4, 5), draw_zero(rng, dtype))
    result = quantized(dtype, shape, 16 / 256, dtype_limits(dtype)[1])
    check(LogSoftmax(data, results=[result]), drawn(rng, dtype, shape, index))


@pytest.mark.parametrize("dtype", [i8, u8])
@pytest.mark.parametrize("index", range(14))
def test_l2_normalization(dtype: DType, index: int) -> None:
    rng = generator("l2", dtype.short, index)
    shape = SHAPES[index % len(SHAPES)]
    data = quantized(dtype, shape, draw_scale(rng), draw_zero(rng, dtype))
    result = quantized(dtype, shape, 1 / 128, 128 if dtype is u8 else 0)
    check(L2Normalization(data, results=[result]), drawn(rng, dtype, shape, index))


@pytest.mark.parametrize("dtype", [i8, u8])
def test_l2_normalization_of_zeros(dtype: DType) -> None:
    data = quantized(dtype, (2, 5), 1.0, 7)
    result = quantized(dtype, (2, 5), 1 / 128, 128 if dtype is u8 else 0)
    x = np.full((2, 5), 7, dtype.numpy)
    check(L2Normalization(data, results=[result]), x)
    x[0, 2] += 1
    check(L2Normalization(data, results=[result]), x)


@pytest.mark.parametrize(
    ("kind", "data", "output", "sentence"),
    [
        (Softmax, i16, i8, "SOFTMAX from i16 to i8 has no kernel"),
        (LogSoftmax, i16, i16, "LOG_SOFTMAX from i16 to i16 has no kernel"),
        (L2Normalization, i16, i16, "L2_NORMALIZATION from i16 to i16 has no kernel"),
    ],
)
def test_forms_without_kernel(kind: type[Op], data: DType, output: DType, sentence: str) -> None:
    op = kind(quantized(data, (2, 3), 1.0), results=[quantized(output, (2, 3), 1.0)])
    with pytest.raises(UnsupportedError, match=sentence):
        kernel_results(op, [np.zeros((2, 3), data.numpy)])
