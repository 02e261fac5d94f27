# SPDX-License-Identifier: Apache-2.0
"""Quantized and hybrid convolutions, bit for bit as LiteRT's kernels; hybrid transposed ones up to rounding.

Hybrid: the data are floats, and the weights are integers.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from circlekit.errors import ModelError, UnsupportedError
from circlekit.interp import evaluate
from circlekit.ir.dtypes import DType, f32, i8, i16, i32, i64, u8
from circlekit.ir.enums import Activation, Padding
from circlekit.ir.op import Op
from circlekit.ir.value import Quantization, Value
from circlekit.ops.constant_operands import packed
from circlekit.ops.convolution.conv import Conv2D, DepthwiseConv2D, TransposeConv
from circlekit.ops.numerics.output_stage import Kernels, following
from circlekit.ops.quantized_values import dtype_limits
from tests.ops.litert import FLOAT_TOLERANCE, check, const, graph_of, kernel_results, run_litert, var
from tests.ops.quantized import draw, draw_scale, draw_zero, generator, quantized

ACTS = [Activation.NONE, Activation.RELU, Activation.RELU6, Activation.RELU_N1_TO_1]
KINDS = ["conv", "grouped", "depthwise", "transposed"]


@dataclass
class Layer:
    """What one test draws: a kind of convolution, its attributes, its shapes."""

    kind: str
    rng: np.random.Generator
    attributes: dict[str, Any]
    input: tuple[int, ...]
    filter: tuple[int, ...]
    output: tuple[int, ...] = ()

    @property
    def axis(self) -> int:
        """The axis of the output channels in the filter."""
        return 3 if self.kind == "depthwise" else 0

    @property
    def channels(self) -> int:
        return self.filter[self.axis]

    def op(self, data: Value, filter: Value, bias: Value | None, result: Value | None = None) -> Op:
        results = None if result is None else [result]
        if self.kind == "transposed":
            shape = const(self.output, np.int32)
            return TransposeConv(shape, filter, data, bias, results=results, **self.attributes)
        kind = DepthwiseConv2D if self.kind == "depthwise" else Conv2D
        return kind(data, filter, bias, results=results, **self.attributes)

    def result(self, data: Value, filter: Value, scale: float) -> Value:
        shape = self.op(data, filter, None).inferred()[0].shape
        assert shape is not None
        return quantized(data.dtype, shape, scale, draw_zero(self.rng, data.dtype))


def draw_layer(kind: str, *name: object) -> Layer:
    """Return a layer with random shapes and attributes; ``kind`` and ``name`` seed them."""
    rng = generator(kind, *name)
    depth, height, width = (int(n) for n in rng.integers((1, 6, 6), (7, 12, 12)))
    taps = tuple(int(n) for n in rng.integers(1, 4, 2))
    strides = [int(n) for n in rng.integers(1, 4, 2)]
    batches = int(rng.integers(1, 3))
    attributes: dict[str, Any] = {
        "padding": (Padding.SAME, Padding.VALID)[int(rng.integers(2))],
        "stride_h": strides[0], "stride_w": strides[1],
        "act": ACTS[int(rng.integers(4))],
    }  # fmt: skip
    channels = int(rng.integers(1, 8))
    if kind == "transposed":
        sizes = (height, width)
        valid = attributes["padding"] is Padding.VALID
        spans = [(s - 1) * t + k if valid else s * t for s, t, k in zip(sizes, strides, taps, strict=True)]
        output = (batches, *spans, channels)
        return Layer(kind, rng, attributes, (batches, height, width, depth), (channels, *taps, depth), output)
    attributes |= {"dilation_h": int(rng.integers(1, 3)), "dilation_w": int(rng.integers(1, 3))}
    if kind == "depthwise":
        attributes["depth_multiplier"] = channels
        return Layer(kind, rng, attributes, (batches, height, width, depth), (1, *taps, depth * channels))
    groups = 3 if kind == "grouped" else 1
    shape = (batches, height, width, depth * groups)
    return Layer(kind, rng, attributes, shape, (channels * groups, *taps, depth))


def weights(layer: Layer, dtype: DType, per_channel: bool, zero: int = 0) -> Value:
    low, high = dtype_limits(dtype)
    numbers = layer.rng.integers(low, high + 1, layer.filter)
    count = layer.channels if per_channel else 1
    scale = np.exp(layer.rng.uniform(-6, -3, count)).astype(np.float32)
    quantization = Quantization(scale, np.full(count, zero), layer.axis)
    data = packed(numbers, dtype) if dtype is DType.INT4 else numbers.astype(dtype.numpy)
    return Value("", dtype, layer.filter, data, quantization)


def integer_bias(layer: Layer, dtype: DType, data: Value, filter: Value, reach: int = 1 << 14) -> Value:
    assert data.quantization is not None
    assert filter.quantization is not None
    scale = (data.quantization.scale * filter.quantization.scale).astype(np.float32)
    numbers = layer.rng.integers(-reach, reach, layer.channels).astype(dtype.numpy)
    return Value.constant("", numbers, Quantization(scale, np.zeros(scale.size, np.int64), 0))


def check_layer(layer: Layer, data: Value, filter: Value, bias: Value, **attributes: Any) -> None:
    """Compare with LiteRT on random data; the scale of the result uses most of the range of its dtype."""
    layer.attributes |= attributes
    array = draw(layer.rng, data.dtype, layer.input)
    assert data.quantization is not None
    assert filter.quantization is not None
    terms = float(np.prod(layer.filter)) / layer.channels
    steps = np.sqrt(terms) * 2.0 ** (data.dtype.bits + filter.dtype.bits - 4)
    unit = float(data.quantization.scale[0]) * float(filter.quantization.scale.mean())
    scale = unit * steps / 2.0 ** (data.dtype.bits - 1) * draw_scale(layer.rng, 1, 8)
    result = layer.result(data, filter, scale)
    check(layer.op(data, filter, bias, result), array)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("index", range(12))
def test_int8(kind: str, index: int) -> None:
    layer = draw_layer(kind, "int8", index)
    data = quantized(i8, layer.input, draw_scale(layer.rng), draw_zero(layer.rng, i8))
    filter = weights(layer, i8, per_channel=index % 2 == 0)
    check_layer(layer, data, filter, integer_bias(layer, i32, data, filter))


@pytest.mark.parametrize("kind", ["conv", "depthwise", "transposed"])
@pytest.mark.parametrize("index", range(8))
def test_uint8(kind: str, index: int) -> None:
    layer = draw_layer(kind, "uint8", index)
    data = quantized(u8, layer.input, draw_scale(layer.rng), draw_zero(layer.rng, u8))
    filter = weights(layer, u8, per_channel=False, zero=draw_zero(layer.rng, u8))
    check_layer(layer, data, filter, integer_bias(layer, i32, data, filter))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("index", range(8))
def test_int16_by_int8(kind: str, index: int) -> None:
    layer = draw_layer(kind, "16x8", index)
    data = quantized(i16, layer.input, draw_scale(layer.rng, 1e-5, 1e-3))
    filter = weights(layer, i8, per_channel=index % 2 == 0)
    check_layer(layer, data, filter, integer_bias(layer, i64, data, filter, 1 << 20))


@pytest.mark.parametrize("kind", ["conv", "grouped", "transposed"])
@pytest.mark.parametrize("index", range(6))
def test_int16_by_int8_with_sums_of_32_bits(kind: str, index: int) -> None:
    layer = draw_layer(kind, "16x8 i32", index)
    data = quantized(i16, layer.input, draw_scale(layer.rng, 1e-5, 1e-3))
    filter = weights(layer, i8, per_channel=index % 2 == 0)
    bias = integer_bias(layer, i32, data, filter, 1 << 20)
    check_layer(layer, data, filter, bias, quantized_bias_type=i32)


@pytest.mark.parametrize("kind", ["conv", "grouped", "depthwise"])
@pytest.mark.parametrize("index", range(4))
def test_int8_by_int4(kind: str, index: int, monkeypatch: pytest.MonkeyPatch) -> None:
    if kind == "depthwise":  # the reference kernel takes int4, but LiteRT registers it up to version 6 only
        monkeypatch.setattr(DepthwiseConv2D, "required_version", lambda self: 6)
    layer = draw_layer(kind, "int4", index)
    data = quantized(i8, layer.input, draw_scale(layer.rng), draw_zero(layer.rng, i8))
    filter = weights(layer, DType.INT4, per_channel=index % 2 == 0)
    check_layer(layer, data, filter, integer_bias(layer, i32, data, filter))


@pytest.mark.parametrize("kind", ["conv", "grouped"])
@pytest.mark.parametrize("index", range(4))
def test_int16_by_int4(kind: str, index: int) -> None:
    layer = draw_layer(kind, "16x4", index)
    data = quantized(i16, layer.input, draw_scale(layer.rng, 1e-5, 1e-3))
    filter = weights(layer, DType.INT4, per_channel=index % 2 == 0)
    check_layer(layer, data, filter, integer_bias(layer, i64, data, filter, 1 << 20))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("factor", [1e-12, 1e-6, 1.5, 60, 1e4])
@pytest.mark.parametrize("dtype", [i8, i16])
def test_extreme_multipliers(kind: str, factor: float, dtype: DType) -> None:
    """The smallest multipliers make all results zero.  The largest ones shift sums left, past 32 bits."""
    layer = draw_layer(kind, "extreme", factor)
    data = quantized(dtype, layer.input, 1.0, draw_zero(layer.rng, dtype))
    filter = weights(layer, i8, per_channel=True)
    bias = integer_bias(layer, i64 if dtype is i16 else i32, data, filter)
    assert filter.quantization is not None
    scale = float(filter.quantization.scale[0]) / factor
    result = layer.result(data, filter, scale)
    check(layer.op(data, filter, bias, result), draw(layer.rng, dtype, layer.input))


@pytest.mark.parametrize(
    ("kind", "dtype"), [*((kind, i8) for kind in KINDS), ("conv", i16), ("grouped", i16), ("transposed", i16)]
)
def test_int32_sums_wrap_around(kind: str, dtype: DType) -> None:
    """The bias is at the ends of int32.  Depthwise convolutions of int16 have no int32 sums."""
    layer = draw_layer(kind, "wrap")
    data = quantized(dtype, layer.input, 1.0, draw_zero(layer.rng, dtype))
    filter = weights(layer, i8, per_channel=True)
    bias = integer_bias(layer, i32, data, filter)
    ends = np.array([2**31 - 1, -(2**31), 2**31 - 300], np.int32)
    bias.data = np.resize(ends, layer.channels)
    if dtype is i16:
        layer.attributes["quantized_bias_type"] = i32
    assert filter.quantization is not None
    result = layer.result(data, filter, float(filter.quantization.scale[0]) * 2.0 ** (32 - dtype.bits))
    check(layer.op(data, filter, bias, result), draw(layer.rng, dtype, layer.input))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("kernels", Kernels)
@pytest.mark.parametrize("index", range(6))
def test_hybrid(kind: str, kernels: Kernels, index: int) -> None:
    layer = draw_layer(kind, "hybrid", index)
    filter = weights(layer, i8, per_channel=kind == "depthwise" or index % 2 == 0)
    assert filter.data is not None
    filter.data = np.maximum(filter.data, -127)  # LiteRT's kernel for x86 takes -128 for 128
    x = (layer.rng.normal(size=layer.input) * 3).astype(np.float32)
    bias = const(layer.rng.normal(size=layer.channels), np.float32)
    if kind == "grouped":  # LiteRT reads a scale per channel, whether it is there or not
        assert filter.quantization is not None
        scale = np.resize(filter.quantization.scale, layer.channels)
        filter.quantization = Quantization(scale, np.zeros(scale.size, np.int64), layer.axis)
    # LiteRT adds the products of a transposed layer as floats
    tolerance = FLOAT_TOLERANCE if kind == "transposed" else 0
    with following(kernels):
        op, is_optimized = layer.op(var(x), filter, bias), kernels is Kernels.OPTIMIZED
        check(op, x, tolerance=tolerance, optimized=is_optimized)


@pytest.mark.parametrize("per_channel", [False, True])
def test_hybrid_by_int4(per_channel: bool) -> None:
    layer = draw_layer("conv", "hybrid int4")
    x = layer.rng.normal(size=layer.input).astype(np.float32)
    filter = weights(layer, DType.INT4, per_channel)
    check(layer.op(var(x), filter, const(np.ones(layer.channels), np.float32)), x, tolerance=0)


@pytest.mark.parametrize("kind", KINDS)
def test_hybrid_with_an_integer_bias_has_no_kernel(kind: str) -> None:
    layer = draw_layer(kind, "integer bias")
    x = np.zeros(layer.input, np.float32)
    op = layer.op(var(x), weights(layer, i8, True), const(np.ones(layer.channels), np.int32))
    with pytest.raises(UnsupportedError, match="on float32, int32 has no kernel"):
        evaluate(op, [v.array() if v.is_const else x for v in op.inputs if v is not None])
    with pytest.raises(RuntimeError, match="failed to prepare"):
        run_litert(graph_of(op), [x])


def test_hybrid_of_zeros() -> None:
    layer = draw_layer("conv", "zeros")
    x = np.zeros(layer.input, np.float32)
    for per_channel in (False, True):
        check(
            layer.op(var(x), weights(layer, i8, per_channel), const(np.ones(layer.channels), np.float32)), x
        )


def test_hybrid_without_images() -> None:
    layer = draw_layer("conv", "no images")
    x = np.zeros((0, *layer.input[1:]), np.float32)
    (result,) = check(
        layer.op(var(x), weights(layer, i8, True), const(np.ones(layer.channels), np.float32)), x
    )
    assert result.shape[0] == 0


# -- forms that only circle has ----------------------------------------------------------------


def times(total: int, real: float, bits: int) -> int:
    """Return ``total * real``, rounded, with a mantissa of ``bits`` bits: ONE's arithmetic in integers."""
    fraction, exponent = math.frexp(real)
    mantissa = math.floor(fraction * 2**31 + 0.5)
    if bits == 15:
        mantissa = min((mantissa + 2**15) >> 16, 2**15 - 1)
        return (total * mantissa + (1 << (14 - exponent))) >> (15 - exponent)
    high = (total * mantissa + 2**30) >> 31
    down = -exponent
    sign = 1 if high < 0 else 0
    return (high + (1 << (down - 1)) - sign) >> down


