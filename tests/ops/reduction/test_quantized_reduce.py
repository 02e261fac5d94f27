# SPDX-License-Identifier: Apache-2.0
"""Reductions of quantized operands, bit for bit like LiteRT."""

from __future__ import annotations

import numpy as np
import pytest

from circlekit.errors import UnsupportedError
from circlekit.ir.dtypes import DType, i8, i16, i32, u8
from circlekit.ir.op import REGISTRY, Op
from circlekit.ir.value import Value
from circlekit.ops.numerics.output_stage import Kernels, following
from circlekit.ops.reduction.cumsum import Cumsum
from circlekit.ops.reduction.reduce import Mean, ReduceProd, Sum
from tests.ops.litert import check, const, kernel_results
from tests.ops.quantized import draw, draw_scale, draw_zero, generator, quantized

SHAPE = (3, 5, 7, 4)
AXES = [[1, 2], [3], [0, 1, 2, 3], [-1, 1], [0], [], [2, 1], [1, 1]]
NARROW = [i8, u8, i16]


def result_shape(kind: type[Op], source: Value, axis: Value, keep: bool) -> tuple[int, ...]:
    return kind(source, axis, keep_dims=keep).output.static_shape


def compare(kind: type[Op], dtype: DType, axes: list[int], keep: bool, ratio: float = 0) -> None:
    """Compare a reduction with LiteRT's reference kernels; SUM of int8 and int16 with its optimized kernels.

    ``ratio``: result scale / operand scale.  0: both scales are random.  1: zero points are equal, too.
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


@pytest.mark.parametrize("keep", [False, True])
def test_sum_of_uint8_by_optimized_kernels_is_rescaled_in_float32(keep: bool) -> None:
    x = draw(generator("sum", keep), u8, (50, 60, 3))
    source, axis = quantized(u8, x.shape, 5.7733207, 38), const([2], np.int32)
    result = quantized(u8, result_shape(Sum, source, axis, keep), 12.869072, 5)
    op = Sum(source, axis, results=[result], keep_dims=keep)
    plain = check(op, x)[0]
    with following(Kernels.OPTIMIZED):
        assert not np.array_equal(check(op, x, optimized=True)[0], plain)


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


@pytest.mark.parametrize("dtype", [i8, i16])
@pytest.mark.parametrize(
    ("shape", "axes"), [((5, 1), [1]), ((1,), [0]), ((2, 1, 3, 1), [1, 3]), ((2, 1), [])]
)
@pytest.mark.parametrize("keep", [False, True])
def test_product_over_axes_of_size_one(
    dtype: DType, shape: tuple[int, ...], axes: list[int], keep: bool
) -> None:
    x = generator("one", dtype.short, shape, keep).integers(-90, 90, shape).astype(dtype.numpy)
    source, axis = quantized(dtype, shape, 0.5), const(axes, np.int32)
    result = quantized(dtype, result_shape(ReduceProd, source, axis, keep), 0.75)
    op = ReduceProd(source, axis, results=[result], keep_dims=keep)
    check(op, x)
    with following(Kernels.OPTIMIZED):
        check(op, x, optimized=True)


@pytest.mark.parametrize("ratio", [2.0**14, 2.0**15, 2.0**16, 2.0**17, 1e6])
def test_product_with_a_large_ratio_of_scales(ratio: float) -> None:
    """From 2^15 on, LiteRT shifts right by a negative number; the results are those of an x86 processor."""
    x = np.array([[-128], [-3], [0], [1], [127]], np.int8)
    op = ReduceProd(quantized(i8, x.shape, ratio), const([1], np.int32), results=[quantized(i8, (5,), 1.0)])
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


def test_forms_without_a_kernel_are_refused() -> None:
    x = np.zeros((2, 3), np.int8)
    signed, axis = quantized(i8, (2, 3), 0.1), const([1], np.int32)
    op = REGISTRY["REDUCE_MAX"](signed, axis, results=[quantized(i8, (2,), 0.2)])
    with pytest.raises(UnsupportedError, match="REDUCE_MAX on quantized i8"):
        kernel_results(op, [x])
    with pytest.raises(UnsupportedError, match="CUMSUM on quantized i8"):
        kernel_results(Cumsum(signed, const(0, np.int32)), [x])
    unsigned = quantized(u8, (2, 3), 0.1)
    with pytest.raises(UnsupportedError, match="REDUCE_PROD on quantized u8"):
        kernel_results(ReduceProd(unsigned, axis, results=[quantized(u8, (2,), 1)]), [x.view(np.uint8)])
