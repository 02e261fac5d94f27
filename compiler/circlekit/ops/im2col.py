# SPDX-License-Identifier: Apache-2.0
"""Convolutions as matrix products, in blocks of rows, so that scratch memory stays small for any layer."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.lib.stride_tricks import as_strided

from circlekit.ir.value import Array
from circlekit.ops.common import Window

PATCH_BYTES = 1 << 19
"""Scratch of one matrix product."""

CACHE_BYTES = 1 << 18
"""Block that stays in the cache while all filter taps pass over it."""

Pair = tuple[int, int]
"""(along the height, along the width)"""


class Ends(NamedTuple):
    """How data that is no float of the filter's dtype comes in and goes out, block by block.

    ``zero``: the stored number that stands for 0.  ``load``: stored numbers as floats of the filter's
    dtype.  ``store``: writes what becomes of a block of sums into an array of ``dtype``.
    """

    zero: int
    load: Callable[[Array], Array]
    store: Callable[[Array, Array], None]
    dtype: np.dtype[Any]


def loader(zero: int, dtype: np.dtype[Any]) -> Callable[[Array], Array]:
    """What makes floats of ``dtype`` of integers, minus ``zero``."""
    offset = dtype.type(zero)
    return lambda x: np.asarray(np.subtract(x, offset, dtype=dtype))


def convolve(
    x: Array,
    filter: Array,
    strides: Pair,
    dilations: Pair,
    windows: tuple[Window, Window],
    ends: Ends | None = None,
    out: Array | None = None,
) -> Array:
    """Correlate x [N,H,W,I] with filter [O,KH,KW,I / groups]: [N,OH,OW,O], into ``out`` where it is given."""
    out_depth, taps_h, taps_w, per_group = filter.shape
    rows, cols = windows
    if out is None:
        out = np.empty((x.shape[0], rows.size, cols.size, out_depth), ends.dtype if ends else x.dtype)
    groups = x.shape[3] // per_group
    whole = out.shape[1:3] == x.shape[1:3] and rows.before == cols.before == 0 and out.flags.c_contiguous
    if filter.shape[1:3] == strides == (1, 1) and groups == 1 and whole:
        weights = filter.reshape(out_depth, -1)
        multiply_rows(x.reshape(-1, x.shape[3]), weights, ends, out.reshape(-1, out_depth))
        return out
    weights = filter.reshape(groups, out_depth // groups, -1).transpose(0, 2, 1)
    step = _rows_per_block(PATCH_BYTES, cols.size * taps_h * taps_w * x.shape[3] * filter.itemsize)
    for image, result in zip(x, out, strict=True):
        for top, strip in _strips(image, (taps_h, taps_w), strides, dilations, windows, step, ends):
            target = result[top : top + step]
            patches = _patches(strip, (taps_h, taps_w), strides, dilations, target.shape[:2])
            if ends is None and target.flags.c_contiguous:
                _multiply(patches, weights, target)
                continue
            block = np.empty(target.shape, filter.dtype)
            _multiply(patches, weights, block)
            _put(block, target, ends)
    return out


def _put(block: Array, target: Array, ends: Ends | None) -> None:
    if ends is None:
        target[...] = block
    else:
        ends.store(block, target)


def multiply_rows(x: Array, weights: Array, ends: Ends | None, out: Array) -> None:
    """Rows x [R,I] times the transpose of weights [O,I], into out [R,O]."""
    if ends is None:
        np.matmul(x, weights.T, out=out)
        return
    step = _rows_per_block(PATCH_BYTES, sum(weights.shape) * weights.itemsize)
    for top in range(0, len(x), step):
        block = np.matmul(ends.load(x[top : top + step]), weights.T)
        ends.store(block, out[top : top + step])


def _multiply(patches: Array, weights: Array, block: Array) -> None:
    """Patches [R,OW,KH,KW,I] times weights [G,K,O / G], into block [R,OW,O]."""
    groups, length, _ = weights.shape
    count = block.shape[0] * block.shape[1]
    if groups == 1:
        np.matmul(patches.reshape(count, length), weights[0], out=block.reshape(count, -1))
        return
    split = patches.reshape(*patches.shape[:4], groups, -1).transpose(4, 0, 1, 2, 3, 5)
    product = np.matmul(split.reshape(groups, count, length), weights)
    block[...] = product.transpose(1, 0, 2).reshape(block.shape)


def convolve_depthwise(
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
    out = np.empty((x.shape[0], rows.size, cols.size, depth), ends.dtype if ends else x.dtype)
    width = cols.size * depth
    taps = np.tile(filter.reshape(taps_h, taps_w, 1, depth), (1, 1, cols.size, 1))
    taps = taps.reshape(taps_h, taps_w, width)
    step = _rows_per_block(CACHE_BYTES, width * filter.itemsize)
    for image, result in zip(x, out, strict=True):
        for top, strip in _strips(image, (taps_h, taps_w), strides, dilations, windows, step, ends):
            wide = np.repeat(strip, depth // x.shape[3], axis=2) if depth != x.shape[3] else strip
            target = result[top : top + step]
            block = target if ends is None else np.empty(target.shape, filter.dtype)
            _add_taps(wide, taps, strides, dilations, block.reshape(block.shape[0], width))
            if ends is not None:
                ends.store(block, target)
    return out


def _add_taps(strip: Array, taps: Array, strides: Pair, dilations: Pair, block: Array) -> None:
    """Sum of the taps [KH,KW,OW*C] over a strip [R',W',C], into block [R,OW*C].

    Columns are sorted by their remainder modulo the stride first: each tap is then one contiguous run.
    """
    rows, width = block.shape
    high, _, depth = strip.shape
    lanes = [strip[:, p :: strides[1]].reshape(high, -1) for p in range(strides[1])]
    term = np.empty_like(block)
    block[...] = 0
    for y in range(taps.shape[0]):
        top = y * dilations[0]
        for x in range(taps.shape[1]):
            skip, lane = divmod(x * dilations[1], strides[1])
            run = lanes[lane][top : top + (rows - 1) * strides[0] + 1 : strides[0]]
            np.multiply(run[:, skip * depth : skip * depth + width], taps[y, x], out=term)
            block += term


def convolve_transposed(
    x: Array, filter: Array, strides: Pair, before: Pair, out: Array, ends: Ends | None = None
) -> None:
    """Spread x [N,H,W,I] by filter [O,KH,KW,I] over out [N,OH,OW,O]; what falls outside is dropped.

    Element (y, x) goes through tap (i, j) to (y * stride_h - before_h + i, x * stride_w - before_w + j).
    The taps that meet in the outputs of one remainder modulo the strides are a convolution with stride 1.
    """
    for phase in np.ndindex(*strides):
        place = out[:, phase[0] :: strides[0], phase[1] :: strides[1]]
        start = [phase[a] + before[a] for a in (0, 1)]
        taps = filter[:, start[0] % strides[0] :: strides[0], start[1] % strides[1] :: strides[1]]
        if place.size == 0:
            continue
        if taps.size == 0:
            _put(np.zeros(place.shape, filter.dtype), place, ends)
            continue
        rows, cols = (
            Window(place.shape[1 + a], taps.shape[1 + a] - 1 - start[a] // strides[a], 0) for a in (0, 1)
        )
        flipped = np.ascontiguousarray(taps[:, ::-1, ::-1])
        convolve(x, flipped, (1, 1), (1, 1), (rows, cols), ends, place)


def _rows_per_block(scratch: int, row: int) -> int:
    return max(1, scratch // max(1, row))


def _strips(
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
        if ends is None:
            yield top, padded(image, corner, (high, width))
        else:
            yield top, ends.load(padded(image, corner, (high, width), ends.zero))


def padded(image: Array, corner: Pair, size: Pair, fill: float = 0) -> Array:
    """The ``size`` part of image [H,W,C] from ``corner`` on (maybe outside), ``fill`` where it has none."""
    top, left = max(corner[0], 0), max(corner[1], 0)
    part = image[top : max(corner[0] + size[0], 0), left : max(corner[1] + size[1], 0)]
    if part.shape[:2] == size:
        return part
    out = np.full((*size, image.shape[2]), fill, image.dtype)
    y, x = top - corner[0], left - corner[1]
    out[y : y + part.shape[0], x : x + part.shape[1]] = part
    return out


def _patches(strip: Array, taps: Pair, strides: Pair, dilations: Pair, size: Pair) -> Array:
    """View of a strip [R',W',I] as what each output element reads: [R,OW,KH,KW,I]."""
    y, x, c = strip.strides
    steps = (y * strides[0], x * strides[1], y * dilations[0], x * dilations[1], c)
    return as_strided(strip, (*size, *taps, strip.shape[2]), steps, writeable=False)
