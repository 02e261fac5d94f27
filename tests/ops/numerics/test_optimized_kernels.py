# SPDX-License-Identifier: Apache-2.0
"""With Kernels.OPTIMIZED, our kernels give the integers of LiteRT's optimized kernels."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from circlekit.ir.dtypes import DType, f32, i8, i16, i64, u8
from circlekit.ir.enums import Activation
from circlekit.ir.op import Op
from circlekit.ir.value import Array, Quantization, Value
from circlekit.ops.arithmetic.activation import Logistic, Tanh
from circlekit.ops.arithmetic.binary import Add, Sub
from circlekit.ops.arithmetic.cast import Dequantize, Quantize
from circlekit.ops.convolution.conv import Conv2D, DepthwiseConv2D, TransposeConv
from circlekit.ops.matmul.dense import BatchMatMul, FullyConnected
from circlekit.ops.movement.resize_images import ResizeBilinear
from circlekit.ops.numerics.output_stage import Kernels, following
from circlekit.ops.reduction.normalization import LogSoftmax, Softmax
from circlekit.ops.reduction.reduce import Mean
from tests.ops.litert import const, graph_of, kernel_results, run_litert
from tests.ops.quantized import draw, generator, quantized

Random = np.random.Generator

SEEDS = 12

ACTS = (Activation.NONE, Activation.RELU)


def layer(rng: Random, dtype: DType, units: int, taps: tuple[int, ...], axis: int) -> tuple[Value, Value]:
    """Return weights with ``units`` along ``axis``, and a bias.

    About half of the int8 weights have a scale per channel; all other weights have one scale.
    """
    shape = [*taps]
    shape.insert(axis, units)
    scales = rng.uniform(0.5, 1, units if dtype is i8 and rng.integers(2) else 1).astype(np.float32)
    data = draw(rng, dtype, tuple(shape))
    if dtype is i8:
        data = data.clip(-127, 127)
    weights = quantized(dtype, tuple(shape), 1.0, 0, data)
    zero = 0 if dtype is i8 else int(rng.integers(256))
    weights.quantization = Quantization(scales, np.full(scales.shape, zero, np.int64), axis)
    bias = quantized(DType.INT32, (units,), 1.0, 0, rng.integers(-3000, 3000, units).astype(np.int32))
    return weights, bias


def output(rng: Random, dtype: DType, shape: tuple[int, ...], depth: int) -> Value:
    """Return a result whose scale is a power of two, so that halves occur.

    The scale fits sums of ``depth`` products: not all elements saturate, and not all are equal.
    """
    scale = 2.0 ** np.round(np.log2(60 * np.sqrt(depth)) + rng.uniform(-1, 1))
    zero = int(rng.integers(-60, 60)) + (128 if dtype is u8 else 0)
    return quantized(dtype, shape, float(scale), zero)


def source(rng: Random, dtype: DType, shape: tuple[int, ...]) -> tuple[Value, Array]:
    zero = int(rng.integers(-20, 20)) + (128 if dtype is u8 else 0)
    return quantized(dtype, shape, 1.0, zero), draw(rng, dtype, shape)


Drawn = tuple[Op, list[Array]]


def convolution(rng: Random, dtype: DType) -> Drawn:
    size, channels = int(rng.choice([1, 3])), int(rng.choice([3, 8, 16]))
    x, array = source(rng, dtype, (1, 24, 24, channels))
    weights, bias = layer(rng, dtype, 16, (size, size, channels), 0)
    y = output(rng, dtype, (1, 24, 24, 16), size * size * channels)
    return Conv2D(x, weights, bias, results=[y], act=ACTS[int(rng.integers(2))]), [array]


def grouped(rng: Random, dtype: DType) -> Drawn:
    x, array = source(rng, dtype, (1, 24, 24, 8))
    weights, bias = layer(rng, dtype, 16, (3, 3, 4), 0)
    return Conv2D(x, weights, bias, results=[output(rng, dtype, (1, 24, 24, 16), 36)]), [array]


def depthwise(rng: Random, dtype: DType, channels: int = 16) -> Drawn:
    x, array = source(rng, dtype, (1, 24, 24, channels))
    weights, bias = layer(rng, dtype, channels, (1, 3, 3), 3)
    y = output(rng, dtype, (1, 24, 24, channels), 9)
    return DepthwiseConv2D(x, weights, bias, results=[y]), [array]


def transposed(rng: Random, dtype: DType, channels: int = 16) -> Drawn:
    x, array = source(rng, dtype, (1, 12, 12, 8))
    weights, bias = layer(rng, dtype, channels, (3, 3, 8), 0)
    y = output(rng, dtype, (1, 24, 24, channels), 30)
    shape = const([1, 24, 24, channels], np.int32)
    return TransposeConv(shape, weights, x, bias, results=[y], stride_h=2, stride_w=2), [array]


def dense(rng: Random, dtype: DType) -> Drawn:
    depth = int(rng.choice([7, 64, 200]))
    x, array = source(rng, dtype, (128, depth))
    weights, bias = layer(rng, dtype, 96, (depth,), 0)
    return FullyConnected(x, weights, bias, results=[output(rng, dtype, (128, 96), depth)]), [array]


def dense_of_int16(rng: Random, dtype: DType, bias_type: DType = f32) -> Drawn:
    """Draw a layer with weights of ``dtype`` and no bias; ``bias_type``: the dtype that a bias would have."""
    scale = 2.0 ** np.round(np.log2(60 * np.sqrt(64)) + rng.uniform(-1, 1))
    x, y = quantized(i16, (128, 64), 1.0, 0), quantized(i16, (128, 96), float(scale), 0)
    weights, _ = layer(rng, dtype, 96, (64,), 0)
    op = FullyConnected(x, weights, None, results=[y], quantized_bias_type=bias_type)
    return op, [draw(rng, i16, (128, 64))]


def dense_of_int16_with_int64_sums(rng: Random, dtype: DType) -> Drawn:
    return dense_of_int16(rng, dtype, i64)


def product(rng: Random, dtype: DType) -> Drawn:
    x, left = source(rng, dtype, (2, 64, 40))
    y, right = source(rng, dtype, (2, 40, 96))
    return BatchMatMul(x, y, results=[output(rng, dtype, (2, 64, 96), 40)]), [left, right]


def mean(rng: Random, dtype: DType, axes: tuple[int, ...] = (1, 2), keep_dims: bool = True) -> Drawn:
    x, array = source(rng, dtype, (2, 5, 7, 40))
    assert x.quantization is not None
    x.quantization = Quantization(rng.uniform(0.5, 1, 1).astype(np.float32), x.quantization.zero_point)
    shape = np.empty((2, 5, 7, 40)).mean(axes, keepdims=keep_dims).shape
    y = quantized(dtype, shape, float(rng.uniform(0.05, 0.5)), int(rng.integers(100)))
    return Mean(x, const(axes, np.int32), results=[y], keep_dims=keep_dims), [array]


def mean_of_other_axes(rng: Random, dtype: DType) -> Drawn:
    return mean(rng, dtype, ((2, 3), (1, 3), (1,))[int(rng.integers(3))])


def mean_without_kept_dims(rng: Random, dtype: DType) -> Drawn:
    return mean(rng, dtype, keep_dims=False)


def requantized(rng: Random, dtype: DType) -> Drawn:
    x, array = source(rng, dtype, (1, 13, 21))
    return Quantize(x, results=[output(rng, dtype, (1, 13, 21), 1)]), [array]


def quantized_halves(rng: Random, dtype: DType) -> Drawn:
    scale = np.float32(rng.uniform(0.01, 0.5))
    array = (rng.integers(-90, 90, (13, 21)) + np.float32(0.5)) * scale
    result = quantized(dtype, (13, 21), float(scale), int(rng.integers(1, 20)))
    return Quantize(Value("x", f32, (13, 21)), results=[result]), [array.astype(np.float32)]


def dequantized(rng: Random, dtype: DType) -> Drawn:
    x = quantized(dtype, (1, 13, 21), float(rng.uniform(0.1, 1)), int(rng.integers(1, 100)))
    array = draw(rng, dtype, (1, 13, 21))
    return Dequantize(x, results=[Value("y", f32, (1, 13, 21))]), [array]


def softmax(rng: Random, dtype: DType) -> Drawn:
    x = quantized(dtype, (4000, 30), float(rng.uniform(0.02, 0.2)), int(rng.integers(100)))
    y = quantized(dtype, (4000, 30), 1 / 256, -128 if dtype is i8 else 0)
    return Softmax(x, results=[y], beta=float(rng.choice([0.3, 1, 2]))), [draw(rng, dtype, (4000, 30))]


def softmax_to_int16(rng: Random, dtype: DType) -> Drawn:
    x = quantized(dtype, (100, 30), float(rng.uniform(0.02, 0.2)), int(rng.integers(100)))
    return Softmax(x, results=[quantized(i16, (100, 30), 2.0**-16, -(1 << 15))]), [
        draw(rng, dtype, (100, 30))
    ]


def log_softmax(rng: Random, dtype: DType) -> Drawn:
    x = quantized(dtype, (8000, 12), float(rng.choice([0.1, 0.13, 0.5])), int(rng.integers(100)))
    y = quantized(dtype, (8000, 12), 1 / 16, dtype.limits[1])
    return LogSoftmax(x, results=[y]), [draw(rng, dtype, (8000, 12))]


def resized(rng: Random, dtype: DType) -> Drawn:
    x, array = source(rng, dtype, (2, *(int(n) for n in rng.integers(2, 9, 3))))
    centers = bool(rng.integers(2))
    op = ResizeBilinear(x, const(rng.integers(2, 30, 2), np.int32), half_pixel_centers=centers)
    return op, [array]


def sum_or_difference(
    rng: Random, kind: type[Add | Sub], shapes: tuple[tuple[int, ...], tuple[int, ...]]
) -> Drawn:
    """Return ``kind`` of two int16 operands with random scales."""
    x, y = (
        quantized(i16, shape, float(scale), 0)
        for shape, scale in zip(shapes, rng.uniform(1, 9, 2), strict=True)
    )
    z = quantized(i16, np.broadcast_shapes(*shapes), 10.0, 0)
    return kind(x, y, results=[z], pot_scale_int16=False), [draw(rng, i16, shape) for shape in shapes]


Draw = Callable[[Random, DType], Drawn]
Sized = Callable[[Random, DType, int], Drawn]
KINDS: tuple[Draw, ...] = (
    convolution,
    transposed,
    dense,
    mean,
    requantized,
    dequantized,
    quantized_halves,
    softmax_to_int16,
)


def results(drawn: Drawn, kernels: Kernels) -> Array:
    with following(kernels):
        (result,) = kernel_results(drawn[0], drawn[1])
    return result


@pytest.mark.parametrize(
    ("kind", "dtype"),
    [
        *((kind, dtype) for kind in KINDS for dtype in (i8, u8)),
        (depthwise, i8),
        (dense_of_int16, i8),
        (softmax, i8),
        (softmax, u8),
        (log_softmax, u8),
        (resized, u8),
    ],
)
def test_optimized_kernels_equal_litert_where_reference_kernels_differ(kind: Draw, dtype: DType) -> None:
    different = 0
    for seed in range(SEEDS):
        drawn = kind(generator(kind.__name__, dtype.short, seed), dtype)
        (wanted,) = run_litert(graph_of(drawn[0]), drawn[1], optimized=True)
        np.testing.assert_array_equal(results(drawn, Kernels.OPTIMIZED), wanted)
        different += np.count_nonzero(results(drawn, Kernels.REFERENCE) != wanted)
    assert different


@pytest.mark.parametrize("kind", [depthwise, transposed])
@pytest.mark.parametrize("whole", [0, 8, 16])
def test_channels_beyond_groups_of_8_are_as_in_the_reference(kind: Sized, whole: int) -> None:
    different = 0
    for seed in range(SEEDS):
        drawn = kind(generator(kind.__name__, whole, seed), i8, whole + 5)
        (wanted,) = run_litert(graph_of(drawn[0]), drawn[1], optimized=True)
        reference = results(drawn, Kernels.REFERENCE)
        np.testing.assert_array_equal(results(drawn, Kernels.OPTIMIZED), wanted)
        np.testing.assert_array_equal(reference[..., whole:], wanted[..., whole:])
        different += np.count_nonzero(reference[..., :whole] != wanted[..., :whole])
    assert bool(different) == bool(whole)


@pytest.mark.parametrize(
    ("kind", "dtype"),
    [
        (grouped, i8),
        (product, i8),
        (depthwise, u8),
        (mean_of_other_axes, i8),
        (mean_without_kept_dims, u8),
        (dense_of_int16_with_int64_sums, i8),
    ],
)
def test_optimized_and_reference_kernels_are_equal(kind: Draw, dtype: DType) -> None:
    for seed in range(SEEDS):
        drawn = kind(generator(kind.__name__, seed), dtype)
        (wanted,) = run_litert(graph_of(drawn[0]), drawn[1], optimized=True)
        np.testing.assert_array_equal(results(drawn, Kernels.OPTIMIZED), wanted)
        np.testing.assert_array_equal(results(drawn, Kernels.REFERENCE), wanted)


@pytest.mark.parametrize(
    ("kind", "shapes", "differs"),
    [
        (Add, ((600, 1000), (600, 1000)), True),
        (Add, ((600, 1000), (1000,)), False),
        (Sub, ((600, 1000), (600, 1000)), False),
        (Add, ((3, 5), (3, 5)), False),
    ],
)
def test_sums_of_int16(
    kind: type[Add | Sub], shapes: tuple[tuple[int, ...], tuple[int, ...]], differs: bool
) -> None:
    different = 0
    for seed in range(4):
        drawn = sum_or_difference(generator(kind.__name__, seed), kind, shapes)
        (wanted,) = run_litert(graph_of(drawn[0]), drawn[1], optimized=True)
        np.testing.assert_array_equal(results(drawn, Kernels.OPTIMIZED), wanted)
        different += np.count_nonzero(results(drawn, Kernels.REFERENCE) != wanted)
    assert bool(different) == differs


@pytest.mark.parametrize(
    ("kind", "exponent", "differs"),
    [
        (Logistic, -13, False),
        (Logistic, -12, True),
        (Logistic, -11, False),
        (Tanh, -13, False),
        (Tanh, -12, True),
        (Tanh, -11, True),
        (Tanh, -10, False),
    ],
)
def test_sigmoid_and_tanh_of_all_int16_with_the_scale_2_to_an_exponent(
    kind: type[Logistic | Tanh], exponent: int, differs: bool
) -> None:
    integers = np.arange(-(1 << 15), 1 << 15).astype(np.int16)
    x, y = (quantized(i16, integers.shape, 2.0**e, 0) for e in (exponent, -15))
    drawn = kind(x, results=[y]), [integers]
    (wanted,) = run_litert(graph_of(drawn[0]), drawn[1], optimized=True)
    np.testing.assert_array_equal(results(drawn, Kernels.OPTIMIZED), wanted)
    assert np.any(results(drawn, Kernels.REFERENCE) != wanted) == differs


def test_sums_of_int16_beyond_groups_of_16_are_as_in_the_reference() -> None:
    """Of 31 copies of a pair for which the kernels differ, the last 15 are added by the reference rule."""
    large, small = (
        sum_or_difference(generator("Add", 0), Add, (shape, shape)) for shape in ((600, 1000), (31,))
    )
    differs = results(large, Kernels.OPTIMIZED) != results(large, Kernels.REFERENCE)
    drawn = small[0], [np.repeat(a[differs][:1], 31) for a in large[1]]
    (wanted,) = run_litert(graph_of(drawn[0]), drawn[1], optimized=True)
    np.testing.assert_array_equal(results(drawn, Kernels.OPTIMIZED), wanted)
    np.testing.assert_array_equal(wanted != results(drawn, Kernels.REFERENCE), np.arange(31) < 16)
