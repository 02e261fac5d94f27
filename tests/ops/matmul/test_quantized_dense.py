# SPDX-License-Identifier: Apache-2.0
"""Quantized and hybrid matrix products against LiteRT's reference kernels, most of them bit for bit.

Hybrid: the data are floats, and the weights are integers.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import circlekit
from circlekit.errors import ModelError, UnsupportedError
from circlekit.ir.dtypes import DType, f32, i8, i16, i32, i64, u8
from circlekit.ir.enums import Activation, WeightsFormat
from circlekit.ir.value import Array, Quantization, Value
from circlekit.ops.constant_operands import packed
from circlekit.ops.matmul.dense import BatchMatMul, FullyConnected
from circlekit.ops.numerics.output_stage import Kernels, following
from circlekit.ops.quantized_values import dtype_limits
from tests.ops.litert import FLOAT_TOLERANCE, check, const, graph_of, kernel_results, run_litert, var
from tests.ops.quantized import draw, draw_scale, draw_zero, generator, per_tensor, quantized

ACTS = [Activation.NONE, Activation.RELU, Activation.RELU6, Activation.RELU_N1_TO_1]
INT4, INT2 = DType.INT4, DType.INT2
FORMS = [(i8, i8), (i8, INT4), (i8, INT2), (u8, u8), (i16, i8), (i16, INT4), (i16, INT2), (i16, i16)]


def weights(rng: np.random.Generator, dtype: DType, units: int, depth: int, count: int, zero: int) -> Value:
    """Return random weights [units, depth] with ``count`` scales (1 or ``units``) and one zero point."""
    low, high = dtype_limits(dtype)
    numbers = rng.integers(low, high + 1, (units, depth))
    data = packed(numbers, dtype) if dtype in (INT4, INT2) else numbers.astype(dtype.numpy)
    scale = np.exp(rng.uniform(-6, -3, count)).astype(np.float32)
    return Value("", dtype, (units, depth), data, Quantization(scale, np.full(count, zero), 0))


def bias_of(rng: np.random.Generator, data: Value, weights: Value, dtype: DType) -> Value:
    assert data.quantization is not None
    assert weights.quantization is not None
    assert weights.shape is not None
    scale = data.quantization.scale * weights.quantization.scale
    numbers = rng.integers(-(1 << 15), 1 << 15, weights.shape[0]).astype(dtype.numpy)
    return Value.constant("", numbers, Quantization(scale, np.zeros(scale.size, np.int64), 0))


def result_of(rng: np.random.Generator, data: Value, weights: Value, shape: tuple[int, ...]) -> Value:
    """Return a result of ``shape`` whose scale spreads typical sums over most of the range of its dtype."""
    assert data.quantization is not None
    assert weights.quantization is not None
    assert weights.shape is not None
    unit = float(data.quantization.scale[0]) * float(weights.quantization.scale.mean())
    spread = np.sqrt(float(weights.shape[1] or 1)) * 2.0 ** (weights.dtype.bits - 3)
    scale = unit * spread * draw_scale(rng, 1, 8)
    return quantized(data.dtype, shape, scale, draw_zero(rng, data.dtype))


def check_dense(data: DType, weight: DType, index: int, bias: DType | None, **attributes: Any) -> None:
    """Compare a layer of random shapes; ``index`` seeds them, and chooses scales and activation."""
    rng = generator("dense", data.short, weight.short, index, tuple(attributes))
    batch, units, depth = (int(n) for n in rng.integers((1, 1, 1), (7, 20, 90)))
    scale = draw_scale(rng, 1e-4, 1e-2) if data is i16 else draw_scale(rng)
    x = quantized(data, (batch, depth), scale, draw_zero(rng, data))
    # signed weights have zero points other than 0 only in old models, per tensor
    zero = draw_zero(rng, weight) if weight is u8 or (weight is i8 and data is i8 and index % 4 == 1) else 0
    w = weights(rng, weight, units, depth, units if index % 2 == 0 and weight is not u8 else 1, zero)
    b = None if bias is None else bias_of(rng, x, w, bias)
    result = result_of(rng, x, w, (batch, units))
    op = FullyConnected(x, w, b, results=[result], act=ACTS[index % 4], **attributes)
    check(op, draw(rng, data, (batch, depth)))


@pytest.mark.parametrize(("data", "weight"), FORMS)
@pytest.mark.parametrize("index", range(8))
def test_fully_connected(data: DType, weight: DType, index: int) -> None:
    if data is i16:
        wide = index % 3 > 0
        bias = None if index == 4 else (i64 if wide else i32)
        check_dense(data, weight, index, bias, quantized_bias_type=i64 if wide else i32)
    else:
        check_dense(data, weight, index, None if index == 4 else i32)


@pytest.mark.parametrize("index", range(4))
def test_int16_by_int8_without_a_type_of_bias(index: int) -> None:
    check_dense(i16, i8, index, i64)


@pytest.mark.parametrize("index", range(4))
def test_uint8_to_int16(index: int) -> None:
    rng = generator("u8 to i16", index)
    x = quantized(u8, (3, 40), draw_scale(rng), draw_zero(rng, u8))
    w = weights(rng, u8, 5, 40, 1, draw_zero(rng, u8))
    result = quantized(i16, (3, 5), 3 / 32768)
    op = FullyConnected(x, w, bias_of(rng, x, w, i32), results=[result], act=ACTS[index])
    check(op, draw(rng, u8, (3, 40)))


@pytest.mark.parametrize("keep", [False, True])
def test_fully_connected_shapes(keep: bool) -> None:
    rng = generator("shapes", keep)
    x = quantized(i8, (2, 3, 8), 0.5, 3)
    w = weights(rng, i8, 4, 8, 4, 0)
    result = result_of(rng, x, w, (2, 3, 4) if keep else (6, 4))
    check(FullyConnected(x, w, None, results=[result], keep_num_dims=keep), draw(rng, i8, (2, 3, 8)))


@pytest.mark.parametrize(("units", "depth"), [(6, 30), (6, 32), (6, 33), (3, 64), (4, 64)])
@pytest.mark.parametrize("asymmetric", [False, True])
@pytest.mark.parametrize("kernels", Kernels)
def test_floats_by_weights_of_4_bits(units: int, depth: int, asymmetric: bool, kernels: Kernels) -> None:
    """The weights are -7 to 7: LiteRT's optimized kernel gives products with -8 the wrong sign."""
    rng = generator("int4", units, depth, asymmetric)
    w = Value("", INT4, (units, depth), packed(rng.integers(-7, 8, (units, depth)), INT4), per_tensor(0.1))
    x = rng.uniform(-0.2, 1, (3, depth)).astype(np.float32)
    op = FullyConnected(var(x), w, None, asymmetric_quantize_inputs=asymmetric)
    with following(kernels):
        check(op, x, optimized=kernels is Kernels.OPTIMIZED)


