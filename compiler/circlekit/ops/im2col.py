# SPDX-License-Identifier: Apache-2.0
"""Convolutions as matrix products, in blocks of rows, so that scratch memory stays small for any layer."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod
from typing import Any, NamedTuple

import numpy as np
from numpy.lib.stride_tricks import as_strided

from circlekit.ir.limits import need_memory
from circlekit.ir.tape import Tape
from circlekit.ir.value import Array
from circlekit.ops.common import Window
from circlekit.ops.rescale import Store, Writer

PATCH_BYTES = 1 << 19
"""Scratch of one matrix product, if its data is not smaller."""

CACHE_BYTES = 1 << 18
"""Block that stays in the cache while all filter taps pass over it."""

RUN = 1 << 11
"""Elements of a row that are multiplied at a time, with as many taps."""

LEAST_BYTES, LEAST_OF_FLOATS = 1 << 17, 1 << 16
"""Scratch that even the smallest operator may take: on integers, on floats."""

Pair = tuple[int, int]
"""(along the height, along the width)"""


class Ends(NamedTuple):
    """How data that is no float of the filter's dtype comes in and goes out, block by block.

    ``floats``: the filter's dtype.  ``zero``: what is subtracted from stored numbers; ``pad``: what is taken
    where there is none.  ``end``: what becomes of sums, in ``dtype``.
    """

    floats: np.dtype[Any]
    zero: int
    pad: int
    end: Store
    dtype: np.dtype[Any]

    def load(self, tape: Tape, stored: Array, floats: Array) -> None:
        """Write the calls that put stored numbers into an array as floats."""
        if self.zero:
            tape.do(np.subtract, stored, np.asarray(self.zero, self.floats), floats)
        else:
            tape.copy(stored, floats)


class Scratch:
    """Memory of one kernel by purpose, used again for every block.

    ``limit``: the bytes that a block may take; no more than half of ``data``, what the kernel works on.
    """

    def __init__(self, tape: Tape, limit: int, *data: Array) -> None:
        self.tape = tape
        least = LEAST_OF_FLOATS if data[0].dtype.kind == "f" else LEAST_BYTES
        self.limit = min(limit, max(least, sum(a.nbytes for a in data) // 2))
        self.arrays: dict[str, Array] = {}

    def get(self, name: str, shape: tuple[int, ...], dtype: Any) -> Array:
        count = prod(shape)
        if name not in self.arrays or self.arrays[name].size < count:
            self.arrays[name] = self.tape.empty((count,), dtype)
        return self.arrays[name][:count].reshape(shape)

    def rows(self, size: int) -> int:
        """How many rows of ``size`` bytes a block may have."""
        return max(1, self.limit // max(1, size))


def convolve(
    tape: Tape,
    x: Array,
    filter: Array,
    strides: Pair,
    dilations: Pair,
    windows: tuple[Window, Window],
    ends: Ends | None = None,
    out: Array | None = None,
    store: Writer | None = None,
    scratch: Scratch | None = None,
) -> Array:
    """Correlate x [N,H,W,I] with filter [O,KH,KW,I / groups]: [N,OH,OW,O], into ``out`` where it is given.

    ``store``: that of ``ends``, ``scratch``: memory for blocks, where there are such.
    """
    out_depth, taps_h, taps_w, per_group = filter.shape
    rows, cols = windows
    if out is None:
        out = tape.empty((x.shape[0], rows.size, cols.size, out_depth), ends.dtype if ends else x.dtype)
    groups = x.shape[3] // per_group
    whole = out.shape[1:3] == x.shape[1:3] and rows.before == cols.before == 0 and out.flags.c_contiguous
    if filter.shape[1:3] == strides == (1, 1) and groups == 1 and whole:
        weights = filter.reshape(out_depth, -1)
        data = tape.reshaped(x, (-1, x.shape[3]))
        multiply_rows(tape, data, weights, ends, out.reshape(-1, out_depth))
        return out
    store = store or _writer(tape, ends, out)
    weights = filter.reshape(groups, out_depth // groups, -1).transpose(0, 2, 1)
    scratch = scratch or Scratch(tape, PATCH_BYTES, x, out)
    step = scratch.rows(cols.size * taps_h * taps_w * x.shape[3] * filter.itemsize)
    for image, result in zip(x, out, strict=True):
        for top, strip in _strips(scratch, image, (taps_h, taps_w), strides, dilations, windows, step, ends):
            target = result[top : top + step]
            patches = _patches(strip, (taps_h, taps_w), strides, dilations, target.shape[:2])
            if ends is None and target.flags.c_contiguous:
                _multiply(scratch, patches, weights, target)
                continue
            block = scratch.get("sums", target.shape, filter.dtype)
            _multiply(scratch, patches, weights, block)
            _put(tape, block, target, store)
    return out


def _writer(tape: Tape, ends: Ends | None, out: Array) -> Writer | None:
    return None if ends is None else ends.end.bound(tape, out.size, out.shape[-1])


def _put(tape: Tape, block: Array, target: Array, store: Writer | None) -> None:
    if store is None:
        tape.copy(block, target)
    else:
        store(block, target)


def multiply_rows(tape: Tape, x: Array, weights: Array, ends: Ends | None, out: Array) -> None:
    """Rows x [R,I] times the transpose of weights [O,I], into out [R,O], which has no gaps."""
    if ends is None:
        tape.do(x.dot, weights.T, out)
        return
    scratch, store = Scratch(tape, PATCH_BYTES, x, out), ends.end.bound(tape, out.size, len(weights))
    step = scratch.rows(sum(weights.shape) * weights.itemsize)
    for top in range(0, len(x), step):
        part, target = x[top : top + step], out[top : top + step]
        floats = scratch.get("data", part.shape, weights.dtype)
        sums = scratch.get("sums", target.shape, weights.dtype)
        ends.load(tape, part, floats)
        tape.do(floats.dot, weights.T, sums)
        store(sums, target)


def _multiply(scratch: Scratch, patches: Array, weights: Array, block: Array) -> None:
    """Patches [R,OW,KH,KW,I] times weights [G,K,O / G], into block [R,OW,O], which has no gaps."""
    groups, length, each = weights.shape
    count = block.shape[0] * block.shape[1]
    tape = scratch.tape
    if groups == 1:
        rows = scratch.get("patches", patches.shape, patches.dtype)
        tape.copy(patches, rows)
        tape.do(rows.reshape(count, length).dot, weights[0], block.reshape(count, -1))
        return
    split = patches.reshape(*patches.shape[:4], groups, -1).transpose(4, 0, 1, 2, 3, 5)
    parts = scratch.get("patches", split.shape, split.dtype)
    tape.copy(split, parts)
    product = scratch.get("products", (groups, count, each), block.dtype)
    tape.do(np.matmul, parts.reshape(groups, count, length), weights, product)
    tape.copy(product.transpose(1, 0, 2), block.reshape(count, groups, each))


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
    _, taps_h, taps_w, depth = filter.shape
    rows, cols = windows
    out = tape.empty((x.shape[0], rows.size, cols.size, depth), ends.dtype if ends else x.dtype)
    width = cols.size * depth
    most = max(1, RUN // max(1, depth))
    columns = max((n for n in range(1, min(cols.size, most) + 1) if cols.size % n == 0), default=1)
    spread = np.broadcast_to(filter.reshape(taps_h, taps_w, 1, depth), (taps_h, taps_w, columns, depth))
    taps = tape.contiguous(spread).reshape(taps_h, taps_w, columns * depth)
    scratch, store = Scratch(tape, CACHE_BYTES, x, out), _writer(tape, ends, out)
    step = scratch.rows(width * filter.itemsize * strides[0] * strides[1])
    for image, result in zip(x, out, strict=True):
        for top, strip in _strips(scratch, image, (taps_h, taps_w), strides, dilations, windows, step, ends):
            wide = strip
            if depth != x.shape[3]:
                wide = scratch.get("wide", (*strip.shape, depth // x.shape[3]), strip.dtype)
                tape.copy(strip[..., None], wide)
                wide = wide.reshape(*strip.shape[:2], depth)
            target = result[top : top + step]
            block = target if store is None else scratch.get("sums", target.shape, filter.dtype)
            _add_taps(scratch, wide, taps, strides, dilations, block.reshape(block.shape[0], width))
            if store is not None:
                store(block, target)
    return out


def _add_taps(
    scratch: Scratch, strip: Array, taps: Array, strides: Pair, dilations: Pair, block: Array
) -> None:
    """Sum of taps [KH,KW,n*C], the same for every n columns, over a strip [R',W',C], into block [R,OW*C].

    Columns are sorted by their remainder modulo the stride first: each tap is then one contiguous run.
    """
    rows, width = block.shape
    block = block.reshape(rows, -1, taps.shape[2])
    depth, tape = strip.shape[2], scratch.tape
    used = min(strides[1], strip.shape[1])
    lanes = [_lane(scratch, strip, phase, strides[1]) for phase in range(used)]
    term = scratch.get("term", block.shape, block.dtype)
    for y in range(taps.shape[0]):
        top = y * dilations[0]
        for x in range(taps.shape[1]):
            skip, lane = divmod(x * dilations[1], strides[1])
            run = lanes[lane][top : top + (rows - 1) * strides[0] + 1 : strides[0]]
            part = run[:, skip * depth : skip * depth + width].reshape(block.shape)
            if x == y == 0:
                tape.do(np.multiply, part, taps[y, x], block)
            else:
                tape.do(np.multiply, part, taps[y, x], term)
                tape.do(np.add, block, term, block)


def _lane(scratch: Scratch, strip: Array, phase: int, stride: int) -> Array:
    """Every column of a strip whose number is ``phase`` modulo ``stride``: [R',W'' * C]."""
    part = strip[:, phase::stride]
    if part.strides[1:] != (part.shape[2] * part.itemsize, part.itemsize):
        lane = scratch.get(f"lane {phase}", part.shape, part.dtype)
        scratch.tape.copy(part, lane)
        part = lane
    high, wide, depth = part.shape
    return as_strided(part, (high, wide * depth), (part.strides[0], part.itemsize), writeable=False)


def convolve_transposed(
    tape: Tape, x: Array, filter: Array, strides: Pair, before: Pair, out: Array, ends: Ends | None = None
) -> None:
    """Spread x [N,H,W,I] by filter [O,KH,KW,I] over out [N,OH,OW,O]; what falls outside is dropped.

    Element (y, x) goes through tap (i, j) to (y * stride_h - before_h + i, x * stride_w - before_w + j).
    The taps that meet in the outputs of one remainder modulo the strides are a convolution with stride 1.
    """
    scratch, store = Scratch(tape, PATCH_BYTES, x, out), _writer(tape, ends, out)
    for phase in np.ndindex(min(strides[0], out.shape[1]), min(strides[1], out.shape[2])):
        place = out[:, phase[0] :: strides[0], phase[1] :: strides[1]]
        start = [phase[a] + before[a] for a in (0, 1)]
        taps = filter[:, start[0] % strides[0] :: strides[0], start[1] % strides[1] :: strides[1]]
        if place.size == 0:
            continue
        if taps.size == 0:
            _put(tape, np.zeros(place.shape, filter.dtype), place, store)
            continue
        rows, cols = (
            Window(place.shape[1 + a], taps.shape[1 + a] - 1 - start[a] // strides[a], 0) for a in (0, 1)
        )
        flipped = _held(scratch, taps[:, ::-1, ::-1])
        convolve(tape, x, flipped, (1, 1), (1, 1), (rows, cols), ends, place, store, scratch)


def _held(scratch: Scratch, view: Array) -> Array:
    """A contiguous copy of weights, made once or in every run."""
    tape = scratch.tape
    if tape.fixed(view) and tape.keeps(view.nbytes):
        kept: Array = view.copy()
        kept.flags.writeable = False
        return kept
    out = scratch.get("weights", view.shape, view.dtype)
    tape.copy(view, out)
    return out


def _strips(
    scratch: Scratch,
    image: Array,
    taps: Pair,
    strides: Pair,
    dilations: Pair,
    windows: tuple[Window, Window],
    step: int,
    ends: Ends | None,
) -> Iterator[tuple[int, Array]]:
    """For each ``step`` output rows: the first, and the zero-padded input [R',W',I] that they read."""
    rows, cols = windows
    width = (cols.size - 1) * strides[1] + (taps[1] - 1) * dilations[1] + 1
    for top in range(0, rows.size, step):
        count = min(step, rows.size - top)
        high = (count - 1) * strides[0] + (taps[0] - 1) * dilations[0] + 1
        corner = (top * strides[0] - rows.before, -cols.before)
        yield top, _strip(scratch, image, corner, (high, width), ends)


def _strip(scratch: Scratch, image: Array, corner: Pair, size: Pair, ends: Ends | None) -> Array:
    """The ``size`` part of image [H,W,C] from ``corner`` on, as floats, 0 where it has none."""
    part, y, x = _inside(image, corner, size)
    if ends is None and part.shape[:2] == size:
        return part
    dtype = image.dtype if ends is None else ends.floats
    strip = scratch.get("strip", (*size, image.shape[2]), dtype)
    if part.shape[:2] != size:
        scratch.tape.do(strip.fill, 0 if ends is None else ends.pad)
    middle = strip[y : y + part.shape[0], x : x + part.shape[1]]
    if ends is None:
        scratch.tape.copy(part, middle)
    else:
        ends.load(scratch.tape, part, middle)
    return strip


def _inside(image: Array, corner: Pair, size: Pair) -> tuple[Array, int, int]:
    """What image [H,W,C] has of the ``size`` part from ``corner`` on, and where in the part it begins."""
    top, left = max(corner[0], 0), max(corner[1], 0)
    part = image[top : max(corner[0] + size[0], 0), left : max(corner[1] + size[1], 0)]
    return part, top - corner[0], left - corner[1]


def padded(image: Array, corner: Pair, size: Pair, fill: float = 0) -> Array:
    """The ``size`` part of image [H,W,C] from ``corner`` on (maybe outside), ``fill`` where it has none."""
    part, y, x = _inside(image, corner, size)
    if part.shape[:2] == size:
        return part
    need_memory(size[0] * size[1] * image.shape[2] * image.itemsize, "the image with its zero padding")
    out = np.full((*size, image.shape[2]), fill, image.dtype)
    out[y : y + part.shape[0], x : x + part.shape[1]] = part
    return out


def _patches(strip: Array, taps: Pair, strides: Pair, dilations: Pair, size: Pair) -> Array:
    """View of a strip [R',W',I] as what each output element reads: [R,OW,KH,KW,I]."""
    y, x, c = strip.strides
    steps = (y * strides[0], x * strides[1], y * dilations[0], x * dilations[1], c)
    return as_strided(strip, (*size, *taps, strip.shape[2]), steps, writeable=False)
