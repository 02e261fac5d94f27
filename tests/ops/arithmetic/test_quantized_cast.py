# SPDX-License-Identifier: Apache-2.0
"""Requantization, packed integers and bfloat16 against LiteRT."""

from __future__ import annotations

import numpy as np
import pytest

from circlekit.errors import ModelError, UnsupportedError
from circlekit.interp import run
from circlekit.ir.dtypes import DType, bf16, f16, f32, i8, i16, i32, u8
from circlekit.ir.graph import Graph, Model
from circlekit.ir.value import Array, Quantization, Value
from circlekit.ops.arithmetic.cast import REQUANTIZED, Cast, Dequantize, Quantize
from circlekit.ops.constant_operands import packed
from tests.ops.litert import assert_close, graph_of, kernel_results, run_litert, var
from tests.ops.quantized import draw, draw_scale, draw_zero, generator, quantized

PAIRS = [(source, target) for source, targets in REQUANTIZED.items() for target in targets]
PACKED = [DType.INT4, DType.UINT4, DType.INT2]
EXTREMES = np.array(
    [np.nan, np.inf, -np.inf, 1e20, -1e20, 3e9, -3e9, 1e6, -1e6, 0.5, -0.5, 2.5, 0.49999997, -7.9, 15.2],
    np.float32,
)


def same(op: Quantize | Dequantize | Cast, x: Array) -> None:
    """Assert that the kernel and LiteRT give equal results for ``x``; packed results have equal bytes."""
    (got,), (wanted,) = kernel_results(op, [x]), run_litert(graph_of(op), [x])
    assert_close(got, wanted, 0)


@pytest.mark.parametrize(("source", "target"), PAIRS)
@pytest.mark.parametrize("index", range(6))
def test_requantize(source: DType, target: DType, index: int) -> None:
    rng = generator(source.short, target.short, index)
    x = draw(rng, source, (7, 50))
    if source is i32:
        x = x // 4096  # smaller accumulators, so that not every result is clipped
    zeros = [draw_zero(rng, t) for t in (source, target)]
    first = draw_scale(rng)
    second = first if index == 0 else draw_scale(rng)
    op = Quantize(
        quantized(source, x.shape, first, zeros[0]), results=[quantized(target, x.shape, second, zeros[1])]
    )
    same(op, x)


@pytest.mark.parametrize("scales", [([0.5, 0.25, 1.0], [0.25]), ([0.5], [0.25, 0.5, 1.0])])
def test_several_scales_are_not_requantized(scales: tuple[list[float], list[float]]) -> None:
    """LiteRT takes 0 for the scale of such a tensor, so its result means nothing."""
    values = [
        Value("x", i8, (2, 3), None, Quantization(np.array(s, np.float32), np.zeros(len(s), np.int64), 1))
        for s in scales
    ]
    op = Quantize(values[0], results=[values[1]])
    with pytest.raises(ModelError, match="expected one scale for the whole tensor, got 3"):
        kernel_results(op, [np.zeros((2, 3), np.int8)])


@pytest.mark.parametrize(("source", "target", "zeros"), [(i8, u8, (-3, 125)), (u8, i8, (130, 2))])
def test_requantize_between_zero_points_that_differ_by_128(
    source: DType, target: DType, zeros: tuple[int, int]
) -> None:
    x = draw(generator("shift"), source, (300,))
    op = Quantize(
        quantized(source, x.shape, 0.1, zeros[0]), results=[quantized(target, x.shape, 0.1, zeros[1])]
    )
    same(op, x)


@pytest.mark.parametrize("dtype", [i8, u8, i16, DType.INT4, DType.UINT4])
@pytest.mark.parametrize("sign", [1, -1])
def test_quantize_nan_and_numbers_beyond_int32(dtype: DType, sign: int) -> None:
    """NaN and numbers beyond int32 become -2^31, as on x86; then the zero point is added modulo 2^32.

    So a negative zero point gives the upper limit of the dtype; 0 or more gives the lower limit.
    """
    zero = {i16: 0, u8: 7, DType.UINT4: 7}.get(dtype, 3 * sign)
    same(Quantize(var(EXTREMES), results=[quantized(dtype, EXTREMES.shape, 1.0, zero)]), EXTREMES)


