# SPDX-License-Identifier: Apache-2.0
"""Where the large data of a large file goes in the file that is made from it.

The places follow from that file alone: they leave room before them for a skeleton like its own, and keep the
order.  So data can be copied before anybody has looked at the model, and what a pass makes takes the place of
what it replaces.  This module needs nothing that is slow to import.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import NamedTuple

ALIGNMENT = 16
"""Constant data starts at multiples of this many bytes from the start of the file."""

PAGE = 4096
"""Of memory and of most file systems; whole ones are copied faster, and can be shared between files."""

MAP_STEP = 1 << 20
"""Bytes written from memory at a time: pages that are still in a cache when they are copied."""

LARGE = 1 << 20
"""Data of this many bytes may be moved by up to a page."""

LARGE_FILE = 64 << 20
"""Files with so many bytes of large data have fixed places for it."""

LEAST_ROOM = 1 << 14
"""Bytes that a skeleton may grow at least, and an eighth of it."""

MAX_WASTE = 64
"""One part in so many may be left empty, where data was that has no successor of its length."""

LOOK = 1 << 20
"""Bytes looked at in one go."""

LENGTH = 4
"""Bytes right before data: the length of the vector that it is."""


class Move(NamedTuple):
    """``size`` bytes of the old file, from ``start`` on, and where they go."""

    start: int
    size: int
    position: int


def find_moves(source: memoryview, spans: Iterable[tuple[int, int]]) -> list[Move]:
    """The new places of ``spans`` (start, size) of the file ``source``; none where it is not a large file.

    Spans below LARGE are left out, equal ones are one.  The result is in order and has no overlaps, with room
    for a length before data that has it in the old file.  Data that lies well stays where it is, so that a
    file that was made so is made so again.
    """
    large = sorted({span for span in spans if span[1] >= LARGE})
    disjoint = all(a[0] + a[1] <= b[0] for a, b in pairwise(large))
    if not disjoint or sum(size for _, size in large) < LARGE_FILE:
        return []
    base = _base(source, large)
    aligned = all(start % ALIGNMENT == 0 for start, _ in large)
    if base is None and aligned and not is_wasteful(large, large[0][0], sum(large[-1])):
        return [Move(start, size, start) for start, size in large]
    found = []
    before, end = 0, base or large[0][0] - LENGTH
    for start, size in large:
        position = fitting(end + min(LENGTH, start - before), size, start)
        found.append(Move(start, size, position))
        before, end = start + size, position + size
    return found


def is_wasteful(parts: Iterable[tuple[int, int]], begin: int, end: int) -> bool:
    """Whether too much from ``begin`` to ``end`` is in none of ``parts`` (start, size)."""
    return (end - begin - sum(size for _, size in parts)) * MAX_WASTE > end - begin


def fitting(least: int, size: int, start: int | None) -> int:
    """The first place from ``least`` on for ``size`` bytes, which are at ``start`` in the old file."""
    if start is not None and size >= LARGE and start % ALIGNMENT == 0:
        return least + (start - least) % PAGE
    return least + -least % ALIGNMENT


def _base(source: memoryview, large: Sequence[tuple[int, int]]) -> int | None:
    """Where the data begins; None for where it did, if there is room before it for a skeleton that grows.

    Otherwise there is more room than is asked for: the file that is made stays as it is in the next round.
    """
    first = large[0][0] - LENGTH
    ends = [start + size for start, size in large]
    nexts = [*(start for start, _ in large[1:]), len(source)]
    behind = sum(_used(source, b, a) - a for a, b in zip(ends, nexts, strict=True) if b - a > PAGE + LENGTH)
    used = _used(source, first) + behind
    return None if is_room(used, first) else room(used)


def is_room(used: int, end: int) -> bool:
    """Whether a skeleton with small data, of ``used`` bytes, has room to grow before ``end``."""
    return end >= used + used // 8 + LEAST_ROOM


def room(used: int) -> int:
    """Where large data begins behind so many bytes: there is room, also for a few more of them."""
    end = used + used // 4 + 4 * LEAST_ROOM
    return end + -end % PAGE


def _used(source: memoryview, end: int, start: int = 0) -> int:
    """Where the zeros right before ``end`` begin, if that is in the second half of ``start`` to ``end``."""
    enough = (start + end) // 2
    while end > enough:
        at = max(enough, end - LOOK)
        head = bytes(source[at:end]).rstrip(b"\0")
        if head:
            return at + len(head)
        end = at
    return end
