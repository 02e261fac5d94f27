# SPDX-License-Identifier: Apache-2.0
"""Convolutions against LiteRT's reference kernels."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from circlekit.errors import ShapeError
from circlekit.interp import Interpreter
from circlekit.ir.dtypes import f32, i8, i16, i32
from circlekit.ir.enums import Activation, Padding
from circlekit.ir.graph import Model
from circlekit.ir.value import Array, Quantization, Value
from circlekit.ops.convolution.conv import Conv2D, DepthwiseConv2D, TransposeConv
from tests.ops.litert import assert_close, check, const, graph_of, kernel_results, var

SAME, VALID = Padding.SAME, Padding.VALID
ACTS = [Activation.NONE, Activation.RELU, Activation.RELU6, Activation.RELU_N1_TO_1]


def normal(seed: int, *shape: int, scale: float = 1.0) -> Array:
    return (np.random.default_rng(seed).normal(size=shape) * scale).astype(np.float32)


def drawn(seed: int, low: int, high: int) -> tuple[int, int]:
    """Return two random numbers from ``low`` to ``high``."""
    pair = np.random.default_rng(seed).integers(low, high + 1, 2)
    return int(pair[0]), int(pair[1])


def window_attributes(seed: int) -> dict[str, Any]:
    """Return random strides and dilations, from 1 to 3; padding and activation change from seed to seed."""
    stride, dilation = drawn(seed, 1, 3), drawn(seed + 1000, 1, 3)
    return {
        "padding": (SAME, VALID)[seed % 2],
        "stride_h": stride[0], "stride_w": stride[1],
        "dilation_h": dilation[0], "dilation_w": dilation[1],
        "act": ACTS[seed % len(ACTS)],
    }  # fmt: skip


def check_conv(
    kind: type[Conv2D | DepthwiseConv2D], x: Array, filter: Value, bias: Value | None, **attributes: Any
) -> None:
    """Compare a convolution with LiteRT.  LiteRT rejects an absent bias: zeros take the place of None."""
    assert filter.shape is not None
    channels = filter.shape[3 if kind is DepthwiseConv2D else 0]
    reference = kind(var(x), filter, bias or const(np.zeros(channels or 0), np.float32), **attributes)
    check(kind(var(x), filter, bias, **attributes), x, reference=reference)


@pytest.mark.parametrize("seed", range(24))
def test_conv_2d(seed: int) -> None:
    taps, (depth, out_depth) = drawn(seed, 1, 4), drawn(seed + 7, 1, 9)
    x = normal(seed, 1 + seed % 3, *drawn(seed + 5, 10, 15), depth)
    bias = const(normal(seed + 2, out_depth)) if seed % 3 else None
    filter = const(normal(seed + 1, out_depth, *taps, depth))
    check_conv(Conv2D, x, filter, bias, **window_attributes(seed))


@pytest.mark.parametrize(("stride", "padding"), list(itertools.product((1, 2), (SAME, VALID))))
def test_conv_2d_pointwise(stride: int, padding: Padding) -> None:
    x = normal(0, 2, 5, 6, 8)
    op = Conv2D(var(x), const(normal(1, 4, 1, 1, 8)), const(normal(2, 4)), padding=padding, stride_h=stride)
    check(op, x)


@pytest.mark.parametrize("kind", [Conv2D, DepthwiseConv2D])
def test_a_filter_higher_than_the_image_has_no_windows(kind: type[Conv2D | DepthwiseConv2D]) -> None:
    x = normal(0, 2, 3, 5, 4)
    bias = const(normal(2, 4 if kind is DepthwiseConv2D else 1))
    op = kind(var(x), const(normal(1, 1, 2, 2, 4)), bias, padding=VALID, dilation_h=3)
    graph = graph_of(op)
    (empty,) = check(op, x)
    assert empty.shape[:3] == (2, 0, 4)
    assert Interpreter(Model([graph])).run([x])[0].shape == empty.shape, "also with the fast kernel"


@pytest.mark.parametrize(("groups", "seed"), [(2, 0), (3, 1), (4, 2), (12, 3)])
def test_conv_2d_grouped(groups: int, seed: int) -> None:
    x = normal(seed, 2, 9, 8, 12)
    filter = const(normal(seed + 1, 24, 3, 2, 12 // groups))
    op = Conv2D(var(x), filter, const(normal(seed + 2, 24)), **window_attributes(seed))
    assert op.required_version() == 6
    check(op, x)


def test_conv_2d_filter_may_be_computed() -> None:
    x, w = normal(0, 1, 5, 5, 3), normal(1, 4, 3, 3, 3)
    check(Conv2D(var(x), var(w), const(normal(2, 4))), x, w)


@pytest.mark.parametrize("seed", range(24))
def test_depthwise_conv_2d(seed: int) -> None:
    taps, (depth, multiplier) = drawn(seed, 1, 4), drawn(seed + 7, 1, 4)
    x = normal(seed, 1 + seed % 3, *drawn(seed + 5, 10, 15), depth)
    bias = const(normal(seed + 2, depth * multiplier)) if seed % 3 else None
    attributes = {**window_attributes(seed), "depth_multiplier": multiplier}
    check_conv(DepthwiseConv2D, x, const(normal(seed + 1, 1, *taps, depth * multiplier)), bias, **attributes)


@pytest.mark.parametrize("width", [1, 2, 5])
@pytest.mark.parametrize("stride", [2, 3, 7])
@pytest.mark.parametrize("dilation", [1, 2, 4])
def test_depthwise_strides_beyond_the_data(width: int, stride: int, dilation: int) -> None:
    x, filter = normal(0, 1, 3, width, 4), const(normal(1, 1, 3, 3, 4))
    bias = const(normal(2, 4))
    check(DepthwiseConv2D(var(x), filter, bias, stride_w=stride, stride_h=2, dilation_w=dilation), x)


def test_depthwise_multiplier_is_the_quotient_of_the_channels() -> None:
    x = normal(0, 1, 4, 4, 3)
    check_conv(DepthwiseConv2D, x, const(normal(1, 1, 2, 2, 6)), const(normal(2, 6)), depth_multiplier=0)


TRANSPOSED = [
    (padding, stride, taps, size)
    for padding in (SAME, VALID)
    for stride in ((1, 1), (2, 2), (3, 2), (1, 3))
    for taps in ((1, 1), (2, 3), (4, 4), (5, 2))
    for size in ((3, 4), (1, 1))
]


def fitting_size(size: int, stride: int, taps: int, padding: Padding) -> int:
    return size * stride if padding is SAME else (size - 1) * stride + taps


def spread(x: Array, filter: Array, size: tuple[int, int], strides: tuple[int, int], same: bool) -> Array:
    """Return the transposed convolution by its definition, element by element.

    ``x``: [N,H,W,I].  ``filter``: [O,KH,KW,I].  The result has the shape [N,*size,O].
    ``same``: whether the padding is SAME.
    """
    taps = filter.shape[1:3]
    out = np.zeros((x.shape[0], *size, filter.shape[0]))
    before = [
        max((-(-size[a] // strides[a]) - 1) * strides[a] + taps[a] - size[a], 0) // 2 if same else 0
        for a in (0, 1)
    ]
    for y, x_, i, j in np.ndindex(x.shape[1], x.shape[2], *taps):
        to_y, to_x = y * strides[0] - before[0] + i, x_ * strides[1] - before[1] + j
        if 0 <= to_y < size[0] and 0 <= to_x < size[1]:
            out[:, to_y, to_x] += x[:, y, x_].astype(np.float64) @ filter[:, i, j].astype(np.float64).T
    return out


@pytest.mark.parametrize(("padding", "stride", "taps", "size"), TRANSPOSED)
def test_transpose_conv(
    padding: Padding, stride: tuple[int, int], taps: tuple[int, int], size: tuple[int, int]
) -> None:
    seed = TRANSPOSED.index((padding, stride, taps, size))
    depth, out_depth = drawn(seed, 1, 6)
    x = normal(seed, 2, *size, depth)
    filter = const(normal(seed + 1, out_depth, *taps, depth))
    bias = const(normal(seed + 2, out_depth)) if seed % 3 else None
    fit = [fitting_size(size[a], stride[a], taps[a], padding) for a in (0, 1)]
    # with stride s, s result sizes are valid: fit - s + 1 to fit for SAME, fit to fit + s - 1 for VALID
    sign = -1 if padding is SAME else 1
    for wanted in (fit, [fit[a] + sign * (stride[a] - 1) for a in (0, 1)]):
        op = TransposeConv(
            const([2, *wanted, out_depth], np.int32), filter, var(x), bias,
            padding=padding, stride_h=stride[0], stride_w=stride[1], act=ACTS[seed % 4],
        )  # fmt: skip
        check(op, x)


@pytest.mark.parametrize("seed", range(24))
def test_transpose_conv_to_any_size(seed: int) -> None:
    """LiteRT refuses a size that does not fit; the definition takes any."""
    stride, taps, size = drawn(seed, 1, 3), drawn(seed + 1, 1, 5), drawn(seed + 2, 1, 12)
    x, filter = normal(seed, 2, *drawn(seed + 3, 1, 4), 3), normal(seed + 1, 4, *taps, 3)
    op = TransposeConv(
        const([2, *size, 4], np.int32), const(filter), var(x),
        padding=(SAME, VALID)[seed % 2], stride_h=stride[0], stride_w=stride[1],
    )  # fmt: skip
    (got,) = kernel_results(op, [x])
    assert op.infer().shape == got.shape
    assert_close(got, spread(x, filter, size, stride, same=seed % 2 == 0).astype(np.float32))


def test_transpose_conv_wide_result() -> None:
    x = normal(0, 2, 5, 4, 24)
    op = TransposeConv(
        const([2, 10, 8, 40], np.int32), const(normal(1, 40, 4, 4, 24)), var(x), stride_h=2, stride_w=2
    )
    check(op, x)


def test_transpose_conv_computed_shape() -> None:
    x, shape = normal(0, 1, 3, 3, 2), np.array([1, 6, 6, 4], np.int32)
    op = TransposeConv(var(shape), const(normal(1, 4, 3, 3, 2)), var(x), stride_h=2, stride_w=2)
    assert op.infer().shape == (1, None, None, 4)
    check(op, shape, x)


def test_versions() -> None:
    x, shape = var(normal(0, 1, 3, 3, 2)), const([1, 3, 3, 4], np.int32)
    filter, bias = const(normal(1, 4, 3, 3, 2)), const(normal(2, 4))
    assert TransposeConv(shape, filter, x).required_version() == 1
    assert TransposeConv(shape, filter, x, bias).required_version() == 3
    assert TransposeConv(shape, filter, x, act=Activation.RELU).required_version() == 4
    assert Conv2D(x, filter).required_version() == 1
    assert DepthwiseConv2D(x, const(normal(1, 1, 3, 3, 2)), dilation_h=2).required_version() == 2
    quantized = Value("", i8, (1, 3, 3, 2))
    weights = Value.constant("", np.zeros((4, 3, 3, 2), np.int8))
    assert Conv2D(quantized, weights).required_version() == 3
    assert Conv2D(x, weights).required_version() == 2
    weights.quantization = Quantization(np.ones(4, np.float32), np.zeros(4, np.int64))
    assert Conv2D(x, weights).required_version() == 5
    weights.quantization = None
    assert TransposeConv(shape, weights, quantized).required_version() == 2
    wide = Value("", i16, (1, 3, 3, 2))
    assert TransposeConv(shape, weights, wide).required_version() == 2
    assert TransposeConv(shape, weights, wide, quantized_bias_type=i32).required_version() == 5
    assert TransposeConv(shape, weights, quantized, quantized_bias_type=i32).required_version() == 2


def test_macs() -> None:
    x = var(normal(0, 1, 4, 4, 3))
    assert Conv2D(x, const(normal(1, 8, 3, 3, 3))).macs() == 4 * 4 * 8 * 27
    assert DepthwiseConv2D(x, const(normal(1, 1, 3, 3, 3))).macs() == 4 * 4 * 3 * 9
    shape = const([1, 8, 8, 5], np.int32)
    assert TransposeConv(shape, const(normal(1, 5, 2, 2, 3)), x, stride_h=2, stride_w=2).macs() == 48 * 5 * 4
    batch = Value("", f32, (None, 4, 4, 3))
    assert Conv2D(batch, const(normal(1, 8, 3, 3, 3))).macs() == 4 * 4 * 8 * 27, "of one image"


X = (1, 5, 5, 4)


@pytest.mark.parametrize(
    ("filter", "bias", "attributes", "sentence"),
    [
        ((8, 3, 3, 3), None, {}, "input has 4 channels, expected a multiple of the filter's 3"),
        (
            (3, 3, 3, 2),
            None,
            {},
            "filter has 3 output channels, expected a multiple of 2, the number of groups",
        ),
        ((8, 3, 3, 4), (4,), {}, "expected bias of 8 elements, one per channel of the result, got 4"),
        ((8, 3, 4), None, {}, r"expected filter of rank 4, got shape \[8,3,4\]"),
        ((8, 7, 5, 4), None, {"padding": VALID}, "a window of at most 6 over 5 elements with VALID .* got 7"),
        ((8, 3, 3, 4), None, {"stride_h": 0}, "expected a stride from 1 to 1048576, got 0"),
    ],
)
def test_conv_2d_refuses(
    filter: tuple[int, ...], bias: tuple[int, ...] | None, attributes: dict[str, Any], sentence: str
) -> None:
    b = None if bias is None else Value("", f32, bias)
    with pytest.raises(ShapeError, match=sentence):
        Conv2D(Value("", f32, X), Value("", f32, filter), b, **attributes)


@pytest.mark.parametrize(
    ("shape", "filter", "sentence"),
    [
        ([1, 5, 5], (3, 3, 3, 4), r"output_shape is \[1, 5, 5\], expected 4 dimensions"),
        (
            [2, 5, 5, 3],
            (3, 3, 3, 4),
            r"output_shape is \[2,5,5,3\], expected \[1,\?,\?,3\] from input and filter",
        ),
        ([1, 5, 5, 3], (3, 3, 3, 5), "input has 4 channels, expected 5, as the filter has"),
        ([1, 5, 5, -1], (3, 3, 3, 4), "expected 4 dimensions"),
    ],
)
def test_transpose_conv_refuses(shape: list[int], filter: tuple[int, ...], sentence: str) -> None:
    with pytest.raises(ShapeError, match=sentence):
        TransposeConv(const(shape, np.int32), Value("", f32, filter), Value("", f32, X))


def test_transpose_conv_refuses_a_short_computed_shape() -> None:
    with pytest.raises(ShapeError, match="output_shape has 3 elements, expected 4"):
        TransposeConv(Value("", i32, (3,)), Value("", f32, (3, 3, 3, 4)), Value("", f32, X))


@pytest.mark.parametrize(
    ("shape", "found"),
    [(np.int32(4), "1 element"), (np.array([1, 8, 8], np.int32), "3 elements")],
    ids=["scalar", "three"],
)
def test_transpose_conv_refuses_a_wrong_shape_in_the_run(shape: Array, found: str) -> None:
    """The rank of ``output_shape`` may be unknown until the run; then it must have 4 elements."""
    op = TransposeConv(Value("", i32, None), Value("", f32, (4, 3, 3, 4)), Value("", f32, X))
    filter, x = np.ones((4, 3, 3, 4), np.float32), np.ones(X, np.float32)
    with pytest.raises(ShapeError, match=f"output_shape has {found}, expected 4"):
        op.kernel(np.asarray(shape), filter, x)


def test_depthwise_refuses() -> None:
    with pytest.raises(ShapeError, match="filter has 6 channels, expected a multiple of the input's 4"):
        DepthwiseConv2D(Value("", f32, X), Value("", f32, (1, 3, 3, 6)))
    with pytest.raises(ShapeError, match=r"expected \[1,KH,KW,C\]"):
        DepthwiseConv2D(Value("", f32, X), Value("", f32, (4, 3, 3, 8)))


def test_double_precision() -> None:
    x, w = normal(0, 1, 6, 6, 3), normal(1, 4, 3, 3, 3)
    (single,) = kernel_results(Conv2D(var(x), var(w)), [x, w])
    wide = [x.astype(np.float64), w.astype(np.float64)]
    (double,) = kernel_results(Conv2D(var(wide[0]), var(wide[1])), wide)
    assert double.dtype == np.float64
    assert_close(single, double.astype(np.float32))


def test_infinite_results_become_finite() -> None:
    """LiteRT clamps results to the finite numbers, even without a fused activation; NaN stays."""
    x = np.full((1, 2, 2, 2), 3e38, np.float32)
    x[0, 0, 0, 0], x[0, 1, 1], x[0, 0, 1, 0] = np.inf, -np.inf, np.nan
    ones = const(np.ones((1, 1, 1, 2)), np.float32)
    shape = const([1, 2, 2, 1], np.int32)
    for act in (Activation.NONE, Activation.RELU):
        check(Conv2D(var(x), ones, const([0], np.float32), act=act), x)
        check(DepthwiseConv2D(var(x), ones, const([0, 0], np.float32), act=act), x)
        check(TransposeConv(shape, ones, var(x), act=act), x)
