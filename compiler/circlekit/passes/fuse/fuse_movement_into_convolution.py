# SPDX-License-Identifier: Apache-2.0
"""Merge data movement that follows a convolution into the filter: a slice, or a pixel shuffle."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from circlekit.ir.enums import Padding
from circlekit.ir.value import Array, Value, format_shape
from circlekit.ops.constant_operands import int_list
from circlekit.ops.dimensions import known_dims
from circlekit.ops.movement.slice import StridedSlice
from circlekit.passes.support.transpose_conv_padding import forward_size, leading_pad
from circlekit.rewrite.match import Match
from circlekit.rewrite.rewrite import Rewrite, Rules, condition


class _Sliced(Rewrite):
    """slice(tconv(x, w))  ==  tconv(x, sliced output channels of w), for one of the slicing operators.

    ``$slice``: the operator.
    """

    # O, KH, KW: output channels, height and width of the filter; H, W: of the input x

    before = """
        y = TransposeConv(shape: const i32[4], w: const f32[O, KH, KW, _], x: f32[_, H, W, _],
                          b?: const f32[*, O])
            {padding: any = padding, stride_h: any = stride_h, stride_w: any = stride_w}
        z = $slice
    """
    after = "z = TransposeConv(shape2, w2, x, b2)  {like y, padding: padding2}"

    @condition
    def one_padding_fits(self, match: Match, shape: Array) -> str | None:
        first, out = slice_bounds(match, int_list(shape))
        if first[0] != 0 or out[0] != shape[0]:
            return f"%{match.value('z').name}: slices the batch"
        if 0 in out:
            return f"%{match.value('z').name}: expected elements, got shape {format_shape(tuple(out))}"
        if _padding(match, first, out) is None:
            window = f"{out[1:3]} rows and columns from {first[1:3]} on"
            return f"%{match.value('z').name}: neither SAME nor VALID padding gives {window}"
        return None

    def constants(self, match: Match, b: Array | None) -> dict[str, Any]:
        first, out = slice_bounds(match, int_list(match.value("shape").array()))
        w = match.value("w")
        return {
            "shape2": np.asarray(out, np.int32),
            "w2": w if out[3] == w.static_shape[0] else w.array()[first[3] : first[3] + out[3]],
            "b2": None if b is None else b.reshape(-1)[first[3] : first[3] + out[3]],
            "padding2": _padding(match, first, out),
        }


SLICE = "Slice(y, begin: const, size: const)"
STRIDED_SLICE = (
    "StridedSlice(y, begin: const, end: const, strides: const) "
    "{begin_mask: any, end_mask: any, ellipsis_mask: any, offset: any}"
)
"""The two slicing operators in a picture, with the names that ``slice_bounds`` reads; no axis is dropped."""


class _Strided(_Sliced, slice=STRIDED_SLICE):
    """The same for a StridedSlice that takes every element in its range."""

    @condition
    def skips_nothing(self, z: Value, strides: Array) -> str | None:
        if (strides == 1).all():
            return None
        return f"%{z.name}: expected strides of 1, got {strides.tolist()}"


class FuseSliceWithTransposeConv(Rules):
    """slice(tconv(x, w))  ==  tconv(x, sliced output channels of w).

    SAME or VALID padding must omit the rows and columns that the slice drops.
    """

    name = "fuse_slice_with_tconv"
    rules = (_Sliced.member(slice=SLICE), _Strided)


def slice_bounds(match: Match, full: Sequence[int]) -> tuple[list[int], list[int]]:
    """Return for each axis the first index that the slice ``z`` takes, and how many it takes.

    ``z`` is a Slice with the constants ``begin`` and ``size``, or a StridedSlice with ``begin``, ``end`` and
    ``strides``.  ``full``: the shape of its operand.
    """
    op = match.ops["z"]
    if isinstance(op, StridedSlice):
        begin, end, strides = (int_list(match.value(name).array()) for name in ("begin", "end", "strides"))
        taken = op.axis_ranges(begin, end, strides, full)
        return [indices.start for indices in taken], [len(indices) for indices in taken]
    first, size = (int_list(match.value(name).array()) for name in ("begin", "size"))
    # a size of -1 means the rest
    return first, [n if n != -1 else whole - b for n, whole, b in zip(size, full, first, strict=True)]


def _padding(match: Match, first: list[int], out: list[int]) -> Padding | None:
    """Return the padding (SAME or VALID) that gives the slice of size ``out`` from ``first`` on, or None."""
    old, shape = match.attributes["padding"], match.value("shape").array()
    sides = (  # rows, then columns: axis of the result, size of the filter, stride, size of the input
        (1, match.dims["KH"], match.attributes["stride_h"], match.dims["H"]),
        (2, match.dims["KW"], match.attributes["stride_w"], match.dims["W"]),
    )
    for new in (Padding.SAME, Padding.VALID):
        if all(
            leading_pad(new, out[axis], kernel, stride)
            == first[axis] + leading_pad(old, int(shape[axis]), kernel, stride)
            and _is_possible(new, old, out[axis], kernel, stride, rows)
            for axis, kernel, stride, rows in sides
        ):
            return new
    return None


def _is_possible(new: Padding, old: Padding, out: int, kernel: int, stride: int, rows: int) -> bool:
    """Return whether a TRANSPOSE_CONV from ``rows`` to ``out`` rows with padding ``new`` is possible.

    It is possible if ``forward_size`` gives ``rows``, or if the padding ``old`` is VALID and every input row
    still reaches the output.  LiteRT accepts only the first case; in the second case, the legalization
    FitTransposeConv inserts a slice again when the model is written for LiteRT.
    """
    if forward_size(new, out, kernel, stride) == rows:
        return True
    return old is Padding.VALID and (rows - 1) * stride < out + leading_pad(new, out, kernel, stride)


class FusePixelShuffle(Rewrite):
    """pixel_shuffle(conv(x, w))  ==  depth_to_space(conv(x, w with permuted output channels)).

    Element (i, j) of a block of channel c comes from channel (c, i, j) in PyTorch, but from (i, j, c) in
    DEPTH_TO_SPACE.  The result stays NCHW, as in PyTorch, so one Transpose remains.  The filter must have all
    I channels of x: in a grouped convolution, the permutation could move an output channel to another group.
    """

    name = "fuse_pixel_shuffle"

    before = """
        c = Conv2D(x: f32[_, _, _, I], w: const f32[O, _, _, I], b?: const f32[*, O])
        t = Transpose(c, first: const)
        r = Reshape(t, blocks?)         {new_shape: any}
        u = Transpose(r, second: const)
        z = Reshape(u, shape?)          {new_shape: any}
    """
    after = """
        k = Conv2D(x, w2, b2)           {like c}
        d = DepthToSpace(k)             {block_size: block}
        z = Transpose(d, [0, 3, 1, 2])
    """

    @condition
    def expected_perms(self, match: Match, first: Array, second: Array) -> str | None:
        for name, perm, expected in (("t", first, [0, 3, 1, 2]), ("u", second, [0, 1, 4, 2, 5, 3])):
            axes = [int(axis) % perm.size for axis in perm]
            if axes != expected:
                return f"%{match.value(name).name}: expected perm {expected}, got {axes}"
        return None

    @condition
    def expected_shapes(self, t: Value, r: Value, z: Value, O: int) -> str | None:
        """The first Reshape splits the channels into square blocks; the last one joins these to an image."""
        image, split = t.shape or (), r.shape or ()
        sizes = tuple(size for size in split[1:] if size is not None)
        if len(sizes) == 5:
            channels, block, block_width, height, width = sizes
            if block == block_width > 1 and channels * block * block == O and (height, width) == image[2:]:
                expected = (split[0], channels, height * block, width * block)
                if z.shape == expected:
                    return None
                return f"%{z.name}: expected shape {format_shape(expected)}, got {format_shape(z.shape)}"
        return f"%{r.name}: expected square blocks of each channel, got shape {format_shape(r.shape)}"

    def constants(self, w: Array, b: Array | None, r: Value, O: int) -> dict[str, Any]:
        block, *_ = known_dims(r.known_shape[-3:])
        # for each new channel (i, j, c), the number of the old one, (c, i, j)
        order = np.arange(O).reshape(-1, block * block).T.reshape(-1)
        bias = None if b is None else np.ascontiguousarray(b.reshape(-1)[order])
        return {"w2": np.ascontiguousarray(w[order]), "b2": bias, "block": block}
