# SPDX-License-Identifier: Apache-2.0
"""Sliding windows without weights, over NHWC data."""

from __future__ import annotations

from typing import Any

import numpy as np

from circlekit.errors import ShapeError
from circlekit.ir.dtypes import bf16, f16, f32, f64, i8, i16, u8
from circlekit.ir.enums import Activation, Padding
from circlekit.ir.op import Op, attribute, operand
from circlekit.ir.tape import Need, Tape
from circlekit.ir.value import Array, TensorType
from circlekit.ops.checks import require_float, require_rank
from circlekit.ops.common import clip, write_fused
from circlekit.ops.convolution.im2col import BLOCK_BYTES
from circlekit.ops.convolution.strips import Loader, Strips, Taps, block_steps
from circlekit.ops.numerics.fixed_point import quantized_activation_range
from circlekit.ops.versions import version_by_dtype
from circlekit.ops.windows import Window, conv_padding, window_size

INTEGERS = (i8, u8, i16)
DATA = (f32, i8, u8, i16, f16, bf16, f64)


class _Pool2D(Op):
    """What the pools share: their attributes and their shape rule."""

    input = operand(*DATA)

    padding: Padding = attribute(Padding.SAME)
    stride_w: int = attribute(1)
    stride_h: int = attribute(1)
    filter_width: int = attribute(1)
    filter_height: int = attribute(1)
    act: Activation = attribute(Activation.NONE, "fused_activation_function")
    fuses_activation = True

    def infer(self) -> TensorType:
        n, h, w, depth = require_rank(self.input, "input", 4) or (None,) * 4
        if self.filter_height < 1 or self.filter_width < 1:
            raise ShapeError(
                f"filter is {self.filter_height} x {self.filter_width}, at least 1 x 1 is wanted"
            )
        high = window_size(h, self.filter_height, self.stride_h, 1, self.padding)
        wide = window_size(w, self.filter_width, self.stride_w, 1, self.padding)
        return TensorType(self.input.dtype, (n, high, wide, depth))

    def _windows(self, input: Array) -> tuple[Window, Window]:
        return (
            conv_padding(input.shape[1], self.filter_height, self.stride_h, 1, self.padding),
            conv_padding(input.shape[2], self.filter_width, self.stride_w, 1, self.padding),
        )

    def _reduce(self, tape: Tape, input: Array, combine: np.ufunc, fill: float) -> Array:
        """``combine`` over each window of every image, ``fill`` where it leaves the image."""
        rows, cols = self._windows(input)
        high = (rows.size - 1) * self.stride_h + self.filter_height
        wide = (cols.size - 1) * self.stride_w + self.filter_width
        part = input[:, : high - rows.before, : wide - cols.before]
        if part.shape[1:3] != (high, wide):
            whole = tape.empty((len(input), high, wide, input.shape[3]), input.dtype)
            tape.do(whole.fill, fill)
            place = whole[:, rows.before :, cols.before :]
            tape.copy(part, place[:, : part.shape[1], : part.shape[2]])
            part = whole
        lines = _slide(tape, part, 1, self.filter_height, self.stride_h, combine)
        return _slide(tape, lines, 2, self.filter_width, self.stride_w, combine)

    def _mean(self, tape: Tape, input: Array) -> Array:
        """The mean over each window, of the elements inside of the image."""
        total = self._reduce(tape, input, np.add, 0)
        tape.do(np.divide, total, self._counts(input).astype(total.dtype), total)
        return total

    def _counts(self, input: Array) -> Array:
        """How many elements of each window lie inside of the image: [OH,OW,1]."""
        rows, cols = self._windows(input)
        high = _inside(rows, input.shape[1], self.filter_height, self.stride_h)
        wide = _inside(cols, input.shape[2], self.filter_width, self.stride_w)
        counts: Array = (high[:, None] * wide)[..., None]
        return counts

    def required_version(self) -> int:
        return version_by_dtype(self.input, {i16: 3, i8: 2})


def _slide(tape: Tape, x: Array, axis: int, taps: int, stride: int, combine: np.ufunc) -> Array:
    """``combine`` of ``taps`` elements along ``axis`` of x, every ``stride`` elements."""
    last = x.shape[axis] - taps + 1
    if last == 1 and taps > 2:
        whole = tape.empty((*x.shape[:axis], 1, *x.shape[axis + 1 :]), x.dtype)
        tape.do(combine.reduce, x, axis, None, whole, True)
        return whole
    parts = [x[(slice(None),) * axis + (slice(i, i + last, stride),)] for i in range(taps)]
    out = tape.empty(parts[0].shape, x.dtype)
    if taps == 1:
        tape.copy(parts[0], out)
        return out
    tape.do(combine, parts[0], parts[1], out=out)
    for part in parts[2:]:
        tape.do(combine, out, part, out=out)
    return out


def _inside(window: Window, size: int, taps: int, stride: int) -> Array:
    """How many elements of each window lie in 0..size."""
    first = np.arange(window.size) * stride - window.before
    return np.minimum(first + taps, size) - np.maximum(first, 0)