@pytest.mark.parametrize("factor", [1e-12, 1e-3, 70, 1e4, 1e8])
@pytest.mark.parametrize(("data", "weight"), [(i8, i8), (u8, u8), (i16, i8)])
@pytest.mark.parametrize("index", [0, 1])
def test_extreme_scales(data: DType, weight: DType, factor: float, index: int) -> None:
    """With the smallest factor, all results are the zero point.

    With the largest factor, sums in units of the result exceed int32.
    """
    rng = generator("extreme", data.short, factor)
    x = quantized(data, (4, 30), 1.0, draw_zero(rng, data))
    zero = -3 if index and data is i8 else draw_zero(rng, data)
    w = weights(rng, weight, 6, 30, 1, draw_zero(rng, weight) if weight is u8 else 0)
    assert w.quantization is not None
    result = quantized(data, (4, 6), float(w.quantization.scale[0]) / factor, zero)
    b = bias_of(rng, x, w, i64 if data is i16 else i32)
    if factor > 1:  # LiteRT compares the scales of bias and sums in units of the result
        b.quantization = per_tensor(float(w.quantization.scale[0]))
    check(FullyConnected(x, w, b, results=[result]), draw(rng, data, (4, 30)))


def test_int32_sums_wrap_around() -> None:
    """The bias is at or near an end of int32, so adding the products exceeds int32."""
    rng = generator("wrap")
    x, w = quantized(i8, (4, 50), 1.0, -128), weights(rng, i8, 3, 50, 3, 0)
    b = bias_of(rng, x, w, i32)
    b.data = np.array([2**31 - 1, -(2**31), 2**31 - 300], np.int32)
    assert w.quantization is not None
    result = quantized(i8, (4, 3), float(w.quantization.scale[0]) * 2.0**24)
    check(FullyConnected(x, w, b, results=[result]), draw(rng, i8, (4, 50)))


