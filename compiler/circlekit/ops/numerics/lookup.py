# SPDX-License-Identifier: Apache-2.0
"""Functions of integers of 8 bits on a tape: all values there are, looked up."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import prod
from typing import Any

import numpy as np

from circlekit.ir.tape import Tape
from circlekit.ir.value import Array

BLOCK = 1 << 14
"""Elements that are looked up at a time: their 64-bit indices stay in the cache."""

MANY = 1 << 11
"""So many elements are worth a copy to and from Python's bytes, whose translation is the fastest."""

FEWEST = 1 << 9
"""So many elements are worth the calls, where there is little memory."""

ALL_PAIRS = 1 << 16


def every(dtype: np.dtype[np.integer]) -> Array:
    """All integers of 8 bits, in the order of their bits taken for unsigned ones."""
    return np.arange(256, dtype=np.uint8).view(dtype)


def parts(shape: tuple[int, ...], most: int) -> Iterator[tuple[Any, ...]]:
    """Indices of parts of an array, each of at most ``most`` elements, or one."""
    inner = prod(shape[1:])
    if inner * (shape[0] if shape else 1) <= most or not shape:
        yield (Ellipsis,)
    elif inner > most and len(shape) > 1:
        for index in range(shape[0]):
            for rest in parts(shape[1:], most):
                yield index, *rest
    else:
        step = max(1, most // max(inner, 1))
        for first in range(0, shape[0], step):
            yield (slice(first, first + step),)


def look_up(tape: Tape, table: Array, x: Array, out: Array) -> None:
    """Write the calls that put the entries of ``table`` [256] for the bits of ``x`` into ``out``."""
    bits = x.view(np.uint8)
    if table.itemsize == 1 and x.flags.c_contiguous and out.flags.c_contiguous and x.size >= MANY:
        flat, target = bits.reshape(-1), out.reshape(-1)
        step, stored = max(MANY, min(4 * BLOCK, tape.scratch // 8)), table.tobytes()
        for first in range(0, x.size, step):
            tape.do(_translated, flat[first : first + step], stored, target[first : first + step])
    else:
        tape.do(_taken, table, bits, out, _most(tape, INDEX))


INDEX = 8
"""Bytes of an index that numpy takes."""


def _most(tape: Tape, size: int) -> int:
    """The elements of a block, for each of which so many bytes are needed."""
    return max(FEWEST, min(BLOCK, tape.scratch // 8 // size))


def _taken(table: Array, bits: Array, out: Array, most: int) -> None:
    for part in parts(out.shape, most):
        table.take(bits[part], None, out[part], "clip")  # no index is outside; clip is the fast mode


def _translated(bits: Array, table: bytes, out: Array) -> None:
    out[...] = np.frombuffer(bits.tobytes().translate(table), out.dtype)


def look_up_pairs(tape: Tape, table: Array, x: Array, y: Array, out: Array) -> None:
    """Write the calls that put the entries of ``table`` for the bits of x and y into ``out``.

    Entry 256 * j + i is that of bits i of x and j of y, which broadcast to ``out``.  Or y is 256 * j already.
    """
    if out.size == 0:
        return
    left = np.broadcast_to(x.view(np.uint8), out.shape)
    right = np.broadcast_to(y.view(np.uint8) if y.itemsize == 1 else y, out.shape)
    target = out
    if out.flags.c_contiguous and left.flags.c_contiguous and right.flags.c_contiguous:
        left, right, target = left.reshape(-1), right.reshape(-1), out.reshape(-1)
    most = _most(tape, INDEX + 4)

    def run(indices: Array, above: Array) -> None:
        for part in parts(target.shape, most):
            place = target[part]
            index, rows = (m[: place.size].reshape(place.shape) for m in (indices, above))
            rows[...] = right[part]
            if right.itemsize == 1:
                np.left_shift(rows, np.uint16(8), rows)
            index[...] = left[part]
            np.bitwise_or(index, rows, index)
            table.take(index, None, place, "clip")

    need = (min(most, out.size),), np.dtype(np.uint16)
    tape.work(run, need, need)


def table_of(function: Callable[[Array, Array], Array], x: Array, y: Array) -> Array:
    """``function`` of all pairs of ``x`` [M] and ``y`` [N]: [N * M], a few rows at a time."""
    step = max(1, BLOCK // max(1, 8 * x.size))
    rows = [function(x, y[first : first + step, None]) for first in range(0, len(y), step)]
    return np.concatenate(rows).reshape(-1)
