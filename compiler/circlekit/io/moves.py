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

LARGE = 1 << 20
"""Data of this many bytes may be moved by up to a page."""

LARGE_FILE = 64 << 20
"""Files with so many bytes of large data have fixed places for it."""

LEAST_ROOM = 1 << 14
"""Bytes that a skeleton may grow at least, and an eighth of it."""

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
    for a length before data that has it in the old file.
    """
    large = sorted({span for span in spans if span[1] >= LARGE})
    disjoint = all(a[0] + a[1] <= b[0] for a, b in pairwise(large))
    if not disjoint or sum(size for _, size in large) < LARGE_FILE:
        return []
    found = []
    before, end = 0, _base(source, large)
    for start, size in large:
        position = fitting(end + min(LENGTH, start - before), size, start)
        found.append(Move(start, size, position))
        before, end = start + size, position + size
    return found


def fitting(least: int, size: int, start: int | None) -> int:
    """The first place from ``least`` on for ``size`` bytes, which are at ``start`` in the old file."""
    if start is not None and size >= LARGE and start % ALIGNMENT == 0:
        return least + (start - least) % PAGE
    return least + -least % ALIGNMENT


def _base(source: memoryview, large: Sequence[tuple[int, int]]) -> int:
    """Where the data begins: where it did if there is some room before it for a skeleton that grows.

    Otherwise there is more room than is asked for: the file that is made stays as it is in the next round.
    """
    first = large[0][0] - LENGTH
    end = large[-1][0] + large[-1][1]
    gaps = (b[0] - a[0] - a[1] for a, b in pairwise(large))
    behind = len(source) - end + sum(gap for gap in gaps if gap > PAGE + LENGTH)
    used = _used(source, first) + behind
    if first >= used + used // 8 + LEAST_ROOM:
        return first
    room = used + used // 4 + 4 * LEAST_ROOM
    return room + -room % PAGE


def _used(source: memoryview, end: int) -> int:
    """The bytes before ``end`` without the zeros right before it; half of them is as many as matter."""
    enough = end // 2
    while end > enough:
        start = max(enough, end - LOOK)
        head = bytes(source[start:end]).rstrip(b"\0")
        if head:
            return start + len(head)
        end = start
    return end
