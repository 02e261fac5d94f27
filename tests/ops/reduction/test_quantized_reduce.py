# SPDX-License-Identifier: Apache-2.0
"""Reductions and joins of quantized operands, bit for bit like LiteRT; ARG_MAX and ARG_MIN of NaN."""

from __future__ import annotations

import numpy as np
import pytest

from circlekit.errors import UnsupportedError
from circlekit.ir.dtypes import DType, i8, i16, i32, u8
from circlekit.ir.op import REGISTRY, Op
from circlekit.ir.value import Value
from circlekit.ops.movement.join import Concatenation, Pack
from circlekit.ops.reduction.cumsum import Cumsum
from circlekit.ops.reduction.reduce import Mean, ReduceProd, Sum
from tests.ops.litert import check, const, kernel_results, var
from tests.ops.quantized import draw, draw_scale, draw_zero, generator, quantized

SHAPE = (3, 5, 7, 4)
AXES = [[1, 2], [3], [0, 1, 2, 3], [-1, 1], [0], [], [2, 1], [1, 1]]
NARROW = [i8, u8, i16]


def result_shape(kind: type[Op], source: Value, axis: Value, keep: bool) -> tuple[int, ...]:
    return kind(source, axis, keep_dims=keep).output.static_shape


def compare(kind: type[Op], dtype: DType, axes: list[int], keep: bool, ratio: float = 0) -> None:
    """Compare a reduction with LiteRT's reference kernels; SUM of int8 and int16 with its optimized kernels.

    ``ratio``: result scale / operand scale; 0: both are random; 1: the zero points are equal, too.
    """
    rng = generator(kind.code, dtype.short, tuple(axes), keep)
    x, scale = draw(rng, dtype, SHAPE), draw_scale(rng, 0.01, 1)
    zeros = [draw_zero(rng, dtype) for _ in range(2)]
    target = scale * ratio if ratio else draw_scale(rng, 0.01, 1)
    if ratio == 1:
        zeros[1] = zeros[0]
    source, axis = quantized(dtype, SHAPE, scale, zeros[0]), const(axes, np.int32)
    shape = result_shape(kind, source, axis, keep)
    op = kind(source, axis, results=[quantized(dtype, shape, target, zeros[1])], keep_dims=keep)
    check(op, x, optimized=kind is Sum and dtype is not u8)


@pytest.mark.parametrize("dtype", NARROW)
@pytest.mark.parametrize("axes", AXES)
@pytest.mark.parametrize("keep", [False, True])
def test_mean_and_sum(dtype: DType, axes: list[int], keep: bool) -> None:
    compare(Mean, dtype, axes, keep)
    compare(Sum, dtype, axes, keep, 20)
    compare(Sum, dtype, axes, keep, 0.3)


@pytest.mark.parametrize("dtype", NARROW)
@pytest.mark.parametrize("axes", AXES)
@pytest.mark.parametrize("code", ["REDUCE_MAX", "REDUCE_MIN"])
def test_extremes(code: str, dtype: DType, axes: list[int]) -> None:
    compare(REGISTRY[code], dtype, axes, True, 1)


@pytest.mark.parametrize("dtype", [i8, i16])
@pytest.mark.parametrize("axes", [[1], [3], [0], [], [1, 3]])
@pytest.mark.parametrize("keep", [False, True])
def test_product(dtype: DType, axes: list[int], keep: bool) -> None:
    rng = generator("prod", dtype.short, tuple(axes), keep)
    x = rng.integers(-9, 10, SHAPE).astype(dtype.numpy)
    zeros = [int(rng.integers(-3, 4)) if dtype is i8 else 0 for _ in range(2)]
    source, axis = quantized(dtype, SHAPE, 0.3, zeros[0]), const(axes, np.int32)
    shape = result_shape(ReduceProd, source, axis, keep)
    for scale in (0.5, 0.01):
        op = ReduceProd(source, axis, results=[quantized(dtype, shape, scale, zeros[1])], keep_dims=keep)
        check(op, x)