def test_sums_that_float32_does_not_hold_are_exact() -> None:
    """Sums are about 3000 * 128 * 64 = 2.5e7, more than 2^24 = 1.7e7.

    In the first row, the bias takes them to -16...16, and a step of the result is 1: each error is visible.
    """
    rng = generator("large")
    x, w = quantized(i8, (5, 3000), 0.1, -128), weights(rng, i8, 33, 3000, 1, 0)
    w.data = np.abs(w.array().astype(int)).clip(0, 127).astype(np.int8)
    numbers = draw(rng, i8, (5, 3000))
    b, steps = bias_of(rng, x, w, i32), np.arange(-16, 17)
    b.data = (steps - w.data.astype(int) @ (numbers[0].astype(int) + 128)).astype(np.int32)
    assert w.quantization is not None
    result = quantized(i8, (5, 33), 0.1 * float(w.quantization.scale[0]))
    (got,) = check(FullyConnected(x, w, b, results=[result]), numbers)
    assert got[0].tolist() == steps.tolist()


@pytest.mark.parametrize("batch", [1, 4])
@pytest.mark.parametrize("index", range(4))
def test_shuffled_weights(batch: int, index: int) -> None:
    rng = generator("shuffled", batch, index)
    x = quantized(u8, (batch, 32), draw_scale(rng), 128)
    w = weights(rng, u8, 8, 32, 1, 128)
    result = quantized(i16, (batch, 8), 4 / 32768)
    workspace = Value("", u8, (batch, 32))
    op = FullyConnected(
        x, w, bias_of(rng, x, w, i32), results=[result, workspace],
        act=ACTS[index], weights_format=WeightsFormat.SHUFFLED4x16INT8,
    )  # fmt: skip
    assert op.required_version() == 2
    array = draw(rng, u8, (batch, 32))
    check(op, array)


# -- hybrid ------------------------------------------------------------------------------------


def without_minus_128(value: Value) -> Value:
    """Replace int8 weights of -128 by -127: LiteRT's x86 kernels fail for -128, which no converter makes."""
    if value.data is not None and value.data.dtype == np.int8:
        value.data = np.maximum(value.data, -127)
    return value


@pytest.mark.parametrize("dtype", [i8, INT4, INT2])
@pytest.mark.parametrize("asymmetric", [False, True])
@pytest.mark.parametrize("index", range(4))
def test_hybrid(dtype: DType, asymmetric: bool, index: int) -> None:
    rng = generator("hybrid", dtype.short, asymmetric, index)
    batch, units, depth = (int(n) for n in rng.integers((1, 1, 1), (7, 20, 60)))
    x = (rng.normal(size=(batch, depth)) * 3 + index).astype(np.float32)
    x[0] *= index % 3  # 0 for the indices 0 and 3: a row of zeros
    w = without_minus_128(weights(rng, dtype, units, depth, units if index % 2 else 1, 0))
    b = const(rng.normal(size=units), np.float32) if index else None
    act = [Activation.NONE, Activation.RELU, Activation.TANH, Activation.RELU6][index]
    op = FullyConnected(var(x), w, b, act=act, asymmetric_quantize_inputs=asymmetric)
    tolerance = FLOAT_TOLERANCE if act is Activation.TANH else 0
    check(op, x, tolerance=tolerance)
    check(op, np.zeros_like(x), tolerance=tolerance)


