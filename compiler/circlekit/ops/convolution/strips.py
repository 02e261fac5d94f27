# SPDX-License-Identifier: Apache-2.0
"""The parts of images that blocks of results read: as they are, or as floats in scratch, with padding."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.lib.stride_tricks import as_strided

from circlekit.ir.tape import Need
from circlekit.ir.value import Array
from circlekit.ops.numerics.stores import Store
from circlekit.ops.windows import Window

Pair = tuple[int, int]
"""(along the height, along the width)"""


@dataclass(eq=False, repr=False)
class Loader:
    """How data comes in, block by block, as ``floats``.

    ``zero``: what is subtracted from stored numbers; ``pad``: what is taken where there is none.
    """

    floats: np.dtype[Any]
    zero: int
    pad: int

    def load(self, stored: Array, floats: Array) -> None:
        """Put stored numbers into an array as floats."""
        floats[...] = stored
        if self.zero:
            np.subtract(floats, self.floats.type(self.zero), floats)


@dataclass(eq=False, repr=False)
class Ends(Loader):
    """How data that is no float comes in and goes out.

    ``end``: what becomes of sums, in ``dtype``.  ``weights``: the zero points of weights, integers still.
    """

    end: Store
    dtype: np.dtype[Any]
    weights: Array | None = None


class Taps(NamedTuple):
    """``size``, ``strides`` and ``dilations`` of a filter, and the ``windows`` of its results."""

    size: Pair
    strides: Pair
    dilations: Pair
    windows: tuple[Window, Window]

    def extent(self, axis: int, count: int) -> int:
        """The elements that ``count`` results in a row read along ``axis``, of rows or of columns."""
        return (count - 1) * self.strides[axis] + (self.size[axis] - 1) * self.dilations[axis] + 1


Place = tuple[slice, slice]


class Block(NamedTuple):
    """A block of results of an image, and what it reads there.

    ``place``, ``size``: of the results; ``part``: of the image; ``strip``: the size of all that is read, in
    which the part is at ``middle``; ``whole``: nothing else is in it.
    """

    place: Place
    size: Pair
    part: Place
    strip: Pair
    middle: Place
    whole: bool


class Span(NamedTuple):
    """The same along one axis."""

    place: slice
    size: int
    part: slice
    length: int
    middle: slice
    whole: bool


FEW = 16
"""So many blocks are not worked out anew in each run."""


class Strips:
    """What blocks of ``steps`` results read of images x [N,H,W,C]."""

    def __init__(self, x: Array, taps: Taps, ends: Loader | None, steps: Pair) -> None:
        self.size, self.taps, self.ends, self.steps = (x.shape[1], x.shape[2]), taps, ends, steps
        self.channels, self.dtype = x.shape[3], x.dtype if ends is None else ends.floats
        self.direct = ends is None and is_inside(self.size, taps)
        self.need: Need | None = None
        if not self.direct:
            high, wide = (taps.extent(a, n) for a, n in enumerate(steps))
            self.need = (high * wide * x.shape[3],), self.dtype
        counts = [-(-w.size // n) for w, n in zip(taps.windows, steps, strict=True)]
        self.few = list(self._blocks()) if counts[0] * counts[1] <= FEW else None

    def blocks(self) -> Iterable[Block]:
        return self._blocks() if self.few is None else self.few

    def _blocks(self) -> Iterator[Block]:
        rows, cols = self.taps.windows
        for top in range(0, rows.size, self.steps[0]):
            for left in range(0, cols.size, self.steps[1]):
                yield self._block((top, left))

    def _block(self, start: Pair) -> Block:
        rows, cols = (self._span(axis, first) for axis, first in enumerate(start))
        return Block(
            (rows.place, cols.place),
            (rows.size, cols.size),
            (rows.part, cols.part),
            (rows.length, cols.length),
            (rows.middle, cols.middle),
            rows.whole and cols.whole,
        )

    def _span(self, axis: int, first: int) -> Span:
        window = self.taps.windows[axis]
        count = min(self.steps[axis], window.size - first)
        corner = first * self.taps.strides[axis] - window.before
        length = self.taps.extent(axis, count)
        low, high = max(corner, 0), max(min(corner + length, self.size[axis]), 0)
        middle = slice(low - corner, max(high, low) - corner)
        whole = middle.stop - middle.start == length
        return Span(slice(first, first + count), count, slice(low, high), length, middle, whole)

    def load(self, image: Array, block: Block, memory: Array | None) -> Array:
        """What ``block`` reads of image [H,W,C], 0 where it has none: [H',W',C]."""
        part: Array = image[block.part]
        if memory is None:
            return part
        high, wide = block.strip
        strip: Array = memory[: high * wide * self.channels].reshape(high, wide, self.channels)
        middle = strip
        if not block.whole:
            strip.fill(0 if self.ends is None else self.ends.pad)
            middle = strip[block.middle]
        if self.ends is None:
            middle[...] = part
        else:
            self.ends.load(part, middle)
        return strip


def is_inside(size: Pair, taps: Taps) -> bool:
    """Whether no result reads anything outside of images of ``size``."""
    windows = enumerate(taps.windows)
    return all(w.before == 0 and taps.extent(a, w.size) <= size[a] for a, w in windows)


def patches(strip: Array, taps: Taps, size: Pair) -> Array:
    """View of a strip [H',W',I] as what each result reads: [R,OW,KH,KW,I]."""
    y, x, c = strip.strides
    steps = y * taps.strides[0], x * taps.strides[1], y * taps.dilations[0], x * taps.dilations[1], c
    shape = *size, *taps.size, strip.shape[2]
    if strip.flags.c_contiguous and strip.size:
        view: Array = np.ndarray(shape, strip.dtype, strip, 0, steps)
        return view
    return as_strided(strip, shape, steps, writeable=False)


def block_steps(taps: Taps, each: int, column: int, limit: int) -> Pair:
    """How many rows and columns of results a block of ``limit`` bytes has; one result at least.

    ``each``: bytes for a result; ``column``: for the channels of one place in a strip.
    """
    rows, cols = (w.size for w in taps.windows)
    line = taps.extent(1, cols) * column
    high = (limit - (taps.extent(0, 1) - taps.strides[0]) * line) // max(
        cols * each + taps.strides[0] * line, 1
    )
    if high >= 1:
        return min(high, max(rows, 1)), max(cols, 1)
    tall = taps.extent(0, 1) * column
    wide = (limit - (taps.extent(1, 1) - taps.strides[1]) * tall) // max(each + taps.strides[1] * tall, 1)
    return 1, min(max(wide, 1), max(cols, 1))
