# SPDX-License-Identifier: Apache-2.0
"""Fast convolutions against the plain kernels: integers bit for bit, floats to rounding."""

from __future__ import annotations

import tracemalloc
from typing import Any

import numpy as np
import pytest

from circlekit.interp.fast import convolution, prepare
from circlekit.ir.dtypes import DType, f32, i8, i16, u8
from circlekit.ir.enums import Activation, Padding
from circlekit.ir.op import Op
from circlekit.ir.value import Array, Quantization, Value
from circlekit.ops.arithmetic.cast import Dequantize
from circlekit.ops.convolution.conv import Conv2D, DepthwiseConv2D, TransposeConv
from circlekit.ops.numerics.output_stage import Kernels, following
from tests.ops.litert import assert_close, const, var
from tests.ops.quantized import draw, draw_zero, generator, quantized

ACTIVATIONS = [Activation.NONE, Activation.RELU, Activation.RELU6]


def check_fast(op: Op, *arrays: Array | None) -> Array:
    """Assert that the prepared kernel gives the result of ``op.kernel``; return its result."""
    kernel = prepare(op)
    assert kernel is not None
    with np.errstate(all="ignore"):
        wanted, got = op.kernel(*arrays), kernel(*arrays)
    assert_close(got, wanted)
    return got


def window(rng: np.random.Generator, dilated: bool = True) -> dict[str, Any]:
    """Return random attributes: padding, strides, activation and, if ``dilated``, dilations."""
    stride, dilation = rng.integers(1, 4, 2), rng.integers(1, 3, 2)
    attributes = {
        "padding": (Padding.SAME, Padding.VALID)[int(rng.integers(2))],
        "stride_h": int(stride[0]),
        "stride_w": int(stride[1]),
        "act": ACTIVATIONS[int(rng.integers(3))],
    }
    dilations = {"dilation_h": int(dilation[0]), "dilation_w": int(dilation[1])}
    return attributes | (dilations if dilated else {})


def normal(rng: np.random.Generator, *shape: int) -> Array:
    return rng.normal(size=shape).astype(np.float32)


