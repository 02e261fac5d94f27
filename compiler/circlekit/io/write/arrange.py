# SPDX-License-Identifier: Apache-2.0
"""Where the constant data of a file goes, behind its skeleton.

In the order of the buffers; large data that is still in the file that the model came from keeps its place
within a page.  Where that file is large, the places are those of ``moves``, unless the skeleton needs the
room or too much of it would be left empty.  In a large file small data comes first.
"""

from __future__ import annotations

import struct
from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple

from circlekit.io import moves
from circlekit.io.moves import ALIGNMENT, LENGTH, Move, fitting
from circlekit.io.read.buffer_data import Blob
from circlekit.io.uninterpreted import Place, Source
from circlekit.io.write.file_layout import Encoded, Payload

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
    found = _kept(len(skeleton), items.values(), source.moves) if source is not None else None
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


def _in_order(skeleton: int, items: Collection[Item]) -> list[Payload]:
    """One after the other; large data of a large file where ``moves`` would have it in the next round."""
    large = sum(len(item.data) for item in items if len(item.data) >= moves.LARGE)
    least, tail = 0, skeleton
    if large >= moves.LARGE_FILE:
        least = moves.LARGE
        small = sum(len(item.data) + ALIGNMENT + LENGTH for item in items if len(item.data) < least)
        tail = moves.room(skeleton + small)
    head = skeleton
    payloads = []
    for item in items:
        size = len(item.data)
        position = fitting((head if size < least else tail) + LENGTH * item.counted, size, item.offset)
        payloads.append(item.at(position))
        if size < least:
            head = position + size
        else:
            tail = position + size
    return payloads


def _kept(skeleton: int, items: Collection[Item], places: Sequence[Move]) -> list[Payload] | None:
    """Large data of the source at its ``places``, small data behind the skeleton; None where that is bad.

    What is new takes the place of what went, if that was as long; else it goes behind everything.
    """
    if not places:
        return None
    free = {(move.start, move.size): move.position for move in places}
    stays = [None if i.offset is None else free.pop((i.offset, len(i.data)), None) for i in items]
    left: dict[int, list[int]] = {}
    for (_, size), place in reversed(free.items()):
        left.setdefault(size, []).append(place)
    head, begin, tail = skeleton, places[0].position - LENGTH, sum(places[-1][1:])
    payloads = []
    for item, position in zip(items, stays, strict=True):
        size = len(item.data)
        if position is None and left.get(size):
            position = left[size].pop()
        if position is None and size < moves.LARGE:
            position = fitting(head + LENGTH * item.counted, size, None)
            head = position + size
        elif position is None:
            position = fitting(tail + LENGTH * item.counted, size, item.offset)
            tail = position + size
        payloads.append(item.at(position))
    parts = [(p.position, len(p.data)) for p in payloads if p.position >= begin]
    is_good = moves.is_room(head, begin) and not moves.is_wasteful(parts, begin, tail)
    return payloads if is_good and _have_room(payloads) else None


def _have_room(payloads: Iterable[Payload]) -> bool:
    """Whether there is a place for the length before those that want one: data by position has none."""
    end = 0
    for payload in sorted(payloads, key=lambda payload: payload.position):
        if payload.counted and payload.position < end + LENGTH:
            return False
        end = payload.end
    return True