TOLERANCE_OF_ONE = 0.1


def test_uint4_weights_are_those_of_one() -> None:
    """The values that ONE recorded for CircleFullyConnected_U4_002, by a kernel that quantizes the data.

    ONE's luci-ref-value-py-test allows TOLERANCE_OF_ONE, because its interpreter does not quantize the data.
    """
    model = circlekit.parse("""
        graph main(%x: f32[2,4]) -> %y {
          %w = const u4[4,4] quant(scale: 1.0, zero_point: 8) raw("EDJUdpi63P4=")
          %y = FullyConnected(%x, %w, [1.0, 1.0, 1.0, 1.0]) : f32[2,4]
        }""")
    rows = [
        [0.45845914, 0.59502566, 0.012643684, 0.9902574],
        [0.083512, 0.06890562, 0.49019852, 0.56146705],
    ]
    expected = [[-11.873346, -3.6393948, 4.5945563, 12.828507], [-5.9188657, -1.0911331, 3.7365992, 8.564331]]
    (result,) = circlekit.run(model, [np.asarray(rows, np.float32)])
    np.testing.assert_allclose(result, expected, TOLERANCE_OF_ONE, TOLERANCE_OF_ONE)


def test_uint4_weights_with_scales_and_zero_points_by_unit() -> None:
    """LiteRT, which has no uint4 weights, gives the same for the real weights as floats."""
    rng = generator("uint4")
    x, numbers = rng.normal(size=(3, 6)).astype(np.float32), rng.integers(0, 16, (2, 6), np.uint8)
    scale, zero = np.asarray([0.5, 0.25], np.float32), np.asarray([3, 15])
    w = Value("w", DType.UINT4, (2, 6), data=packed(numbers, DType.UINT4))
    w.quantization = Quantization(scale, zero, 0)
    real = const((numbers - zero[:, None]) * scale[:, None], np.float32)
    bias = const([1.0, -2.0], np.float32)
    op = FullyConnected(var(x), w, bias, act=Activation.RELU)
    plain = FullyConnected(var(x), real, bias, act=Activation.RELU)
    (expected,) = run_litert(graph_of(plain), [x])
    (result,) = kernel_results(op, [x])
    np.testing.assert_allclose(result, expected, FLOAT_TOLERANCE, FLOAT_TOLERANCE)


@pytest.mark.parametrize("act", [*ACTS, Activation.TANH])
def test_hybrid_with_nan_and_a_huge_number_in_the_bias(act: Activation) -> None:
    rng = generator("hybrid nan")
    w = without_minus_128(weights(rng, i8, 4, 6, 1, 0))
    bias = const([1, np.nan, 3e38, -0.5], np.float32)
    x = rng.normal(size=(2, 6)).astype(np.float32)
    check(FullyConnected(var(x), w, bias, act=act), x)


@pytest.mark.parametrize("asymmetric", [False, True])
@pytest.mark.parametrize("numbers", [[np.inf], [-np.inf], [np.inf, -np.inf, 3e38]])
def test_hybrid_with_infinite_data(asymmetric: bool, numbers: list[float]) -> None:
    rng = generator("hybrid inf")
    w = without_minus_128(weights(rng, i8, 4, 6, 1, 0))
    x = rng.normal(size=(3, 6)).astype(np.float32)
    x[1, 2 : 2 + len(numbers)] = numbers
    check(FullyConnected(var(x), w, None, asymmetric_quantize_inputs=asymmetric), x)


# -- batch matmul ------------------------------------------------------------------------------

SHAPES = [
    ((3, 8), (8, 5)),
    ((4, 3, 8), (4, 8, 5)),
    ((4, 3, 8), (8, 5)),
    ((2, 1, 3, 8), (1, 3, 8, 5)),
    ((2, 3, 1, 3, 8), (2, 1, 2, 8, 2)),
]


