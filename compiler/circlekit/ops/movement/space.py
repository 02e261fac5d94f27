# SPDX-License-Identifier: Apache-2.0
"""Images: blocks moved between space, depth and batch, and resizing.  NHWC throughout.

Source: TFLite depth_to_space, space_to_depth, space_to_batch_nd, batch_to_space_nd, resize_bilinear,
resize_nearest_neighbor.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from circlekit.errors import ShapeError, UnsupportedError
from circlekit.ir.dtypes import i8, i16, i32
from circlekit.ir.op import attribute, operand
from circlekit.ir.tape import Tape
from circlekit.ir.value import Array, Shape, TensorType, format_shape
from circlekit.ops.checks import require_length, require_rank
from circlekit.ops.constant_operands import int_list, static_int_vector
from circlekit.ops.dimensions import Dim, unknown_dims
from circlekit.ops.quantization import rearranged_type, zero_point_of
from circlekit.ops.versions import VersionedByDtype


def _ratio(name: str, dim: Dim, by: int) -> Dim:
    """``dim`` / ``by``; ShapeError where it leaves a remainder."""
    if dim is not None and dim % by:
        raise ShapeError(f"{name} is {dim}, a multiple of {by} is wanted")
    return None if dim is None else dim // by


def _times(dim: Dim, by: int) -> Dim:
    return None if dim is None else dim * by


class BlockMove(VersionedByDtype):
    """Blocks of ``block_size`` squared pixels."""

    input = operand()

    block_size: int = attribute(0)

    versions: ClassVar = {i8: 2}

    def infer(self) -> TensorType:
        if self.block_size < 1:
            raise ShapeError(f"block_size is {self.block_size}, at least 1 is wanted")
        shape = require_rank(self.input, "input", 4)
        return rearranged_type(self.input, unknown_dims(4) if shape is None else self.result_shape(*shape))

    def result_shape(self, n: Dim, h: Dim, w: Dim, c: Dim) -> Shape:
        """The shape of the result for an input of [n, h, w, c]."""
        raise UnsupportedError(f"{self.code} has no shape rule")


class DepthToSpace(BlockMove, code="DEPTH_TO_SPACE", reference_version=1):
    """[N,H,W,b*b*C] to [N,b*H,b*W,C]: depth is (row of the block, column of the block, channel)."""

    def result_shape(self, n: Dim, h: Dim, w: Dim, c: Dim) -> Shape:
        b = self.block_size
        return n, _times(h, b), _times(w, b), _ratio("depth", c, b * b)

    def bind(self, tape: Tape, input: Array) -> Array:
        n, h, w, c = input.shape
        b = self.block_size
        blocks = tape.reshaped(input, (n, h, w, b, b, c // (b * b))).transpose(0, 1, 3, 2, 4, 5)
        return tape.reshaped(blocks, (n, h * b, w * b, c // (b * b)))


class SpaceToDepth(BlockMove, code="SPACE_TO_DEPTH"):
    """[N,b*H,b*W,C] to [N,H,W,b*b*C]."""

    def result_shape(self, n: Dim, h: Dim, w: Dim, c: Dim) -> Shape:
        b = self.block_size
        return n, _ratio("height", h, b), _ratio("width", w, b), _times(c, b * b)

    def bind(self, tape: Tape, input: Array) -> Array:
        n, h, w, c = input.shape
        b = self.block_size
        blocks = tape.reshaped(input, (n, h // b, b, w // b, b, c)).transpose(0, 1, 3, 2, 4, 5)
        return tape.reshaped(blocks, (n, h // b, w // b, b * b * c))


# -- batch -------------------------------------------------------------------------------------


class BatchMove(VersionedByDtype):
    """``input`` is [N, space..., depth]; ``block_shape`` has one entry for each axis of space."""

    input = operand()
    block_shape = operand(i32)

    versions: ClassVar = {i8: 2, i16: 4}

    def required_version(self) -> int:
        version = super().required_version()
        return max(version, 3) if self.input.rank not in (4, None) else version

    def parameters(self, rows: list[int] | None) -> tuple[list[int], list[tuple[int, int]]] | None:
        """Blocks, and the pairs of ``rows``; None where they are no constants."""
        blocks = static_int_vector(self.block_shape)
        if blocks is None or rows is None:
            return None
        if min(blocks, default=1) < 1 or len(rows) != 2 * len(blocks) or min(rows, default=0) < 0:
            raise ShapeError(
                f"blocks {blocks} and pairs {rows}: positive blocks, two numbers for each are wanted"
            )
        return blocks, list(zip(rows[::2], rows[1::2], strict=True))

    def inferred_shape(self, rows: list[int] | None) -> TensorType:
        """The type of the result, where ``rows`` is the flattened third operand."""
        shape, parameters = self.input.shape, self.parameters(rows)
        if shape is None or parameters is None:
            return rearranged_type(self.input, unknown_dims(self.input.rank))
        if len(shape) < len(parameters[0]) + 1:
            raise ShapeError(
                f"input has shape {format_shape(shape)}, {len(parameters[0])} axes of space are wanted"
            )
        return rearranged_type(self.input, self.result_shape(shape, *parameters))

    def result_shape(self, shape: Shape, blocks: list[int], pairs: list[tuple[int, int]]) -> Shape:
        """The shape of the result."""
        raise UnsupportedError(f"{self.code} has no shape rule")


class SpaceToBatchND(BatchMove, code="SPACE_TO_BATCH_ND"):
    """Space padded by ``paddings`` [M,2], cut into blocks, each place of a block a batch of its own."""

    paddings = operand(i32)

    def infer(self) -> TensorType:
        return self.inferred_shape(static_int_vector(self.paddings))

    def result_shape(self, shape: Shape, blocks: list[int], pairs: list[tuple[int, int]]) -> Shape:
        spaces = []
        for dim, block, (before, after) in zip(shape[1:], blocks, pairs, strict=False):
            spaces.append(_ratio("padded space", None if dim is None else dim + before + after, block))
        return (_times(shape[0], int(np.prod(blocks))), *spaces, *shape[1 + len(blocks) :])

    def kernel(self, input: Array, block_shape: Array, paddings: Array) -> Array:
        blocks, pairs = int_list(block_shape), paddings.reshape(-1, 2).tolist()
        count = len(blocks)
        rest = [(0, 0)] * (input.ndim - 1 - count)
        data = np.pad(input, [(0, 0), *pairs, *rest], constant_values=zero_point_of(self.output))
        cut = [data.shape[0]]
        for dim, block in zip(data.shape[1:], blocks, strict=False):
            cut += [dim // block, block]
        places = [2 * i + 2 for i in range(count)]
        spaces = [2 * i + 1 for i in range(count)]
        tail = [1 + 2 * count + i for i in range(len(rest))]
        moved_blocks = data.reshape(*cut, *data.shape[1 + count :]).transpose(*places, 0, *spaces, *tail)
        outer = [data.shape[0] * int(np.prod(blocks)), *cut[1::2]]
        return np.asarray(moved_blocks.reshape(*outer, *data.shape[1 + count :]))


class BatchToSpaceND(BatchMove, code="BATCH_TO_SPACE_ND"):
    """The inverse of SPACE_TO_BATCH_ND; ``crops`` [M,2] is taken off at the edges."""

    crops = operand(i32)

    def infer(self) -> TensorType:
        return self.inferred_shape(static_int_vector(self.crops))

    def result_shape(self, shape: Shape, blocks: list[int], pairs: list[tuple[int, int]]) -> Shape:
        spaces = []
        for dim, block, (before, after) in zip(shape[1:], blocks, pairs, strict=False):
            if dim is not None and dim * block < before + after:
                raise ShapeError(f"crops {before} and {after} are more than the {dim * block} that is there")
            spaces.append(None if dim is None else dim * block - before - after)
        return (_ratio("batch", shape[0], int(np.prod(blocks))), *spaces, *shape[1 + len(blocks) :])

    def kernel(self, input: Array, block_shape: Array, crops: Array) -> Array:
        blocks, pairs = int_list(block_shape), crops.reshape(-1, 2).tolist()
        count = len(blocks)
        batch = input.shape[0] // int(np.prod(blocks))
        split = input.reshape(*blocks, batch, *input.shape[1:])
        order = [count]
        for i in range(count):
            order += [count + 1 + i, i]
        tail = range(2 * count + 1, split.ndim)
        spaces = [d * b for d, b in zip(input.shape[1:], blocks, strict=False)]
        whole = split.transpose(*order, *tail).reshape(batch, *spaces, *input.shape[1 + count :])
        boxes = [slice(None)] + [slice(a, d - b) for d, (a, b) in zip(spaces, pairs, strict=True)]
        return np.asarray(whole[tuple(boxes)])


# -- resizing ----------------------------------------------------------------------------------


class Resize(VersionedByDtype):
    """[N,H,W,C] to the height and width of ``size``.

    ``align_corners``: the centres of the corner pixels coincide; ``half_pixel_centers``: the edges do.
    """

    input = operand()
    size = operand(i32)

    align_corners: bool = attribute(False)
    half_pixel_centers: bool = attribute(False)

    def infer(self) -> TensorType:
        shape, size = require_rank(self.input, "input", 4), static_int_vector(self.size)
        require_length(self.size.shape, 2, "size")
        n, _, _, c = shape or (None,) * 4
        height, width = size or (None, None)
        return rearranged_type(self.input, (n, height, width, c))

    def required_version(self) -> int:
        dtype = self.input.dtype
        return 4 if dtype is i16 else 3 if self.half_pixel_centers else 2 if dtype is i8 else 1

    def scale(self, size: int, wanted: int) -> Array:
        """Input pixels for each output pixel, in float32 as LiteRT has it."""
        if self.align_corners and wanted > 1:
            size, wanted = size - 1, wanted - 1
        return np.asarray(np.float32(size) / np.float32(wanted), np.float32)


class ResizeNearestNeighbor(Resize, code="RESIZE_NEAREST_NEIGHBOR"):
    """The nearest pixel."""

    def kernel(self, input: Array, size: Array) -> Array:
        rows, columns = (self.places(input.shape[1 + i], n) for i, n in enumerate(int_list(size)))
        return np.asarray(input[:, rows[:, None], columns])

    def places(self, size: int, wanted: int) -> Array:
        """The input pixel of every output pixel along one axis."""
        centre = np.float32(0.5 if self.half_pixel_centers else 0)
        position = (np.arange(wanted, dtype=np.float32) + centre) * self.scale(size, wanted)
        if self.align_corners:
            position = position + np.float32(0.5)  # to the nearest: no position is negative
        return np.asarray(np.clip(np.floor(position), 0, size - 1), np.int64)

    def required_version(self) -> int:
        return max(super().required_version(), 3 if self.align_corners else 1)


SEVERAL = 1 << 12
"""Results that are made at a time, some numbers of four or eight bytes for each."""


class ResizeBilinear(Resize, code="RESIZE_BILINEAR"):
    """Four neighbours, weighted by nearness; int8 and int16 in fixed point, 10 fractional bits an axis.

    uint8 is computed in float32 and rounded, halves up.
    """

    def kernel(self, input: Array, size: Array) -> Array:
        height, width = int_list(size)
        whole = input.dtype.kind == "f" or input.dtype == np.uint8
        if not whole and input.dtype.name not in ("int8", "int16"):
            raise UnsupportedError(f"RESIZE_BILINEAR on {input.dtype} has no kernel")
        wide = np.int32 if input.dtype.itemsize == 1 else np.int64
        rows, columns = (
            self.neighbours(size, n) if whole else self.fixed_neighbours(size, n, wide)
            for size, n in zip(input.shape[1:3], (height, width), strict=True)
        )
        out = np.empty((len(input), height, width, input.shape[3]), input.dtype)
        step = max(1, SEVERAL * height // max(out.size, 1))
        for top in range(0, height, step):
            low, high, weights = rows
            part = slice(top, top + step)
            mixed = low[part], high[part], (weights[0][part], weights[1][part])
            out[:, part] = self.mixed(input, mixed, columns, wide)
        return out

    def mixed(self, x: Array, rows: Any, columns: Any, wide: type[np.signedinteger[Any]]) -> Array:
        """Some rows of results."""
        if x.dtype.kind == "f":
            return self.blend(x, rows, columns)
        if x.dtype == np.uint8:
            return np.asarray(self.four_products(x, rows, columns) + np.float32(0.5))
        total = self.blend(x, rows, columns)
        # towards zero: half away from zero, then the bits are cut off a positive number
        total += np.where(total > 0, 1 << 19, -(1 << 19)).astype(wide)
        total += (total < 0) * wide((1 << 20) - 1)
        return np.asarray(total >> 20)

    def blend(self, x: Array, rows: Any, columns: Any) -> Array:
        """Weighted sums along height, then along width; each triple is (lower, upper, weights of both)."""
        low, high, weights = rows
        w0, w1 = (w[:, None, None] for w in weights)
        mixed = x[:, low] * w0 + x[:, high] * w1
        low, high, weights = columns
        w0, w1 = (w[:, None] for w in weights)
        return np.asarray(mixed[:, :, low] * w0 + mixed[:, :, high] * w1)

    def four_products(self, x: Array, rows: Any, columns: Any) -> Array:
        """``blend`` in LiteRT's order of operations, where a last bit decides about rounding."""
        total: Array = np.zeros(1, np.float32)
        for column, right in zip(columns[:2], columns[2], strict=True):
            for row, down in zip(rows[:2], rows[2], strict=True):
                total = total + x[:, row[:, None], column] * down[:, None, None] * right[:, None]
        return total

    def neighbours(self, size: int, wanted: int) -> tuple[Array, Array, tuple[Array, Array]]:
        """The two input pixels of every output pixel along one axis, and their weights."""
        position = np.arange(wanted, dtype=np.float32)
        if self.half_pixel_centers:
            position = (position + np.float32(0.5)) * self.scale(size, wanted) - np.float32(0.5)
        else:
            position = position * self.scale(size, wanted)
        low = np.maximum(np.floor(position).astype(np.int64), 0)
        high = np.minimum(np.ceil(position).astype(np.int64), size - 1)
        part = position - low.astype(np.float32)
        return low, high, (np.float32(1) - part, part)

    def fixed_neighbours(
        self, size: int, wanted: int, wide: type[np.signedinteger[Any]]
    ) -> tuple[Array, Array, tuple[Array, Array]]:
        """The same with positions in 1/1024, and weights in 1/1024 of type ``wide``."""
        if self.align_corners and wanted > 1:
            scale = (1024 * (size - 1) + (wanted - 1) // 2) // (wanted - 1)
        else:
            scale = (1024 * size + wanted // 2) // wanted
        position = np.arange(wanted, dtype=np.int64) * scale
        if self.half_pixel_centers:
            position = position + scale // 2 - 512
        low = np.maximum(position // 1024, 0)
        high = np.minimum((position + 1023) // 1024, size - 1)
        part = position - 1024 * low
        return low, high, ((1024 - part).astype(wide), part.astype(wide))
