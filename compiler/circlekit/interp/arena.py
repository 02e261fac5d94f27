# SPDX-License-Identifier: Apache-2.0
"""The memory of the values of a recorded graph: each block is used again when its values have ended."""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from circlekit.ir.limits import need_memory
from circlekit.ir.value import Array

ALIGNED = 64
"""Blocks begin at multiples of this: a line of the cache, and the widest vectors."""


class Chunk:
    """Memory that was got in one piece.  ``free``: (start, end) of what is not used, in order."""

    def __init__(self, size: int) -> None:
        raw = np.empty(size + ALIGNED, np.uint8)
        first = -address(raw) % ALIGNED
        self.bytes: Array = raw[first : first + size]
        self.start = address(self.bytes)
        self.free = [(0, size)]

    def take(self, at: int, size: int) -> None:
        """Use ``size`` bytes from the start of free piece number ``at``."""
        start, end = self.free.pop(at)
        if start + size < end:
            self.free.insert(at, (start + size, end))

    def give(self, start: int, end: int) -> None:
        """Free these bytes, in one piece with free neighbours."""
        at = bisect_right(self.free, (start, end))
        if at < len(self.free) and self.free[at][0] == end:
            end = self.free.pop(at)[1]
        if at and self.free[at - 1][1] == start:
            start = self.free.pop(at - 1)[0]
            at -= 1
        self.free.insert(at, (start, end))


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
        self.size = 0
        self.starts: list[int] = []
        self.blocks: dict[int, Block] = {}

    def reserve(self, size: int) -> None:
        """Get memory in one piece for what will be wanted: it is filled better than many small ones."""
        need_memory(self.size + size, f"{size} bytes for the values of a run")
        self.size += size
        self.chunks.append(Chunk(-(-size // ALIGNED) * ALIGNED))

    def empty(self, shape: Sequence[int], dtype: np.dtype[Any]) -> Array:
        """A new array, whose block has one user."""
        count = prod(shape) * dtype.itemsize
        size = max(-(-count // ALIGNED), 1) * ALIGNED
        chunk, at = self._best(size)
        start = chunk.free[at][0]
        chunk.take(at, size)
        block = Block(chunk, start, start + size)
        insort(self.starts, chunk.start + start)
        self.blocks[chunk.start + start] = block
        made: Array = np.ndarray(shape, dtype, chunk.bytes, start)
        return made

    def _best(self, size: int) -> tuple[Chunk, int]:
        """The free piece that ``size`` bytes fill best, of a new chunk where there is none."""
        fitting = [
            (end - start, number, at)
            for number, chunk in enumerate(self.chunks)
            for at, (start, end) in enumerate(chunk.free)
            if end - start >= size
        ]
        if fitting:
            _, number, at = min(fitting)
            return self.chunks[number], at
        need_memory(self.size + size, f"{size} bytes more for the values of a run")
        self.size += size
        self.chunks.append(Chunk(size))
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