def check_definition(dtype: DType, kind: str, index: int) -> None:
    """Compare the kernel of a random 1x1 convolution with ONE's definition, element by element.

    ``kind``: "conv", "depthwise" or "transposed".  An odd ``index``: a scale per channel.
    """
    rng = generator(dtype.short, kind, index)
    depth, channels = (4, 4) if kind == "depthwise" else (5, 3)
    x = draw(rng, dtype, (1, 2, 3, depth))
    zero_x, zero_y = draw_zero(rng, dtype), draw_zero(rng, dtype)
    count = channels if index % 2 else 1
    scales = np.exp(rng.uniform(-3, 0, count)).astype(np.float32)
    zeros = np.array([draw_zero(rng, dtype) for _ in range(count)])
    axis = 3 if kind == "depthwise" else 0
    w = draw(rng, dtype, (1, 1, 1, channels) if axis else (channels, 1, 1, depth))
    filter = Value.constant("", w, Quantization(scales, zeros, axis))
    bias = rng.integers(-(1 << 12), 1 << 12, channels).astype(np.int64 if dtype is i16 else np.int32)
    bits = dtype.bits
    data = quantized(dtype, x.shape, 0.5, zero_x)
    # with index 5, the scale is small: many results saturate
    scale_y = np.float32(2.0 ** (bits - (5 if index == 5 else 2)) * rng.uniform(0.5, 2))
    result = quantized(dtype, (1, 2, 3, channels), float(scale_y), zero_y)
    op: Op
    if kind == "depthwise":
        op = DepthwiseConv2D(data, filter, const(bias), results=[result])
    elif kind == "conv":
        op = Conv2D(data, filter, const(bias), results=[result])
    else:
        op = TransposeConv(const([1, 2, 3, channels], np.int32), filter, data, const(bias), results=[result])
    wanted = np.empty((1, 2, 3, channels), np.int64)
    low, high = (1 - 2**15, 2**15 - 1) if dtype is i16 else (0, 255)
    for position in np.ndindex(wanted.shape):
        c = position[3]
        row = (x[position[:3]].astype(int) - zero_x).tolist()
        column = w.reshape(-1, depth)[0 if axis else c].astype(int).tolist()
        zero_w = int(zeros[c % count])
        pairs = [(row[c], column[c])] if axis else zip(row, column, strict=True)
        total = sum(a * (b - zero_w) for a, b in pairs) + int(bias[c])
        real = float(np.float32(0.5) * scales[c % count]) / float(scale_y)
        wanted[position] = min(max(times(total, real, 15 if dtype is i16 else 31) + zero_y, low), high)
    arrays = [np.array(x)]
    np.testing.assert_array_equal(kernel_results(op, arrays)[0], wanted)