@pytest.mark.parametrize("dtype", [u8, i16])
def test_quantize_per_channel(dtype: DType) -> None:
    x = np.random.default_rng(5).normal(0, 2, (2, 3, 5)).astype(np.float32)
    zeros = [3, 5, 9] if dtype is u8 else [0, 0, 0]
    quantization = Quantization(np.array([0.5, 0.01, 0.1], np.float32), np.array(zeros), 1)
    same(Quantize(var(x), results=[Value("q", dtype, x.shape, None, quantization)]), x)


@pytest.mark.parametrize("dtype", [i8, i16])
def test_quantize_halves_and_their_neighbors(dtype: DType) -> None:
    halves = np.arange(-20000, 20000).astype(np.float32) / 2
    x = np.concatenate(
        [halves, np.nextafter(halves, np.float32(0)), np.nextafter(halves, np.float32(np.inf))]
    )
    same(Quantize(var(x), results=[quantized(dtype, x.shape, 1.0)]), x)


# -- packed --------------------------------------------------------------------------------------


def packed_constant(dtype: DType, numbers: Array, quantization: Quantization | None = None) -> Value:
    return Value("c", dtype, numbers.shape, packed(numbers, dtype), quantization)


def same_graph(op: Dequantize | Cast) -> None:
    """Assert that our interpreter and LiteRT give equal results for a graph of ``op`` and its constants."""
    graph = graph_of(op)
    (got,), (wanted,) = run(Model([graph]), []), run_litert(graph, [])
    assert_close(got, wanted, 0)


@pytest.mark.parametrize("dtype", PACKED)
@pytest.mark.parametrize("channels", [1, 3])
def test_dequantize_packed_constants(dtype: DType, channels: int) -> None:
    low, high = {DType.INT4: (-8, 8), DType.UINT4: (0, 16), DType.INT2: (-2, 2)}[dtype]
    numbers = np.random.default_rng(1).integers(low, high, (3, 5)).astype(np.int8)
    zeros = np.arange(channels) if channels > 1 else np.array([1])
    quantization = Quantization(np.array([0.5, 0.01, 0.1], np.float32)[:channels], zeros, 0)
    same_graph(Dequantize(packed_constant(dtype, numbers, quantization)))


@pytest.mark.parametrize("dtype", PACKED)
def test_cast_to_and_from_packed(dtype: DType) -> None:
    same(Cast(var(EXTREMES), in_data_type=f32, out_data_type=dtype), EXTREMES)
    low = 0 if dtype is DType.UINT4 else -2
    numbers = (np.arange(11) % 4 + low).astype(np.int8)
    same_graph(Cast(packed_constant(dtype, numbers), in_data_type=dtype, out_data_type=f32))


@pytest.mark.parametrize("source", [i32, bf16, DType.COMPLEX64])
def test_only_float32_becomes_packed(source: DType) -> None:
    x = np.zeros(3, source.numpy or np.float32)  # kernels hold bfloat16 as float32
    cast = Cast(Value("x", source, x.shape), in_data_type=source, out_data_type=DType.INT4)
    with pytest.raises(UnsupportedError, match=f"CAST from {source.short} to i4 has no kernel"):
        kernel_results(cast, [x])


def test_bfloat16_is_not_quantized() -> None:
    op = Quantize(Value("x", bf16, (3,)), results=[quantized(i8, (3,), 0.5)])
    with pytest.raises(UnsupportedError, match="QUANTIZE from bf16 to i8 has no kernel"):
        kernel_results(op, [np.zeros(3, np.float32)])


@pytest.mark.parametrize("source", ["f4", "f2", "i4", "i8", "u1", "f8"])
@pytest.mark.parametrize("target", [f32, f16, i32, i8])
def test_cast_over_bfloat16(source: str, target: DType) -> None:
    """LiteRT's Python API cannot read bfloat16, so the result is cast to ``target``."""
    rng = np.random.default_rng(2)
    x = np.concatenate([rng.normal(0, 90, 300), [np.inf, -np.inf, np.nan, 1e-40] if "f" in source else []])
    with np.errstate(all="ignore"):
        x = x.astype(source)
    first = Cast(Value("x", DType.of(x.dtype), x.shape), in_data_type=DType.of(x.dtype), out_data_type=bf16)
    second = Cast(first.output, in_data_type=bf16, out_data_type=target)
    first.output.name, second.output.name = "half", "y"
    operand = first.input
    graph = Graph("main", (operand,))
    graph.append(first)
    graph.append(second)
    graph.outputs = [second.output]
    (got,), (wanted,) = run(Model([graph]), [x]), run_litert(graph, [x])
    np.testing.assert_array_equal(got, wanted)
