# SPDX-License-Identifier: Apache-2.0
"""Operator versions of data movement, as TFLite's tools/versioning/op_version.cc has them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from circlekit.ir.dtypes import DType, bf16, boolean, f16, f32, i8, i16, i32, i64, u8, u32
from circlekit.ir.op import Op
from circlekit.ir.value import Quantization, Value
from circlekit.ops.movement import (
    gather,
    join,
    pad,
    repeat,
    resize_images,
    scatter,
    shape,
    slice,
    space,
    sparse,
)

STRING, INT4, INT2 = DType.STRING, DType.INT4, DType.INT2


def data(dtype: DType, rank: int = 1) -> Value:
    return Value("x", dtype, (4,) * rank)


def ints(count: int, dtype: DType = i32) -> Value:
    return Value("n", dtype, (count,))


def pads(rank: int) -> Value:
    return Value("p", i32, (rank, 2))


def scalar(dtype: DType = i32) -> Value:
    return Value("scalar", dtype, ())


BY_DTYPE: list[tuple[Callable[[DType], Op], dict[DType, int]]] = [
    (
        lambda t: gather.Gather(data(t), ints(2)),
        {f32: 1, i8: 2, boolean: 3, i16: 4, INT4: 7},
    ),
    (lambda t: gather.GatherNd(data(t), ints(1)), {f32: 1, STRING: 2, i16: 3, boolean: 5}),
    (lambda t: gather.EmbeddingLookup(ints(2), data(t, 2)), {f32: 1, i8: 1, INT4: 4, INT2: 5}),
    (lambda t: gather.ReverseV2(data(t), ints(1)), {f32: 1, boolean: 2, i8: 3}),
    (lambda t: gather.TopKV2(data(t), scalar()), {f32: 1, i8: 2, i16: 3}),
    (
        lambda t: scatter.DynamicUpdateSlice(data(t), data(t), ints(1)),
        {f32: 1, f16: 3, i16: 4, INT4: 5, bf16: 6},
    ),
    (lambda t: join.Concatenation(data(t)), {f32: 1, i8: 2, i16: 3, u32: 4, INT4: 5, f16: 6}),
    (lambda t: join.Pack(data(t), values_count=1), {f32: 1, i8: 2, i16: 3, u32: 4}),
    (lambda t: join.Unpack(data(t), num=4), {f32: 1, i8: 2, u8: 2, boolean: 3, i16: 4, f16: 5}),
    (lambda t: join.Split(scalar(), data(t), num_splits=2), {f32: 1, i8: 2, i32: 3, i16: 4}),
    (lambda t: join.SplitV(data(t), ints(2), scalar(), num_splits=2), {f32: 1, i8: 2}),
    (lambda t: shape.Squeeze(data(t)), {f32: 1, STRING: 2}),
    (lambda t: shape.Transpose(data(t), ints(1)), {f32: 1, i8: 2, boolean: 3, i16: 5}),
    (lambda t: repeat.BroadcastTo(data(t), ints(1)), {f32: 2, i8: 3, i16: 3}),
    (lambda t: repeat.Tile(data(t), ints(1)), {f32: 1, STRING: 2, i8: 3}),
    (lambda t: repeat.Fill(ints(1), scalar(t)), {f32: 1, boolean: 2, STRING: 2, i8: 3, i16: 3, f16: 4}),
    (lambda t: repeat.Range(scalar(t), scalar(t), scalar(t)), {f32: 1, i64: 2}),
    (
        lambda t: slice.Slice(data(t), ints(1), ints(1)),
        {f32: 1, i8: 2, STRING: 3, i16: 4, u32: 6, INT4: 7, f16: 8},
    ),
    (
        lambda t: slice.StridedSlice(data(t), ints(1), ints(1), ints(1)),
        {f32: 1, i8: 2, boolean: 3, STRING: 5, u32: 7},
    ),
    (lambda t: pad.Pad(data(t), pads(1)), {f32: 1, i8: 2, i16: 3, boolean: 5}),
    (lambda t: pad.PadV2(data(t), pads(1), scalar(t)), {f32: 1, i8: 2, i16: 3, boolean: 5}),
    (lambda t: pad.MirrorPad(data(t), pads(1)), {f32: 1, i8: 2, i16: 3}),
    (lambda t: space.DepthToSpace(data(t, 4), block_size=2), {f32: 1, i8: 2}),
    (lambda t: space.SpaceToDepth(data(t, 4), block_size=2), {f32: 1, i8: 2}),
    (lambda t: space.SpaceToBatchND(data(t, 4), ints(2), pads(2)), {f32: 1, i8: 2, i16: 4}),
    (lambda t: space.BatchToSpaceND(data(t, 4), ints(2), pads(2)), {f32: 1, i8: 2, i16: 4}),
    (lambda t: resize_images.ResizeBilinear(data(t, 4), ints(2)), {f32: 1, i8: 2, i16: 4}),
    (lambda t: resize_images.ResizeNearestNeighbor(data(t, 4), ints(2)), {f32: 1, i8: 2, i16: 4}),
    (
        lambda t: sparse.SparseToDense(ints(1), ints(1), scalar(t), scalar(t)),
        {f32: 1, i64: 2, i8: 3, u8: 3},
    ),
]


def test_versions_by_dtype() -> None:
    for make, versions in BY_DTYPE:
        found = {dtype: make(dtype).required_version() for dtype in versions}
        assert found == versions, make(f32).code


def test_versions_by_rank() -> None:
    ranks = (1, 4, 5, 6)
    for make, versions in (
        (lambda r: shape.Transpose(data(f32, r), ints(r)), [1, 1, 4, 6]),
        (lambda r: slice.Slice(data(f32, r), ints(r), ints(r)), [1, 1, 5, 5]),
        (lambda r: slice.StridedSlice(data(f32, r), ints(r), ints(r), ints(r)), [1, 1, 4, 4]),
        (lambda r: pad.Pad(data(f32, r), pads(r)), [1, 1, 4, 4]),
        (lambda r: pad.PadV2(data(f32, r), pads(r), scalar(f32)), [1, 1, 4, 4]),
        (lambda r: pad.MirrorPad(data(f32, r), pads(r)), [1, 1, 1, 1]),
        (lambda r: space.SpaceToBatchND(data(f32, r), ints(0), pads(0)), [3, 1, 3, 3]),
    ):
        assert [make(rank).required_version() for rank in ranks] == versions
    assert slice.Slice(Value("x", f32, None), ints(1), ints(1)).required_version() == 1
    assert slice.Slice(data(f16, 5), ints(5), ints(5)).required_version() == 8


PER_ROW = Quantization(np.array([0.5, 0.25], np.float32), np.array([0, 0]), 0)
INDEX, MAPS = ints(1, i16), [data(f32, 4), ints(2)]


@pytest.mark.parametrize(
    ("op", "version"),
    [
        (gather.Gather(data(f32), INDEX), 6),
        (gather.Gather(data(INT4), INDEX), 7),
        (gather.Gather(data(f32, 2), Value("n", i32, (4, 1)), axis=1, batch_dims=1), 5),
        (gather.GatherNd(data(f32), INDEX), 4),
        (gather.EmbeddingLookup(ints(1), Value("v", i8, (2, 4), None, PER_ROW)), 4),
        (gather.TopKV2(data(f32), scalar(i16)), 3),
        (gather.TopKV2(data(f32), scalar(), results=[data(f32), data(i16)]), 3),
        (scatter.DynamicUpdateSlice(data(f32), data(f32), ints(1, i64)), 2),
        (slice.StridedSlice(data(i8), ints(1), ints(1), ints(1), offset=True), 8),
        (slice.StridedSlice(data(i8), ints(1), ints(1), ints(1), ellipsis_mask=1), 6),
        (slice.StridedSlice(data(i8), ints(1), ints(1), ints(1), new_axis_mask=1), 6),
        (slice.StridedSlice(data(u32), ints(1), ints(1), ints(1), new_axis_mask=1), 7),
        (resize_images.ResizeBilinear(*MAPS, half_pixel_centers=True), 3),
        (resize_images.ResizeBilinear(*MAPS, align_corners=True), 1),
        (resize_images.ResizeNearestNeighbor(*MAPS, half_pixel_centers=True), 3),
        (resize_images.ResizeNearestNeighbor(*MAPS, align_corners=True), 3),
    ],
    ids=lambda item: item.code if isinstance(item, Op) else str(item),
)
def test_the_version_follows_from_the_features_that_an_operator_uses(op: Op, version: int) -> None:
    assert op.required_version() == version
