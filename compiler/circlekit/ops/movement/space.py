# SPDX-License-Identifier: Apache-2.0
"""Operators on NHWC images that move blocks of pixels between space, depth and batch.

Source: TFLite depth_to_space, space_to_depth, space_to_batch_nd, batch_to_space_nd.
"""

from __future__ import annotations

from abc import abstractmethod
from math import prod

import numpy as np

from circlekit.errors import ShapeError, counted
from circlekit.ir.dtypes import i8, i16, i32
from circlekit.ir.op import Op, attribute, operand
from circlekit.ir.quantization_rule import QuantizationRule
from circlekit.ir.value import Array, Shape, TensorType, format_shape
from circlekit.ops.checks import NUMERIC_KINDS, require_dims, require_numpy_kind, require_rank
from circlekit.ops.constant_operands import int_list, static_int_vector
from circlekit.ops.dimensions import Dim, unknown_dims
from circlekit.ops.operand_dtypes import ANY
from circlekit.ops.quantized_values import padding_of, rearranged_type


def _divided(name: str, dim: Dim, divisor: int) -> Dim:
    """Return ``dim`` / ``divisor``, None for an unknown ``dim``; raise ShapeError for a remainder."""
    if dim is not None and dim % divisor:
        raise ShapeError(f"{name}: expected a multiple of {divisor}, got {dim}")
    return None if dim is None else dim // divisor


def _multiplied(dim: Dim, factor: int) -> Dim:
    return None if dim is None else dim * factor


class BlockMove(Op, versions={i8: 2}):  # int8 data need operator version 2
    """Base class of operators that move ``block_size`` x ``block_size`` pixels to the channels, or back."""

    quantization_rule = QuantizationRule(results_follow="input")  # the scale and zero point of the input

    input = operand(*ANY)

    block_size: int = attribute(0)

    def infer(self) -> TensorType:
        if self.block_size < 1:
            raise ShapeError(f"block_size: expected at least 1, got {self.block_size}")
        shape = require_rank(self.input, "input", 4) or (None,) * 4
        return rearranged_type(self.input, self.result_shape(*shape))

    @abstractmethod
    def result_shape(self, n: Dim, h: Dim, w: Dim, c: Dim) -> Shape:
        """Return the shape of the result for an input of [n, h, w, c]."""