def test_mean_of_70000_elements_and_of_none() -> None:
    x = draw(generator("many"), i8, (3, 70000))
    axis = const([1], np.int32)
    check(Mean(quantized(i8, x.shape, 0.1, -128), axis, results=[quantized(i8, (3,), 0.003, 5)]), x)
    none = np.zeros((3, 0), np.int8)
    check(Mean(quantized(i8, (3, 0), 0.1, 3), axis, results=[quantized(i8, (3,), 0.1, 5)]), none)


@pytest.mark.parametrize("dtype", [i8, u8])
@pytest.mark.parametrize("code", ["ARG_MAX", "ARG_MIN"])
def test_arg_max_and_arg_min(code: str, dtype: DType) -> None:
    x = draw(generator(code), dtype, (3, 40, 5)) // 16
    check(REGISTRY[code](quantized(dtype, x.shape, 0.1, 3), const(1, np.int32), output_type=i32), x)


@pytest.mark.parametrize("code", ["ARG_MAX", "ARG_MIN"])
def test_arg_max_and_arg_min_with_nan(code: str) -> None:
    """The axis is 0: in rows of four or more, LiteRT's vector code loses the neighbours of a NaN."""
    nan, inf = np.nan, np.inf
    rows = [[nan, 1, nan, 3], [nan] * 4, [1, nan, -inf, inf], [nan, -inf, inf, 0], [inf, nan, inf, nan]]
    x = np.ascontiguousarray(np.array(rows, np.float32).T)
    check(REGISTRY[code](var(x), const(0, np.int32), output_type=i32), x)


# -- joins ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("index", range(5))
def test_concatenation_rescales_uint8(index: int) -> None:
    rng = generator("concatenation", index)
    parts = [draw(rng, u8, (4, n, 60)) for n in (1, 3, 2)]
    values = [quantized(u8, p.shape, draw_scale(rng, 0.01, 1), draw_zero(rng, u8)) for p in parts]
    quantization = values[index % 3].quantization if index < 3 else None
    result = quantized(u8, (4, 6, 60), draw_scale(rng, 0.01, 1), draw_zero(rng, u8))
    result.quantization = quantization or result.quantization
    check(Concatenation(*values, results=[result], axis=1), *parts)


def test_concatenation_takes_int16_as_it_is() -> None:
    parts = [draw(generator("c", i), i16, (2, 3)) for i in range(2)]
    values = [quantized(i16, (2, 3), scale) for scale in (0.1, 0.3)]
    check(Concatenation(*values, results=[quantized(i16, (4, 3), 0.2)], axis=0), *parts)


@pytest.mark.parametrize("dtype", NARROW)
def test_pack(dtype: DType) -> None:
    parts = [draw(generator("p", i), dtype, (2, 3)) for i in range(2)]
    values = [quantized(dtype, (2, 3), 0.1) for _ in range(2)]
    result = quantized(dtype, (2, 2, 3), 0.1)
    check(Pack(*values, results=[result], axis=1, values_count=2), *parts)


def test_forms_without_a_kernel_are_refused() -> None:
    x = np.zeros((2, 3), np.int8)
    values = [quantized(i8, (2, 3), scale) for scale in (0.1, 0.3)]
    with pytest.raises(UnsupportedError, match="CONCATENATION on quantized i8"):
        kernel_results(Concatenation(*values, results=[quantized(i8, (4, 3), 0.2)], axis=0), [x, x])
    axis = const([1], np.int32)
    op = REGISTRY["REDUCE_MAX"](values[0], axis, results=[quantized(i8, (2,), 0.2)])
    with pytest.raises(UnsupportedError, match="REDUCE_MAX on quantized i8"):
        kernel_results(op, [x])
    with pytest.raises(UnsupportedError, match="PACK on quantized i8"):
        kernel_results(Pack(*values, values_count=2), [x, x])
    with pytest.raises(UnsupportedError, match="CUMSUM on quantized i8"):
        kernel_results(Cumsum(values[0], const(0, np.int32)), [x])
    unsigned = quantized(u8, (2, 3), 0.1)
    with pytest.raises(UnsupportedError, match="REDUCE_PROD on quantized u8"):
        kernel_results(ReduceProd(unsigned, axis, results=[quantized(u8, (2,), 1)]), [x.view(np.uint8)])