def transposed(shape: tuple[int, ...], flag: bool) -> tuple[int, ...]:
    return (*shape[:-2], shape[-1], shape[-2]) if flag else shape


@pytest.mark.parametrize(("x_type", "y_type"), [(i8, i8), (i16, i16), (i16, i8)])
@pytest.mark.parametrize("shapes", SHAPES)
@pytest.mark.parametrize("adj", [(False, False), (True, False), (False, True)])
def test_batch_matmul(
    x_type: DType, y_type: DType, shapes: tuple[tuple[int, ...], ...], adj: tuple[bool, bool]
) -> None:
    rng = generator("matmul", x_type.short, y_type.short, shapes, adj)
    left, right = transposed(shapes[0], adj[0]), transposed(shapes[1], adj[1])
    batch = np.broadcast_shapes(shapes[0][:-2], shapes[1][:-2])
    x = quantized(x_type, left, draw_scale(rng), draw_zero(rng, x_type))
    y = quantized(y_type, right, draw_scale(rng), draw_zero(rng, y_type) if x_type is i8 else 0)
    assert x.quantization is not None
    assert y.quantization is not None
    unit = float(x.quantization.scale[0] * y.quantization.scale[0])
    scale = unit * 2.0 ** (y_type.bits - 1) * draw_scale(rng, 0.5, 5)
    result = quantized(x_type, (*batch, shapes[0][-2], shapes[1][-1]), scale, draw_zero(rng, x_type))
    arrays = draw(rng, x_type, left), draw(rng, y_type, right)
    check(BatchMatMul(x, y, adj_x=adj[0], adj_y=adj[1], results=[result]), *arrays)


@pytest.mark.parametrize("data", [i8, i16])
@pytest.mark.parametrize("adjoint", [False, True])
def test_batch_matmul_with_a_scale_per_column(data: DType, adjoint: bool) -> None:
    """LiteRT's BATCH_MATMUL gives zeros, so its FULLY_CONNECTED gives the expected product."""
    rng = generator("columns", data.short, adjoint)
    w = weights(rng, i8, 5, 16, 5, 0)
    assert w.quantization is not None
    assert isinstance(w.data, np.ndarray)
    x = quantized(data, (3, 16), 0.05, 7 if data is i8 else 0)
    result = quantized(data, (3, 5), 0.3 if data is i8 else 20.0, -3 if data is i8 else 0)
    numbers = draw(rng, data, (3, 16))
    wanted = run_litert(graph_of(FullyConnected(x, w, results=[result])), [numbers])[0]
    stored = w.data if adjoint else np.ascontiguousarray(w.data.T)
    scales = replace(w.quantization, quantized_dimension=0 if adjoint else 1)
    y = Value("", i8, stored.shape, stored, scales)
    op = BatchMatMul(x, y, adj_y=adjoint, results=[result])
    assert np.array_equal(kernel_results(op, [numbers])[0], wanted)
    assert np.unique(wanted).size > 5


def test_batch_matmul_with_a_scale_per_row_has_no_kernel() -> None:
    y = Value("", i8, (2, 2), np.ones((2, 2), np.int8), Quantization(np.ones(2), np.zeros(2), 0))
    op = BatchMatMul(quantized(i8, (2, 2), 1.0), y, results=[quantized(i8, (2, 2), 1.0)])
    with pytest.raises(ModelError, match="expected scales along axis 1, the columns, got axis 0"):
        kernel_results(op, [np.ones((2, 2), np.int8)])


def test_batch_matmul_with_an_int32_result() -> None:
    rng = generator("sums")
    x, y = quantized(i8, (2, 3, 8), 0.1, 5), quantized(i8, (2, 8, 4), 0.2, -7)
    op = BatchMatMul(x, y, results=[Value("", i32, (2, 3, 4))])
    check(op, draw(rng, i8, (2, 3, 8)), draw(rng, i8, (2, 8, 4)))