@pytest.mark.parametrize("block_bytes", [1, 1 << 13, 1 << 20])
@pytest.mark.parametrize("index", range(8))
def test_float_conv_2d(index: int, block_bytes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks of one row, of some rows, and of whole images."""
    monkeypatch.setattr(convolution, "CACHE_BLOCK_BYTES", block_bytes)
    rng = generator("fast float", index)
    taps, depth, units = rng.integers(1, 4, 2), int(rng.integers(1, 9)), int(rng.integers(1, 9))
    x, filter = normal(rng, 2, 13, 11, depth), normal(rng, units, *taps, depth)
    bias = normal(rng, units) if index % 2 else None
    op = Conv2D(var(x), const(filter), None if bias is None else const(bias), **window(rng))
    check_fast(op, x, filter, bias)


def integer_layer(kind: type[Op], rng: np.random.Generator, dtype: DType, index: int) -> tuple[Op, list[Any]]:
    """Return an operator on integers, and its arrays; the scale lets the results spread over their range.

    If ``index`` is odd, the filter has a scale for each channel, unless ``dtype`` is u8.
    """
    depth, units = int(rng.integers(1, 7)), int(rng.integers(1, 20))
    taps = tuple(int(n) for n in rng.integers(1, 4, 2))
    attributes = window(rng, dilated=kind is not TransposeConv)
    multiplier = int(rng.integers(1, 3))
    channels = depth * multiplier if kind is DepthwiseConv2D else units
    shape = (1, *taps, channels) if kind is DepthwiseConv2D else (units, *taps, depth)
    weight_dtype = u8 if dtype is u8 else i8
    numbers = draw(rng, weight_dtype, shape)
    count = channels if index % 2 and dtype is not u8 else 1
    zero = draw_zero(rng, u8) if dtype is u8 else 0
    scales = np.exp(rng.uniform(-7, -4, count)).astype(np.float32)
    filter = Value.constant(
        "", numbers, Quantization(scales, np.full(count, zero), 3 if shape[0] == 1 else 0)
    )
    bias = rng.integers(-4000, 4000, channels).astype(np.int64 if dtype is i16 else np.int32)
    data = quantized(dtype, (2, 9, 8, depth), 0.5, 0 if dtype is i16 else draw_zero(rng, dtype))
    terms = float(np.sqrt(np.prod(taps) * (1 if kind is DepthwiseConv2D else depth)))
    scale = 0.5 * float(scales.mean()) * terms * 2.0 ** rng.uniform(5, 8)
    x, operands = draw(rng, dtype, (2, 9, 8, depth)), [data, filter, const(bias)]
    if kind is not TransposeConv:
        output = kind(data, filter, const(bias), **attributes).inferred()[0].shape
        result = quantized(dtype, output or (), scale, draw_zero(rng, dtype))
        return kind(*operands, results=[result], **attributes), [x, numbers, bias]
    size = [9 * attributes["stride_h"], 8 * attributes["stride_w"]]
    to = np.array([2, *size, units], np.int32)
    result = quantized(dtype, tuple(to.tolist()), scale, draw_zero(rng, dtype))
    op = TransposeConv(const(to), filter, data, const(bias), results=[result], **attributes)
    return op, [to, numbers, x, bias]


@pytest.mark.parametrize("kind", [Conv2D, DepthwiseConv2D, TransposeConv])
@pytest.mark.parametrize("dtype", [i8, u8, i16])
@pytest.mark.parametrize("flavor", list(Kernels))
def test_integers(kind: type[Op], dtype: DType, flavor: Kernels, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(convolution, "CACHE_BLOCK_BYTES", 1 << 12)
    distinct = 0
    with following(flavor):
        for index in range(6):
            # ``index`` % 2 decides whether there is one scale or one for each channel
            monkeypatch.setattr(convolution, "KEPT_WEIGHT_BYTES", (0, 1 << 20)[index // 2 % 2])
            rng = generator("fast", kind.__name__, dtype.short, index)
            op, arrays = integer_layer(kind, rng, dtype, index)
            distinct = max(distinct, len(np.unique(check_fast(op, *arrays))))
    assert distinct > 60  # the results are not all clipped


@pytest.mark.parametrize(("depth", "is_exact"), [(16, True), (17, False)])
def test_the_bound_of_a_sum_includes_all_taps(depth: int, is_exact: bool) -> None:
    """The fast stage is exact for sums below 2^21.  Here, 4 taps add up to 255 * 128 * 4 * depth.

    That is 2088960 for depth 16 and 2219520 for depth 17; 2^21 is 2097152.
    """
    x = quantized(i8, (1, 2, 2, depth), 0.01, 127)  # data from -255 to 0
    taps = np.full((3, 2, 2, depth), -128, np.int8)
    to = np.array([1, 3, 3, 3], np.int32)
    filter = quantized(i8, taps.shape, 0.001, 0, taps)
    result = quantized(i8, (1, 3, 3, 3), 1.0)
    kernel: Any = prepare(TransposeConv(const(to), filter, x, padding=Padding.VALID, results=[result]))
    assert kernel.stage.is_exact is is_exact


@pytest.mark.parametrize("index", range(8))
def test_float_depthwise_conv_2d(index: int) -> None:
    rng = generator("fast depthwise", index)
    taps, depth, multiplier = rng.integers(1, 4, 2), int(rng.integers(1, 9)), 1 + index % 2
    x, filter = normal(rng, 2, 13, 12, depth), normal(rng, 1, *taps, depth * multiplier)
    check_fast(DepthwiseConv2D(var(x), const(filter), **window(rng)), x, filter)


def test_depthwise_conv_2d_of_one_channel_cut_from_several() -> None:
    """Numpy calls an image contiguous, whatever stride an axis of one element has."""
    rng = generator("one channel")
    x, filter = normal(rng, 1, 1, 1, 8).transpose(0, 1, 3, 2), normal(rng, 1, 1, 1, 1)
    x = np.lib.stride_tricks.as_strided(x, strides=(*x.strides[:3], 4000))
    assert x.flags.c_contiguous
    check_fast(DepthwiseConv2D(var(x), const(filter)), x, filter)


@pytest.mark.parametrize("index", range(8))
def test_float_transpose_conv(index: int) -> None:
    """The stride divides the filter's size or not; the result ends before or after the last tap."""
    rng = generator("fast transposed", index)
    depth, units = int(rng.integers(1, 9)), int(rng.integers(1, 9))
    x, filter = normal(rng, 2, 5, 4, depth), normal(rng, units, *rng.integers(1, 6, 2), depth)
    attributes, more = window(rng, dilated=False), rng.integers(-1, 3, 2)
    shape = [2, 5 * attributes["stride_h"] + int(more[0]), 4 * attributes["stride_w"] + int(more[1]), units]
    bias, output = normal(rng, units), np.array(shape, np.int32)
    op = TransposeConv(const(output), const(filter), var(x), const(bias), **attributes)
    check_fast(op, output, filter, x, bias)


def test_transpose_conv_of_infinities() -> None:
    """Places of the result that no tap reaches stay finite."""
    x, filter = np.full((1, 2, 2, 1), np.inf, np.float32), np.ones((1, 3, 3, 1), np.float32)
    x[0, 0, 0, 0] = np.nan
    output = np.array([1, 7, 7, 1], np.int32)
    op = TransposeConv(const(output), const(filter), var(x), stride_h=2, stride_w=2)
    assert np.isfinite(check_fast(op, output, filter, x)).any()


def test_small_part_of_a_large_transpose_conv() -> None:
    x, filter = normal(generator("part"), 1, 9, 9, 1), normal(generator("taps"), 1, 9, 9, 1)
    output = np.array([1, 2, 2, 1], np.int32)
    op = TransposeConv(const(output), const(filter), var(x), stride_h=8, stride_w=8)
    check_fast(op, output, filter, x)


def test_transpose_conv_of_huge_strides(monkeypatch: pytest.MonkeyPatch) -> None:
    """The filter is copied once to whole strides; without memory for it, the plain kernel runs."""
    x, filter = normal(generator("far"), 1, 1, 2, 3), normal(generator("tap"), 4, 1, 1, 3)
    output = np.array([1, 1, 1 << 18, 4], np.int32)
    op = TransposeConv(const(output), const(filter), var(x), padding=Padding.VALID, stride_w=1 << 17)
    tracemalloc.start()
    try:
        kernel: Any = prepare(op)
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    matrix_bytes = (1 << 17) * filter.nbytes
    assert matrix_bytes < peak_bytes < 1.1 * matrix_bytes
    np.testing.assert_allclose(kernel(output, filter, x), op.kernel(output, filter, x), atol=1e-6)
    monkeypatch.setattr("numpy.zeros", raises_memory_error)
    assert prepare(op) is None


def raises_memory_error(*arguments: object) -> Array:
    raise MemoryError


@pytest.mark.parametrize("depth", [1, 3])
def test_results_of_one_element(depth: int) -> None:
    x, filter = normal(generator("one element"), 1, 2, 2, depth), normal(generator("tap"), 1, 2, 2, depth)
    check_fast(Conv2D(var(x), const(filter), padding=Padding.VALID), x, filter)
    check_fast(DepthwiseConv2D(var(x), const(filter), padding=Padding.VALID), x, filter)


@pytest.mark.parametrize("kind", [Conv2D, DepthwiseConv2D, TransposeConv])
@pytest.mark.parametrize("limit", [1, 3000, 5000, 1 << 20])
def test_blocks_are_as_large_as_the_cache_permits(
    kind: type[Op], limit: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The blocks of an image, except the last one, have as many rows as fit the limit, but at least one."""
    monkeypatch.setattr(convolution, "CACHE_BLOCK_BYTES", limit)
    rng = generator("blocks", kind.__name__)
    op, arrays = integer_layer(kind, rng, i8, 1)
    kernel: Any = prepare(op)
    written: list[int] = []
    matmul, write = np.matmul, kernel.stage.write
    multiplied: list[tuple[int, int]] = []  # rows; bytes of the rows and twice their products

    def product(a: Array, b: Array) -> Array:
        out: Array = matmul(a, b)
        multiplied.append((len(a), a.nbytes + 2 * out.nbytes))
        return out

    def recorded(sums: Array, out: Array) -> None:
        written.append(len(sums))
        write(sums, out)

    monkeypatch.setattr(np, "matmul", product)
    monkeypatch.setattr(kernel.stage, "write", recorded)
    result = kernel(*arrays)
    _, rows, columns, channels = result.shape
    # bytes of a row of the result: its patches and twice their products, or its sums in float64
    row = multiplied[0][1] // written[0] if kind is Conv2D else 8 * columns * channels
    if kind is TransposeConv:
        height, width, depth = arrays[2].shape[1:]
        input_step = multiplied[0][0] // width  # rows of the input in a block
        # bytes of the products of one row of the input
        products = (multiplied[0][1] - width * input_step * depth * 4) // 2 // input_step
        assert input_step == min(height, max(1, limit // products))
        assert sum(count for count, _ in multiplied) == 2 * height * width
    step = min(rows, max(1, limit // row))
    whole, rest = divmod(rows, step)
    assert written == 2 * ([step] * whole + [rest] * (rest > 0))


def test_empty_batch() -> None:
    filter = normal(generator("empty"), 4, 3, 3, 2)
    x = np.zeros((0, 5, 5, 2), np.float32)
    check_fast(Conv2D(Value("", f32, (None, 5, 5, 2)), const(filter)), x, filter)


def test_transpose_conv_of_no_rows() -> None:
    shape, filter = np.array([1, 5, 9, 4], np.int32), normal(generator("empty"), 4, 3, 3, 2)
    x = np.zeros((1, 0, 4, 2), np.float32)
    op = TransposeConv(const(shape), const(filter), Value("", f32, x.shape), stride_h=2, stride_w=2)
    check_fast(op, shape, filter, x)


def test_dequantized_weights_are_computed_like_constants() -> None:
    """The filter and the bias are float16 constants that DEQUANTIZE converts."""
    rng = generator("dequantized weights")
    x, w, b = normal(rng, 1, 9, 9, 8), normal(rng, 16, 3, 3, 8), normal(rng, 16)
    stored = [const(array, np.float16) for array in (w, b)]
    plain = prepare(Conv2D(var(x), *(const(value.array(), np.float32) for value in stored)))
    converted = [Dequantize(value).output for value in stored]
    kernel = prepare(Conv2D(var(x), *converted))
    assert plain is not None
    assert kernel is not None
    arrays = [value.array().astype(np.float32) for value in stored]
    np.testing.assert_array_equal(kernel(x, *arrays), plain(x, *arrays))
    source = Value("s", DType.FLOAT16, (16, 3, 3, 8))
    assert prepare(Conv2D(var(x), Dequantize(source).output, converted[1])) is None


def test_large_dequantized_weights_are_not_kept() -> None:
    stored = const(np.ones((256, 3, 3, 512)), np.float16)
    op = Conv2D(var(np.ones((1, 3, 3, 512), np.float32)), Dequantize(stored).output)
    tracemalloc.start()
    try:
        kernel = prepare(op)
        held_bytes, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert kernel is not None
    assert held_bytes < convolution.KEPT_WEIGHT_BYTES


def test_left_to_the_plain_kernel() -> None:
    x, filter = Value("", f32, (1, 5, 5, 4)), normal(generator("none"), 4, 3, 3, 4)
    assert prepare(Conv2D(x, Value("", f32, (4, 3, 3, 4)))) is None, "a computed filter"
    assert prepare(Conv2D(x, const(filter), Value("", f32, (4,)))) is None, "a computed bias"
    assert prepare(Conv2D(x, const(filter[..., :2]))) is None, "groups"
    assert prepare(Conv2D(Value("", f32, None), const(filter))) is None, "unknown channels"
    assert prepare(Conv2D(x, const(filter * np.inf))) is None, "a filter that is not finite"
    assert prepare(Conv2D(x, const(filter[:0]))) is None, "no output channels"
    shape, results = const([1, 5, 5, 4], np.int32), [Value("", f32, (1, 5, 5, 4))]
    assert prepare(TransposeConv(shape, const(filter), x, results=results, stride_h=0)) is None, "no stride"
    nothing, results = Value("", f32, (1, 5, 5, 0)), [Value("", f32, (1, 5, 5, 4))]
    assert prepare(DepthwiseConv2D(nothing, const(filter[:1]), results=results)) is None, "no input channels"
    hybrid = quantized(i8, filter.shape, 0.1, 0, np.ones(filter.shape, np.int8))
    assert prepare(Conv2D(x, hybrid)) is None, "dynamic quantization"
    unscaled = Value("", i8, (1, 5, 5, 4))
    assert prepare(Conv2D(unscaled, hybrid)) is None, "no scale: the plain kernel reports it"
