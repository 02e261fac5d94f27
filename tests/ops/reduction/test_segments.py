# SPDX-License-Identifier: Apache-2.0
"""Reductions of segments against LiteRT."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from circlekit.errors import ModelError, ShapeError, UnsupportedError
from circlekit.ir.dtypes import f32, i32
from circlekit.ir.value import Array, Value
from circlekit.ops.reduction.segments import (
    SegmentSum,
    UnsortedSegmentMax,
    UnsortedSegmentMin,
    UnsortedSegmentProd,
    UnsortedSegmentSum,
)
from tests.ops.litert import check, const, ints, kernel_results, var

UNSORTED: list[Any] = [UnsortedSegmentSum, UnsortedSegmentProd, UnsortedSegmentMax, UnsortedSegmentMin]


def data(dtype: str, *shape: int) -> Array:
    return (np.random.default_rng(sum(shape)).uniform(-3, 3, shape) * 3).astype(dtype)


@pytest.mark.parametrize("dtype", ["f4", "i4"])
@pytest.mark.parametrize("shape", [(6,), (6, 3, 2)])
@pytest.mark.parametrize("known", [True, False])
def test_segment_sum(dtype: str, shape: tuple[int, ...], known: bool) -> None:
    x, ids = data(dtype, *shape), np.array([0, 0, 1, 2, 2, 2], np.int32)
    op = SegmentSum(var(x), const(ids) if known else var(ids))
    assert op.output.shape == (3 if known else None, *shape[1:])
    check(op, x, *([] if known else [ids]))


@pytest.mark.parametrize("ids", [[1, 1], [0, 2], [1, 0], [-1, 0]])
def test_ids_that_do_not_start_at_0_or_grow_by_0_or_1_are_errors(ids: list[int]) -> None:
    with pytest.raises(ModelError, match="expected segment_ids that start at 0 and grow by 0 or 1"):
        kernel_results(SegmentSum(Value("x", f32, (2,)), ints(ids)), [np.zeros(2, np.float32)])


@pytest.mark.parametrize("kind", UNSORTED)
@pytest.mark.parametrize("dtype", ["f4", "i4"])
@pytest.mark.parametrize("ids", [[3, 0, 3, -1, 0, 1], [[3, 0], [1, -1], [0, 0]], [5, 5, 5, 5, 5, 5]])
def test_unsorted_segments(kind: Any, dtype: str, ids: Any) -> None:
    index = np.array(ids, np.int32)
    x = data(dtype, *index.shape, 4)
    check(kind(var(x), const(index), ints(7)), x)
    check(kind(var(x), var(index), ints([7])), x, index)
    check(kind(var(x[..., :0]), const(index), ints(7)), x[..., :0])


def test_ids_beyond_the_segments() -> None:
    x = Value("x", f32, (2, 3))
    with pytest.raises(ModelError, match="expected segment_ids below 4, got 4"):
        kernel_results(UnsortedSegmentSum(x, ints([0, 4]), ints(4)), [np.zeros((2, 3), np.float32)])


def test_shapes_of_segments() -> None:
    x, ids, count = Value("x", f32, (None, 3, 4)), Value("ids", i32, (5, 3)), Value("count", i32, ())
    assert UnsortedSegmentSum(x, ids, count).output.shape == (None, 4)
    assert UnsortedSegmentSum(x, ids, ints(7)).output.shape == (7, 4)
    assert UnsortedSegmentSum(x, Value("ids", i32, None), ints(7)).output.shape is None
    assert UnsortedSegmentSum(Value("x", f32, None), ids, ints(7)).output.shape is None
    assert SegmentSum(Value("x", f32, (0, 2)), ints([])).output.shape == (0, 2)
    assert SegmentSum(Value("x", f32, None), ints([0])).output.shape is None
    with pytest.raises(ShapeError, match="expected segment_ids of rank 1"):
        SegmentSum(x, ids)
    with pytest.raises(ShapeError, match="to be a prefix of"):
        UnsortedSegmentSum(Value("x", f32, (5,)), ids, ints(7))
    with pytest.raises(
        ShapeError, match=r"expected the shape of segment_ids to be a prefix of \[2,3\], got \[3\]"
    ):
        UnsortedSegmentSum(Value("x", f32, (2, 3)), ints([0, 1, 2]), ints(4))
    (out,) = kernel_results(SegmentSum(Value("x", f32, (0, 2)), ints([])), [np.zeros((0, 2), np.float32)])
    assert out.shape == (0, 2)


def test_segments_of_uint8_have_no_kernel() -> None:
    x = np.zeros(2, np.uint8)
    for op in (SegmentSum(var(x), ints([0, 0])), UnsortedSegmentSum(var(x), ints([0, 0]), ints(1))):
        with pytest.raises(UnsupportedError, match=f"{op.code} on uint8 has no kernel"):
            kernel_results(op, [x])