@pytest.mark.parametrize("kind", ["conv", "depthwise", "transposed"])
@pytest.mark.parametrize("index", range(6))
def test_int16_by_int16(kind: str, index: int) -> None:
    check_definition(i16, kind, index)


@pytest.mark.parametrize("kind", ["conv", "depthwise", "transposed"])
@pytest.mark.parametrize("index", range(6))
def test_uint8_per_channel(kind: str, index: int) -> None:
    check_definition(u8, kind, index)


# -- what has no kernel ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "filter", "bias", "sentence"),
    [
        (i8, u8, i32, "CONV_2D on i8 by u8 weights has no kernel"),
        (u8, i8, i32, "CONV_2D on u8 by i8 weights has no kernel"),
        (i8, i8, f32, "CONV_2D on i8 with a bias of float32 has no kernel"),
    ],
)
def test_forms_without_kernel(data: DType, filter: DType, bias: DType, sentence: str) -> None:
    layer = draw_layer("conv", "refused")
    value, w = quantized(data, layer.input, 1.0), weights(layer, filter, False)
    op = layer.op(value, w, const(np.zeros(layer.channels), bias.numpy), layer.result(value, w, 1.0))
    with pytest.raises(UnsupportedError, match=sentence):
        kernel_results(op, [np.zeros(layer.input, data.numpy)])


def test_a_missing_scale_or_a_wrong_number_of_scales_is_refused() -> None:
    layer = draw_layer("conv", "no scale")
    op = layer.op(Value("", i8, layer.input), weights(layer, i8, False), None)
    with pytest.raises(ModelError, match="expected a scale, got i8 without"):
        kernel_results(op, [np.zeros(layer.input, np.int8)])
    filter = weights(layer, i8, False)
    filter.quantization = Quantization(np.ones(layer.channels + 1, np.float32), np.zeros(1, np.int64))
    result = quantized(i8, (None,) * 4, 1.0)
    op = layer.op(quantized(i8, layer.input, 1.0), filter, None, result)
    with pytest.raises(ModelError, match=f"{layer.channels + 1} scales, expected 1 or {layer.channels}"):
        kernel_results(op, [np.zeros(layer.input, np.int8)])
