# SPDX-License-Identifier: Apache-2.0
"""Where the constant data of a file goes, behind its skeleton.

In the order of the buffers; large data that is still in the file that the model came from keeps its place
within a page.  Where that file is large, the places are those of ``moves``, unless the skeleton needs the
room or too much of it would be left empty.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from circlekit.io.blob import Blob
from circlekit.io.layout import Encoded, Payload
from circlekit.io.moves import LENGTH, Move, fitting
from circlekit.io.origin import Place, Source

MAX_WASTE = 64
"""One part in so many may be left empty, where data was that has no successor of its length."""

_U32 = struct.Struct("<I")
_U64 = struct.Struct("<Q")


class Reference(NamedTuple):
    """``at``: of the field that refers to ``data``; ``counted``: to a vector, with its length before it."""

    at: int
    data: Blob
    counted: bool


class Item(NamedTuple):
    """Data to be placed; ``offset``: where it is in the source, None where it is not."""

    data: Blob
    counted: bool
    offset: int | None

    def at(self, position: int) -> Payload:
        return Payload(position, self.data, self.counted, self.offset)


Key = tuple[Place | int, bool]
"""Equal for data that is to have one place in the file."""


def arrange(skeleton: bytearray, references: Iterable[Reference], source: Source | None) -> Encoded:
    """Put data behind ``skeleton``, once what several fields have of one place, and fill in the fields."""
    references = list(references)
    items: dict[Key, Item] = {}
    for _, data, counted in references:
        if _key(data, counted) not in items:
            offset = source.offset(data.place) if source is not None else None
            items[_key(data, counted)] = Item(data, counted, offset)
    found = _kept(len(skeleton), list(items.values()), source.moves) if source is not None else None
    payloads = found or _in_order(len(skeleton), items.values())
    starts = dict(zip(items, (p.position for p in payloads), strict=True))
    for at, data, counted in references:
        start = starts[_key(data, counted)]
        if counted:
            _U32.pack_into(skeleton, at, (start - LENGTH - at) & 0xFFFFFFFF)
        else:
            _U64.pack_into(skeleton, at, start)
    payloads.sort(key=lambda payload: payload.position)
    end = payloads[-1].end if payloads else len(skeleton)
    return Encoded(skeleton, payloads, end, source)


def _key(data: Blob, counted: bool) -> Key:
    return data.place or id(data), counted


def _in_order(end: int, items: Iterable[Item]) -> list[Payload]:
    """One after the other, from ``end`` on."""
    payloads = []
    for item in items:
        payloads.append(item.at(fitting(end + LENGTH * item.counted, len(item.data), item.offset)))
        end = payloads[-1].end
    return payloads


def _kept(skeleton: int, items: Sequence[Item], moves: Sequence[Move]) -> list[Payload] | None:
    """Large data of the source where ``moves`` say, other data where there is room; None where that is bad.

    What is new takes the place of what went, if that was as long; else it goes behind the skeleton, or behind
    everything.
    """
    if not moves:
        return None
    free = {(move.start, move.size): move.position for move in moves}
    stays = [None if i.offset is None else free.pop((i.offset, len(i.data)), None) for i in items]
    left: dict[int, list[int]] = {}
    for (_, size), place in reversed(free.items()):
        left.setdefault(size, []).append(place)
    begin, tail = moves[0].position - LENGTH, moves[-1].position + moves[-1].size
    payloads = []
    for item, position in zip(items, stays, strict=True):
        size = len(item.data)
        if position is None and left.get(size):
            position = left[size].pop()
        if position is None:
            position = fitting(skeleton + LENGTH * item.counted, 0, None)
            if position + size <= begin:
                skeleton = position + size
            else:
                position = fitting(tail + LENGTH * item.counted, size, item.offset)
                tail = position + size
        payloads.append(item.at(position))
    wasted = sum(size * len(places) for size, places in left.items())
    is_good = skeleton <= begin and wasted * MAX_WASTE <= tail and _have_room(payloads)
    return payloads if is_good else None


def _have_room(payloads: Iterable[Payload]) -> bool:
    """Whether there is a place for the length before those that want one: data by position has none."""
    end = 0
    for payload in sorted(payloads, key=lambda payload: payload.position):
        if payload.counted and payload.position < end + LENGTH:
            return False
        end = payload.end
    return True
