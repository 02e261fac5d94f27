# SPDX-License-Identifier: Apache-2.0
"""A Slice after a transposed convolution, as a transposed convolution with another padding."""

from __future__ import annotations

from typing import Any

import numpy as np

from circlekit.ir.enums import Padding
from circlekit.ir.value import Array, Value
from circlekit.rewrite.match import Match
from circlekit.rewrite.rewrite import Rewrite, condition


def leading_pad(padding: Padding, output: int, kernel: int, stride: int) -> int:
    """How many rows of the full result TRANSPOSE_CONV leaves out before the first it returns.

    Source: TFLite's ComputePaddingHeightWidth, on the forward convolution's window arithmetic.
    """
    steps = forward_size(padding, output, kernel, stride)
    return max(0, ((steps - 1) * stride + kernel - output) // 2)


def forward_size(padding: Padding, output: int, kernel: int, stride: int) -> int:
    """The number of windows that a convolution with this padding has over ``output`` rows."""
    window = kernel if padding is Padding.VALID else 1
    return (output + stride - window) // stride


class FuseSliceWithTransposeConv(Rewrite):
    """slice(tconv(x, w, VALID or SAME))  ==  tconv(x, w', the padding that leaves out the same)."""

    name = "fuse_slice_with_tconv"

    before = """
        y = TransposeConv(shape: const i32[4], w: const f32[O, KH, KW, _], x: f32[_, H, W, _],
                          b?: const f32[*, O])
            {padding: any = padding, stride_h: any = stride_h, stride_w: any = stride_w}
        z = Slice(y, begin: const, size: const)
    """
    after = """
        z = TransposeConv(shape2, w2, x, b2)  {like y, padding: padding2}
    """

    @condition
    def one_padding_fits(self, match: Match, shape: Array, begin: Array, size: Array) -> str | None:
        at, out = _extent(shape, begin, size)
        if any(b < 0 or n < 0 or b + n > full for b, n, full in zip(at, out, shape, strict=True)):
            return f"%{match.value('z').name}: begin {at} and size {out} leave {shape.tolist()}"
        if at[0] != 0 or out[0] != shape[0]:
            return f"%{match.value('z').name}: cuts the batch"
        if _padding(match, at, out) is None:
            return (
                f"%{match.value('z').name}: neither SAME nor VALID padding starts at {at[1:3]} for {out[1:3]}"
            )
        return None

    def constants(
        self, match: Match, shape: Array, begin: Array, size: Array, b: Array | None
    ) -> dict[str, Any]:
        at, out = _extent(shape, begin, size)
        return {
            "shape2": np.asarray(out, np.int32),
            "w2": _channels(match.value("w"), at[3], out[3]),
            "b2": None if b is None else b.reshape(-1)[at[3] : at[3] + out[3]],
            "padding2": _padding(match, at, out),
        }


def _extent(shape: Array, begin: Array, size: Array) -> tuple[list[int], list[int]]:
    """Begin and size of the slice, with -1 ("to the end") resolved."""
    at = [int(b) for b in begin]
    out = [int(n) if n != -1 else int(full) - b for n, full, b in zip(size, shape, at, strict=True)]
    return at, out


def _padding(match: Match, at: list[int], out: list[int]) -> Padding | None:
    """The padding with which the smaller output starts where the slice does, on both axes; or None."""
    old, shape = match.attributes["padding"], match.value("shape").array()
    for new in (Padding.SAME, Padding.VALID):
        if all(
            leading_pad(new, out[axis], kernel, stride)
            == at[axis] + leading_pad(old, int(shape[axis]), kernel, stride)
            and _suits(new, old, out[axis], kernel, stride, rows)
            for axis, kernel, stride, rows in (
                (1, match.dims["KH"], match.attributes["stride_h"], match.dims["H"]),
                (2, match.dims["KW"], match.attributes["stride_w"], match.dims["W"]),
            )
        ):
            return new
    return None


def _suits(new: Padding, old: Padding, out: int, kernel: int, stride: int, rows: int) -> bool:
    """Whether an output of ``out`` belongs to an input of ``rows``.

    Exactly, or, where all of a VALID result was sliced, so that every row of the input still reaches the
    output.  LiteRT wants it exactly, so writing TFLite undoes the second kind (legal/fit_tconv).
    """
    if forward_size(new, out, kernel, stride) == rows:
        return True
    return old is Padding.VALID and (rows - 1) * stride < out + leading_pad(new, out, kernel, stride)


def _channels(value: Value, begin: int, size: int) -> Value | Array:
    """The output channels of a filter that are left; itself where all of them are."""
    return value if begin == 0 and size == value.static_shape[0] else value.array()[begin : begin + size]
