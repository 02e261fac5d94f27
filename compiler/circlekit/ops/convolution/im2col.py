# SPDX-License-Identifier: Apache-2.0
"""Convolutions as matrix products, in blocks of results, so that scratch memory stays small for any layer."""

from __future__ import annotations

import numpy as np

from circlekit.ir.tape import Need, Tape, Turns
from circlekit.ir.value import Array
from circlekit.ops.convolution.strips import Ends, Pair, Strips, Taps, block_steps, is_inside, patches
from circlekit.ops.convolution.weights import Weights, bytes_of
from circlekit.ops.numerics.stores import LARGE, Writer
from circlekit.ops.windows import Window

BLOCK_BYTES = 1 << 18
"""Scratch of one block of results: it stays in the cache."""


def convolve(
    tape: Tape,
    x: Array,
    filter: Array,
    strides: Pair,
    dilations: Pair,
    windows: tuple[Window, Window],
    ends: Ends | None = None,
    out: Array | None = None,
) -> Array:
    """Correlate x [N,H,W,I] with filter [O,KH,KW,I / groups]: [N,OH,OW,O], into ``out`` where it is given."""
    rows, cols = windows
    if out is None:
        out = tape.empty((x.shape[0], rows.size, cols.size, len(filter)), ends.dtype if ends else x.dtype)
    groups = x.shape[3] // filter.shape[3]
    whole = out.shape[1:3] == x.shape[1:3] and rows.before == cols.before == 0 and out.flags.c_contiguous
    if filter.shape[1:3] == strides == (1, 1) and groups == 1 and whole:
        data = tape.reshaped(x, (-1, x.shape[3]))
        multiply_rows(
            tape, data, tape.reshaped(filter, (len(filter), -1)), ends, out.reshape(-1, len(filter))
        )
        return out
    taps = Taps((filter.shape[1], filter.shape[2]), strides, dilations, windows)
    made = Convolution(tape, x, filter, taps, ends, out)
    tape.work(made.run, *made.needs)
    return out


