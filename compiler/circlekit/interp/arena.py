# SPDX-License-Identifier: Apache-2.0
"""The memory of the values of a recorded graph: each block is used again when its values have ended."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from circlekit.ir.resource_limits import need_memory
from circlekit.ir.value import Array

ALIGNED = 64
"""Blocks begin at multiples of this: a line of the cache, and the widest vectors."""


class Chunk:
    """Memory that was got in one piece, the arena's ``number``-th.

    ``free``: (start, end) of what is not used, in order; ``pieces``: the same of all chunks as (size, number,
    start), in order, where the piece that fits best is found without a look at the others.
    """

    def __init__(self, size: int, number: int, pieces: list[tuple[int, int, int]]) -> None:
        raw = np.empty(size + ALIGNED, np.uint8)
        first = -address(raw) % ALIGNED
        self.bytes: Array = raw[first : first + size]
        self.start = address(self.bytes)
        self.number, self.pieces = number, pieces
        self.free: list[tuple[int, int]] = []
        self._add(0, size)

    def take(self, start: int, size: int) -> int:
        """Use ``size`` bytes of the free piece at ``start``; where they begin.

        From the far end if the piece is the chunk's last: values that take turns are at both ends then, and
        what is free stays in one piece.
        """
        end = self._remove(bisect_left(self.free, (start, 0)))[1]
        if start + size == end:
            return start
        if start and end == len(self.bytes):
            self._add(start, end - size)
            return end - size
        self._add(start + size, end)
        return start

    def give(self, start: int, end: int) -> None:
        """Free these bytes, in one piece with free neighbours."""
        at = bisect_left(self.free, (start, end))
        if at < len(self.free) and self.free[at][0] == end:
            end = self._remove(at)[1]
        if at and self.free[at - 1][1] == start:
            start = self._remove(at - 1)[0]
        self._add(start, end)

    def _add(self, start: int, end: int) -> None:
        insort(self.free, (start, end))
        insort(self.pieces, (end - start, self.number, start))

    def _remove(self, at: int) -> tuple[int, int]:
        start, end = self.free.pop(at)
        del self.pieces[bisect_left(self.pieces, (end - start, self.number, start))]
        return start, end


class Block:
    """Bytes ``start`` to ``end`` of a chunk; ``users``: how many hold it; ``reach``: of what is in it."""

    __slots__ = ("chunk", "end", "reach", "start", "users")

    def __init__(self, chunk: Chunk, start: int, end: int) -> None:
        self.chunk, self.start, self.end = chunk, start, end
        self.users = 1
        self.reach = np.inf


class Arena:
    """Hands out arrays, and takes their memory back when nobody holds it any more.

    ``size``: bytes of all chunks; LimitError where they would be more than may be used.
    """

    def __init__(self) -> None:
        self.chunks: list[Chunk] = []
        self.pieces: list[tuple[int, int, int]] = []
        self.size = 0
        self.starts: list[int] = []
        self.blocks: dict[int, Block] = {}

    def reserve(self, size: int) -> None:
        """Get memory in one piece for what will be wanted: it is filled better than many small ones."""
        need_memory(self.size + size, f"{size} bytes for the values of a run")
        self.size += size
        self.chunks.append(Chunk(-(-size // ALIGNED) * ALIGNED, len(self.chunks), self.pieces))

    def empty(self, shape: Sequence[int], dtype: np.dtype[Any]) -> Array:
        """A new array, whose block has one user."""
        count = prod(shape) * dtype.itemsize
        size = max(-(-count // ALIGNED), 1) * ALIGNED
        chunk, start = self._best(size)
        start = chunk.take(start, size)
        block = Block(chunk, start, start + size)
        insort(self.starts, chunk.start + start)
        self.blocks[chunk.start + start] = block
        made: Array = np.ndarray(shape, dtype, chunk.bytes, start)
        return made

    def _best(self, size: int) -> tuple[Chunk, int]:
        """Chunk and start of the free piece that ``size`` bytes fill best; a new one where there is none."""
        at = bisect_left(self.pieces, (size, 0, 0))
        if at < len(self.pieces):
            _, number, start = self.pieces[at]
            return self.chunks[number], start
        need_memory(self.size + size, f"{size} bytes more for the values of a run")
        self.size += size
        self.chunks.append(Chunk(size, len(self.chunks), self.pieces))
        return self.chunks[-1], 0

    def block_of(self, array: Array) -> Block | None:
        """The block that ``array`` is a view of; None where it is none of the arena's."""
        if array.size == 0 or array.dtype.hasobject:
            return None
        place = address(array)
        at = bisect_right(self.starts, place) - 1
        if at < 0:
            return None
        block = self.blocks[self.starts[at]]
        return block if place < block.chunk.start + block.end else None

    def release(self, block: Block) -> None:
        """One user less."""
        block.users -= 1
        if block.users == 0:
            place = block.chunk.start + block.start
            del self.blocks[place]
            del self.starts[bisect_right(self.starts, place) - 1]
            block.chunk.give(block.start, block.end)


def address(array: Array) -> int:
    place: int = array.__array_interface__["data"][0]
    return place