@pytest.mark.parametrize("asymmetric", [False, True])
@pytest.mark.parametrize("adj", [(False, False), (True, False), (False, True)])
@pytest.mark.parametrize(
    "shapes",
    [
        *SHAPES[:4],
        ((3, 8), (1, 8, 5)),
        ((2, 3, 3, 8), (2, 3, 8, 5)),
        ((2, 3, 4, 3, 8), (8, 5)),
        ((3, 2, 6, 8), (3, 1, 8, 3)),
    ],
)
def test_batch_matmul_hybrid(
    asymmetric: bool, adj: tuple[bool, bool], shapes: tuple[tuple[int, ...], ...]
) -> None:
    rng = generator("hybrid matmul", asymmetric, shapes, adj)
    x = rng.normal(size=transposed(shapes[0], adj[0])).astype(np.float32)
    numbers = rng.integers(-127, 128, transposed(shapes[1], adj[1])).astype(np.int8)
    y = Value.constant("", numbers, per_tensor(0.03))
    op = BatchMatMul(var(x), y, adj_x=adj[0], adj_y=adj[1], asymmetric_quantize_inputs=asymmetric)
    check(op, x, tolerance=0)


@pytest.mark.parametrize("asymmetric", [False, True])
@pytest.mark.parametrize("shape", [(0, 8), (0, 3, 8), (2, 0, 8)])
def test_batch_matmul_hybrid_without_rows(asymmetric: bool, shape: tuple[int, ...]) -> None:
    y = Value.constant("", np.ones((8, 5), np.int8), per_tensor(0.03))
    x = np.zeros(shape, np.float32)
    check(BatchMatMul(var(x), y, asymmetric_quantize_inputs=asymmetric), x)


@pytest.mark.parametrize("asymmetric", [False, True])
def test_batch_matmul_hybrid_without_columns(asymmetric: bool) -> None:
    y = Value.constant("", np.ones((8, 0), np.int8), per_tensor(0.03))
    x = np.ones((2, 8), np.float32)
    check(BatchMatMul(var(x), y, asymmetric_quantize_inputs=asymmetric), x)


# -- what has no kernel ------------------------------------------------------------------------


def refused(op: FullyConnected | BatchMatMul, sentence: str, *arrays: Array) -> None:
    with pytest.raises(UnsupportedError, match=sentence):
        kernel_results(op, arrays)


def test_forms_without_kernel() -> None:
    rng = generator("refused")
    x, w = quantized(i8, (2, 16), 1.0), weights(rng, u8, 4, 16, 1, 3)
    result = quantized(i8, (2, 4), 1.0)
    numbers = np.zeros((2, 16), np.int8)
    refused(FullyConnected(x, w, results=[result]), "FULLY_CONNECTED on i8 by u8 weights", numbers)
    y = quantized(i16, (16, 4), 1.0)
    sentence = "BATCH_MATMUL on i8 by i16 to i8 has no kernel"
    refused(BatchMatMul(x, y, results=[result]), sentence, numbers, np.zeros((16, 4), np.int16))
    signed = weights(rng, i8, 4, 16, 1, 0)
    shuffled = WeightsFormat.SHUFFLED4x16INT8
    op = FullyConnected(x, signed, results=[result], weights_format=shuffled)
    refused(op, "with shuffled weights has no kernel for", numbers)
    for dtype in ("float32", "int8"):  # kernels hold int4 as int8
        op = FullyConnected(x, signed, const(np.zeros(4), dtype), results=[result])
        refused(op, f"on i8 with a bias of {dtype} has no kernel", numbers)
    assert FullyConnected(Value("", f32, (2, 16)), signed).inferred()[0].dtype is f32


def test_batch_matmul_needs_scales() -> None:
    x, y, numbers = quantized(i8, (2, 2), 1.0), Value("", i8, (2, 2)), np.ones((2, 2), np.int8)
    with pytest.raises(ModelError, match="expected a scale, got i8 without scales"):
        kernel_results(BatchMatMul(x, y), [numbers, numbers])