class AveragePool2D(_Pool2D, code="AVERAGE_POOL_2D", options="Pool2DOptions"):
    """Mean over each window; padding does not count.  Integers: rounded, halves away from zero.

    Source: TFLite pooling.
    """

    def bind(self, tape: Tape, input: Array) -> Array:
        if self.input.dtype in INTEGERS:
            return self._rounded(tape, input)
        require_float(self, input)
        out = self._mean(tape, input)
        write_fused(tape, out, self.act, tape.reach(input))
        return out

    def _rounded(self, tape: Tape, input: Array) -> Array:
        """The mean of integers, in floats whose quotients are whole only if they should be."""
        rows, cols = self._windows(input)
        out = tape.empty((len(input), rows.size, cols.size, input.shape[3]), input.dtype)
        if out.size == 0:
            return out
        size = self.filter_height, self.filter_width
        exact = np.dtype(np.float32 if size[0] * size[1] << (8 * input.itemsize) < 1 << 22 else np.float64)
        counts = self._counts(input).astype(exact)
        limits = quantized_activation_range(self.act, self.output)
        if input.shape[1:3] == size and counts.size == 1:

            def whole(total: Array, sign: Array) -> None:
                np.add.reduce(input, (1, 2), exact, total, keepdims=True)
                _divide(total, counts, sign, limits, out)

            tape.work(whole, (out.shape, exact), (out.shape, exact))
            return out
        taps = Taps(size, (self.stride_h, self.stride_w), (1, 1), (rows, cols))
        made = _Mean(tape, input, taps, exact, counts, limits, out)
        tape.work(made.run, *made.needs)
        return out


class _Mean:
    """Means of integers, a block of results at a time; ``counts`` [OH,OW,1]: of how many elements."""

    __slots__ = ("counts", "limits", "needs", "out", "strips", "taps", "x")

    def __init__(
        self,
        tape: Tape,
        x: Array,
        taps: Taps,
        exact: np.dtype[Any],
        counts: Array,
        limits: tuple[int, int],
        out: Array,
    ) -> None:
        self.x, self.taps, self.counts, self.limits, self.out = x, taps, counts, limits, out
        depth, item = x.shape[3], exact.itemsize
        # of a strip, its sums along the height take as much once more, at the most
        steps = block_steps(taps, 2 * depth * item, 2 * depth * item, min(BLOCK_BYTES, tape.scratch))
        self.strips = Strips(x, taps, Loader(exact, 0, 0), steps)
        lines: Need = (steps[0] * taps.extent(1, steps[1]) * depth,), exact
        total: Need = (steps[0] * steps[1] * depth,), exact
        self.needs = [self.strips.need, lines, total, total]

    def run(self, strip: Array, lines: Array, total: Array, sign: Array) -> None:
        (taps_h, taps_w), (stride_h, stride_w) = self.taps.size, self.taps.strides
        for image, result in zip(self.x, self.out, strict=True):
            for block in self.strips.blocks():
                data, (high, wide) = self.strips.load(image, block, strip), block.size
                line = lines[: high * data[0].size].reshape(high, *data.shape[1:])
                _add([data[i : i + (high - 1) * stride_h + 1 : stride_h] for i in range(taps_h)], line)
                sums = total[: high * wide * data.shape[2]].reshape(high, wide, -1)
                _add([line[:, i : i + (wide - 1) * stride_w + 1 : stride_w] for i in range(taps_w)], sums)
                memory = sign[: sums.size].reshape(sums.shape)
                _divide(sums, self.counts[block.place], memory, self.limits, result[block.place])


def _add(parts: list[Array], out: Array) -> None:
    if len(parts) == 1:
        out[...] = parts[0]
        return
    np.add(parts[0], parts[1], out)
    for part in parts[2:]:
        np.add(out, part, out)


def _divide(sums: Array, counts: Array, sign: Array, limits: tuple[int, int], out: Array) -> None:
    """Put whole ``sums`` / ``counts``, rounded, halves away from zero, into ``out``."""
    real = sums.dtype.type
    clip(sums, real(-1), real(1), sign)
    np.multiply(sign, np.floor(counts / 2), sign)
    np.add(sums, sign, sums)
    np.divide(sums, counts, sums)
    np.trunc(sums, sums)
    clip(sums, *(real(n) for n in limits), sums)
    out[...] = sums


class MaxPool2D(_Pool2D, code="MAX_POOL_2D", options="Pool2DOptions"):
    """Largest element of each window; NaN counts as none, as in LiteRT.  Source: TFLite pooling."""

    def bind(self, tape: Tape, input: Array) -> Array:
        if self.input.dtype in INTEGERS:
            out = self._reduce(tape, input, np.maximum, np.iinfo(input.dtype).min)
            limits = (np.asarray(n, input.dtype) for n in quantized_activation_range(self.act, self.output))
            tape.do(clip, out, *limits, out)
            return out
        require_float(self, input)
        least = np.asarray(np.finfo(input.dtype).min, input.dtype)
        out = self._reduce(tape, input, np.fmax, float(least))
        tape.do(np.fmax, out, least, out=out)
        write_fused(tape, out, self.act, tape.reach(input))
        return out


class L2Pool2D(_Pool2D, code="L2_POOL_2D", options="Pool2DOptions"):
    """Root of the mean square over each window; padding does not count.  Source: TFLite pooling."""

    def bind(self, tape: Tape, input: Array) -> Array:
        require_float(self, input)
        square = tape.empty(input.shape, input.dtype)
        tape.do(np.square, input, square)
        out = self._mean(tape, square)
        tape.do(np.sqrt, out, out)
        write_fused(tape, out, self.act)
        return out

    def required_version(self) -> int:
        return 1
