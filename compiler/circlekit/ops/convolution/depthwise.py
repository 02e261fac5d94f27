# SPDX-License-Identifier: Apache-2.0
"""Convolutions of each channel by itself: filter taps pass over blocks of rows that stay in the cache."""

from __future__ import annotations

from math import gcd

import numpy as np

from circlekit.ir.tape import Need, Tape, Turns
from circlekit.ir.value import Array
from circlekit.ops.convolution.im2col import writer_of
from circlekit.ops.convolution.strips import Ends, Pair, Strips, Taps, block_steps, is_inside
from circlekit.ops.convolution.weights import bytes_of
from circlekit.ops.windows import Window

BLOCK_BYTES = 1 << 18
"""Scratch of a block of results: it stays in the cache while all filter taps pass over it."""

RUN = 1 << 11
"""Elements of a row that are multiplied at a time, with as many taps."""


def convolve_depthwise(
    tape: Tape,
    x: Array,
    filter: Array,
    strides: Pair,
    dilations: Pair,
    windows: tuple[Window, Window],
    ends: Ends | None = None,
) -> Array:
    """Each channel of x [N,H,W,I] with its own M filters of [1,KH,KW,I * M]: [N,OH,OW,I * M]."""
    rows, cols = windows
    out = tape.empty((x.shape[0], rows.size, cols.size, filter.shape[3]), ends.dtype if ends else x.dtype)
    taps = Taps((filter.shape[1], filter.shape[2]), strides, dilations, windows)
    made = Depthwise(tape, x, filter, taps, ends, out)
    tape.work(made.run, *made.needs)
    return out


class Depthwise:
    """Blocks of results; the taps of all channels are repeated for ``columns`` results in a row.

    ``phases``: the remainders of columns modulo the stride that taps meet, where that is not 1.
    """

    __slots__ = (
        "columns",
        "depth",
        "filter",
        "needs",
        "out",
        "phases",
        "strips",
        "taps",
        "writer",
        "x",
        "zeros",
    )

    def __init__(
        self, tape: Tape, x: Array, filter: Array, taps: Taps, ends: Ends | None, out: Array
    ) -> None:
        dtype = x.dtype if ends is None else ends.floats
        zeros = None if ends is None else ends.weights
        self.zeros = None if zeros is None or not zeros.any() else zeros.astype(dtype)
        self.x, self.filter, self.out, self.taps = x, filter, out, taps
        self.depth, item = filter.shape[3], dtype.itemsize
        stride, multiplied = taps.strides[1], self.depth != x.shape[3]
        met = {column * taps.dilations[1] % stride for column in range(taps.size[1])}
        self.phases = sorted(met) if stride > 1 else []
        count = taps.size[0] * taps.size[1] * item
        run = max(1, min(RUN, tape.scratch // 4 // max(count, 1)) // max(self.depth, 1))
        left = tape.scratch - count * run * self.depth
        each = self.depth * item * (1 if ends is None else 2)
        direct = ends is None and is_inside(x.shape[1:3], taps)
        column = item * (x.shape[3] * (not direct) + self.depth * (multiplied + bool(self.phases)))
        steps = block_steps(taps, each, column, min(BLOCK_BYTES, left))
        common = gcd(steps[1], taps.windows[1].size % steps[1] or steps[1])
        self.columns = max(n for n in range(1, min(common, run) + 1) if common % n == 0)
        self.strips = Strips(x, taps, ends, steps)
        high, wide = (taps.extent(a, n) for a, n in enumerate(steps))
        sums: Need = (steps[0] * steps[1] * self.depth,), dtype
        lane: Need = (high * -(-wide // stride) * self.depth,), dtype
        work = [
            self.strips.need,
            ((high * wide * self.depth,), dtype) if multiplied else None,
            sums,
            *([lane] * len(self.phases)),
        ]
        self.writer = writer_of(tape, ends, out, bytes_of(work), left - bytes_of([*work, sums]))
        as_is = self.columns == 1 and filter.dtype == dtype and self.zeros is None
        self.needs = [
            sums if self.writer else None,
            None if as_is else ((*taps.size, self.columns * self.depth), dtype),
            Turns(work, self.writer.needs if self.writer else ()),
            *(self.writer.held if self.writer else ()),
        ]

    def run(
        self,
        sums: Array | None,
        taps: Array | None,
        strip: Array | None,
        wide: Array | None,
        term: Array,
        *memory: Array,
    ) -> None:
        count = len(self.phases)
        lanes, writer, weights = memory[:count], self.writer, self._spread(taps)
        if writer is not None:
            writer.begin(*memory[count:])
        for image, result in zip(self.x, self.out, strict=True):
            for block in self.strips.blocks():
                target = result[block.place]
                data = self.strips.load(image, block, strip)
                if wide is not None:
                    more = wide[: data.size // data.shape[2] * self.depth]
                    more.reshape(*data.shape, -1)[...] = data[..., None]
                    data = more.reshape(*data.shape[:2], self.depth)
                made = target if sums is None else sums[: target.size].reshape(target.shape)
                rows = made.reshape(block.size[0], -1)
                self._add_taps(self._sorted(data, lanes), weights, rows, term[: rows.size])
                if writer is not None:
                    writer(made, target)

    def _spread(self, memory: Array | None) -> Array:
        """The taps [KH,KW,n * C]."""
        filter: Array = self.filter[0]
        if memory is None:
            return filter
        places = memory.reshape(*memory.shape[:2], self.columns, self.depth)
        places[...] = filter[:, :, None]
        if self.zeros is not None:
            np.subtract(places, self.zeros, places)
        return memory

    def _sorted(self, strip: Array, memory: tuple[Array, ...]) -> dict[int, Array]:
        """The columns of a strip [R',W',C] by their remainder modulo the stride: each [R',W'' * C].

        Each tap is then one contiguous run.
        """
        if not self.phases:
            return {0: strip.reshape(len(strip), -1)}
        lanes = {}
        for phase, place in zip(self.phases, memory, strict=True):
            part = strip[:, phase :: self.taps.strides[1]]
            lane = place[: part.size].reshape(part.shape)
            lane[...] = part
            lanes[phase] = lane.reshape(len(part), -1)
        return lanes

    def _add_taps(self, lanes: dict[int, Array], weights: Array, sums: Array, term: Array) -> None:
        """Sum of taps [KH,KW,n * C], the same for every n columns, into sums [R,OW * C]."""
        count, width = sums.shape
        sums = sums.reshape(count, -1, weights.shape[2])
        term = term.reshape(sums.shape)
        strides, dilations = self.taps.strides, self.taps.dilations
        for y in range(weights.shape[0]):
            top = y * dilations[0]
            for x in range(weights.shape[1]):
                skip, lane = divmod(x * dilations[1], strides[1])
                run = lanes[lane][top : top + (count - 1) * strides[0] + 1 : strides[0]]
                part = run[:, skip * self.depth : skip * self.depth + width].reshape(sums.shape)
                if x == y == 0:
                    np.multiply(part, weights[y, x], sums)
                else:
                    np.multiply(part, weights[y, x], term)
                    np.add(sums, term, sums)