class DepthToSpace(BlockMove, code="DEPTH_TO_SPACE", reference_version=1, data_movement=True):
    """[N,H,W,b*b*C] to [N,b*H,b*W,C]: each pixel becomes a block of b x b pixels; b is ``block_size``.

    The b*b*C channels are sorted by row in the block, then by column in the block, then by channel.
    """

    def result_shape(self, n: Dim, h: Dim, w: Dim, c: Dim) -> Shape:
        b = self.block_size
        return n, _multiplied(h, b), _multiplied(w, b), _divided("depth", c, b * b)

    def kernel(self, input: Array) -> Array:
        n, h, w, c = input.shape
        b = self.block_size
        blocks = input.reshape(n, h, w, b, b, c // (b * b)).transpose(0, 1, 3, 2, 4, 5)
        return np.asarray(blocks.reshape(self.result_shape(*input.shape)))


class SpaceToDepth(BlockMove, code="SPACE_TO_DEPTH", data_movement=True):
    """[N,b*H,b*W,C] to [N,H,W,b*b*C]: each block becomes one pixel.  The inverse of DEPTH_TO_SPACE."""

    def result_shape(self, n: Dim, h: Dim, w: Dim, c: Dim) -> Shape:
        b = self.block_size
        return n, _divided("height", h, b), _divided("width", w, b), _multiplied(c, b * b)

    def kernel(self, input: Array) -> Array:
        n, h, w, c = input.shape
        b = self.block_size
        blocks = input.reshape(n, h // b, b, w // b, b, c).transpose(0, 1, 3, 2, 4, 5)
        return np.asarray(blocks.reshape(self.result_shape(*input.shape)))


# -- batch -------------------------------------------------------------------------------------


class BatchMove(Op, versions={i8: 2, i16: 4}):
    """Base class of operators that move the positions in a block to the batch axis, or back.

    The data have the axes batch, M spatial axes, and any number of other axes (depth).  ``block_shape`` [M]:
    the size of a block along each spatial axis.  With blocks of [2, 2], SPACE_TO_BATCH_ND makes [4, 2, 3, C]
    of [1, 4, 6, C], and BATCH_TO_SPACE_ND makes [1, 4, 6, C] of [4, 2, 3, C].
    """

    quantization_rule = QuantizationRule(results_follow="input")

    input = operand(*ANY)
    block_shape = operand(i32)

    def required_version(self) -> int:
        version = super().required_version()
        return version if self.input.rank in (4, None) else max(version, 3)

    def infer(self) -> TensorType:
        shape, blocks = self.input.shape, static_int_vector(self.block_shape)
        name = self.operands[2].name  # paddings or crops
        require_dims(self, {"block_shape": "blocks", name: "blocks 2"})
        edges = static_int_vector(getattr(self, name))
        if shape is None or blocks is None or edges is None:
            return rearranged_type(self.input, unknown_dims(self.input.rank))
        pairs = edge_pairs(blocks, edges)
        if len(shape) <= len(blocks):
            axes = counted(len(blocks), "spatial axis", "spatial axes")
            raise ShapeError(f"input: expected a batch axis and {axes}, got shape {format_shape(shape)}")
        return rearranged_type(self.input, self.result_shape(shape, blocks, pairs))

    @abstractmethod
    def result_shape(self, shape: Shape, blocks: list[int], pairs: list[list[int]]) -> Shape:
        """Return the shape of the result.  ``pairs``: [before, after], the paddings or crops of each axis."""


def edge_pairs(blocks: list[int], edges: list[int]) -> list[list[int]]:
    """Return ``edges``, paddings or crops, as one pair [before, after] for each block size in ``blocks``.

    Raise ShapeError if a block size is below 1, an edge is below 0, or if there are not two edges per block
    size.
    """
    if any(b < 1 for b in blocks) or len(edges) != 2 * len(blocks) or any(e < 0 for e in edges):
        expected = "block sizes of 1 or more, and two paddings or crops of 0 or more for each"
        raise ShapeError(f"expected {expected}, got {blocks} and {edges}")
    return [edges[i : i + 2] for i in range(0, len(edges), 2)]


class SpaceToBatchND(BatchMove, code="SPACE_TO_BATCH_ND"):
    """Pads the spatial axes (``paddings`` [M,2]: before, after) and cuts them into blocks.

    The padding is 0, in data quantized in 8 or 16 bits the zero point.

    One batch element of the result has the elements of one image that are at the same position in their
    blocks.  Its index is position * N + image, where positions are counted row by row, and N is the number of
    images.  So the batch grows by the factor prod(block_shape).  The operator is not declared as
    ``data_movement``, because the elements of the padding are not elements of the input.
    """

    paddings = operand(i32)

    def result_shape(self, shape: Shape, blocks: list[int], pairs: list[list[int]]) -> Shape:
        spatial = []
        for dim, block, (before, after) in zip(shape[1:], blocks, pairs, strict=False):
            padded = None if dim is None else dim + before + after
            spatial.append(_divided("padded dimension", padded, block))
        return (_multiplied(shape[0], prod(blocks)), *spatial, *shape[1 + len(blocks) :])

    def kernel(self, input: Array, block_shape: Array, paddings: Array) -> Array:
        require_numpy_kind(self, input, NUMERIC_KINDS)
        blocks = int_list(block_shape)
        pairs, count = edge_pairs(blocks, int_list(paddings)), len(blocks)
        depth = [(0, 0)] * (input.ndim - 1 - count)
        data = np.pad(input, [(0, 0), *pairs, *depth], constant_values=padding_of(self.output))
        spatial = [n for dim, b in zip(data.shape[1:], blocks, strict=False) for n in (dim // b, b)]
        # the axes of ``split``: batch; for each spatial axis, block and position in the block; depth
        split = data.reshape(len(data), *spatial, *data.shape[1 + count :])
        tail = range(1 + 2 * count, split.ndim)
        moved = split.transpose(*range(2, 2 * count + 1, 2), 0, *range(1, 2 * count, 2), *tail)
        return np.asarray(moved.reshape(self.result_shape(input.shape, blocks, pairs)))


class BatchToSpaceND(BatchMove, code="BATCH_TO_SPACE_ND", data_movement=True):
    """Inverts SPACE_TO_BATCH_ND, then removes ``crops`` [M,2] (before, after) from the spatial axes."""

    crops = operand(i32)

    def result_shape(self, shape: Shape, blocks: list[int], pairs: list[list[int]]) -> Shape:
        spatial = []
        for dim, block, (before, after) in zip(shape[1:], blocks, pairs, strict=False):
            if dim is not None and dim * block < before + after:
                raise ShapeError(f"crops {before} and {after} exceed a dimension of {dim * block}")
            spatial.append(None if dim is None else dim * block - before - after)
        return (_divided("batch", shape[0], prod(blocks)), *spatial, *shape[1 + len(blocks) :])

    def kernel(self, input: Array, block_shape: Array, crops: Array) -> Array:
        blocks = int_list(block_shape)
        pairs, count = edge_pairs(blocks, int_list(crops)), len(blocks)
        self.result_shape(input.shape, blocks, pairs)  # raises ShapeError if batch or crops do not fit
        batch = input.shape[0] // prod(blocks)
        # the axes of ``split``: position in the block for each spatial axis; batch; spatial axes; depth
        split = input.reshape(*blocks, batch, *input.shape[1:])
        order = [axis for i in range(count) for axis in (count + 1 + i, i)]
        moved = split.transpose(count, *order, *range(2 * count + 1, split.ndim))
        spatial = [d * b for d, b in zip(input.shape[1:], blocks, strict=False)]
        whole = moved.reshape(batch, *spatial, *input.shape[1 + count :])
        kept = (slice(before, d - after) for d, (before, after) in zip(spatial, pairs, strict=True))
        index = (slice(None), *kept)
        return np.asarray(whole[index])