class Convolution:
    """Blocks of results: what they read side by side in rows, times the weights."""

    __slots__ = ("groups", "needs", "out", "strips", "taps", "weights", "writer", "x")

    def __init__(
        self, tape: Tape, x: Array, filter: Array, taps: Taps, ends: Ends | None, out: Array
    ) -> None:
        dtype = x.dtype if ends is None else ends.floats
        self.x, self.out, self.taps = x, out, taps
        self.groups = x.shape[3] // filter.shape[3]
        units, length = len(filter), taps.size[0] * taps.size[1] * x.shape[3]
        zeros = ends.weights if ends else None
        room = tape.scratch if self.groups == 1 else LARGE
        self.weights = Weights(tape, filter, dtype, zeros, out.size // max(units, 1), room)
        left = tape.scratch - self.weights.bytes
        apart = ends is not None or not out.flags.c_contiguous
        each = (length + units * (apart + (self.groups > 1))) * dtype.itemsize
        direct = ends is None and is_inside(x.shape[1:3], taps)
        column = 0 if direct else x.shape[3] * dtype.itemsize
        steps = block_steps(taps, each, column, min(BLOCK_BYTES, left))
        self.strips = Strips(x, taps, ends, steps)
        count = steps[0] * steps[1]
        sums: Need = (count * units,), dtype
        work = [self.strips.need, ((count * length,), dtype), sums if self.groups > 1 else None]
        left -= bytes_of([*work, sums])
        self.writer = writer_of(tape, ends, out, bytes_of(work), left)
        self.needs = [
            sums if apart else None,
            self.weights.need,
            Turns(work, self.writer.needs if self.writer else ()),
            *(self.writer.held if self.writer else ()),
        ]

    def run(
        self,
        sums: Array | None,
        floats: Array | None,
        strip: Array | None,
        rows: Array,
        products: Array | None,
        *memory: Array,
    ) -> None:
        writer = self.writer
        self.weights.begin(floats)
        if writer is not None:
            writer.begin(*memory)
        for image, result in zip(self.x, self.out, strict=True):
            for block in self.strips.blocks():
                target, (high, wide) = result[block.place], block.size
                data = patches(self.strips.load(image, block, strip), self.taps, block.size)
                made = target if sums is None else sums[: target.size].reshape(target.shape)
                if products is None:
                    lines = rows[: data.size].reshape(high * wide, -1)
                    lines.reshape(data.shape)[...] = data
                    self.weights.product(lines, made.reshape(high * wide, -1), floats)
                else:
                    self._by_groups(data, rows, products, made)
                if writer is not None:
                    writer(made, target)
                elif sums is not None:
                    target[...] = made

    def _by_groups(self, data: Array, rows: Array, products: Array, made: Array) -> None:
        """Patches [R,OW,KH,KW,I] times the weights of each group, into made [R,OW,O], which has no gaps."""
        groups, weights = self.groups, self.weights.whole()
        split = data.reshape(*data.shape[:4], groups, -1).transpose(4, 0, 1, 2, 3, 5)
        parts = rows[: data.size].reshape(split.shape)
        parts[...] = split
        count = made.shape[0] * made.shape[1]
        product = products[: made.size].reshape(groups, count, -1)
        filters = weights.reshape(groups, -1, weights.shape[1]).transpose(0, 2, 1)
        np.matmul(parts.reshape(groups, count, -1), filters, product)
        made.reshape(count, groups, -1)[...] = product.transpose(1, 0, 2)


def writer_of(tape: Tape, ends: Ends | None, out: Array, free: int, left: int) -> Writer | None:
    """Of results ``out``: it can work in ``free`` bytes, and take ``left`` more."""
    if ends is None:
        return None
    each = min(max(left, 0) // 2, LARGE)
    writer = ends.end.writer(out.size, out.shape[-1], max(free, each), each)
    tape.holds(*writer.vectors)
    return writer


def multiply_rows(tape: Tape, x: Array, weights: Array, ends: Ends | None, out: Array) -> None:
    """Rows x [R,I] times the transpose of weights [O,I], into out [R,O], which has no gaps."""
    if ends is None:
        tape.do(x.dot, weights.T, out)
        return
    floats = Weights(tape, weights, ends.floats, ends.weights, len(x), tape.scratch)
    left = tape.scratch - floats.bytes
    each = max(sum(weights.shape) * ends.floats.itemsize, 1)
    step = min(max(1, min(BLOCK_BYTES, left) // each), max(len(x), 1))
    data, sums = (((step, n), ends.floats) for n in (weights.shape[1], len(weights)))
    writer = writer_of(tape, ends, out, bytes_of([data]), left - bytes_of([data, sums]))
    assert writer is not None  # there are ends

    def run(sums: Array, memory: Array | None, data: Array, *own: Array) -> None:
        floats.begin(memory)
        writer.begin(*own)
        for top in range(0, len(x), step):
            part, target = x[top : top + step], out[top : top + step]
            rows, made = data[: len(part)], sums[: len(part)]
            ends.load(part, rows)
            floats.product(rows, made, memory)
            writer(made, target)

    tape.work(run, sums, floats.need, Turns([data], writer.needs), *writer.held)


def convolve_transposed(
    tape: Tape, x: Array, filter: Array, strides: Pair, before: Pair, out: Array, ends: Ends | None = None
) -> None:
    """Spread x [N,H,W,I] by filter [O,KH,KW,I] over out [N,OH,OW,O]; what falls outside is dropped.

    Element (y, x) goes through tap (i, j) to (y * stride_h - before_h + i, x * stride_w - before_w + j).
    The taps that meet in the outputs of one remainder modulo the strides are a convolution with stride 1.
    """
    for phase in np.ndindex(min(strides[0], out.shape[1]), min(strides[1], out.shape[2])):
        place = out[:, phase[0] :: strides[0], phase[1] :: strides[1]]
        start = [phase[a] + before[a] for a in (0, 1)]
        taps = filter[:, start[0] % strides[0] :: strides[0], start[1] % strides[1] :: strides[1]]
        if place.size == 0:
            continue
        if taps.size == 0:
            tape.do(place.__setitem__, Ellipsis, _of_no_taps(ends, place))
            continue
        rows, cols = (
            Window(place.shape[1 + a], taps.shape[1 + a] - 1 - start[a] // strides[a], 0) for a in (0, 1)
        )
        convolve(tape, x, taps[:, ::-1, ::-1], (1, 1), (1, 1), (rows, cols), ends, place)


def _of_no_taps(ends: Ends | None, place: Array) -> Array:
    """What results without taps are: [1,O]."""
    out: Array = np.zeros((1, place.shape[-1]), place.dtype)
    if ends is not None:
        ends.end(np.zeros(out.shape), out)
    return out
