# SPDX-License-Identifier: Apache-2.0
"""Where the constant data of a file goes, behind its skeleton, and the file in pieces.

What is still as it was in the file that the model came from is not read but left to be copied from there,
neighbours at once.  The kernel copies whole pages faster than parts of them (and shares them where the file
system can), so large data of that file keeps its place within a page.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from circlekit.io.blob import Blob
from circlekit.io.origin import Place, Source
from circlekit.io.output import PAGE, FileRange, Piece

ALIGNMENT = 16
"""Constant data starts at multiples of this many bytes from the start of the file."""

LARGE = 1 << 20
"""Data of this many bytes may be moved by up to a page."""

MIN_RANGE = 1 << 16
"""Fewer bytes are quicker to read and write than to have copied."""

_U32 = struct.Struct("<I")
_U64 = struct.Struct("<Q")


class Reference(NamedTuple):
    """``at``: of the field that refers to ``data``; ``counted``: to a vector, with its length before it."""

    at: int
    data: Blob
    counted: bool


class Payload(NamedTuple):
    """Constant data behind the skeleton: where it starts, its bytes, whether a length goes before it.

    ``offset``: where it is in the source, None where it is not.
    """

    position: int
    data: Blob
    counted: bool
    offset: int | None

    @property
    def end(self) -> int:
        return self.position + len(self.data)

    def gap(self, at: int) -> bytes:
        """What is between ``at`` and the data: zeros, and the length."""
        head = _U32.pack(len(self.data)) if self.counted else b""
        return bytes(self.position - len(head) - at) + head


@dataclass
class Encoded:
    """A file in pieces.  ``size``: without ``tail``, which comes last."""

    skeleton: bytearray
    payloads: list[Payload]
    size: int
    source: Source | None = None
    tail: bytes = b""

    def pieces(self) -> Iterator[bytes | bytearray | memoryview]:
        """The bytes of the file, in order."""
        for piece in self.parts():
            yield piece.view if isinstance(piece, FileRange) else piece

    def parts(self) -> Iterator[Piece]:
        """The file in order; what is to be copied from the source as ranges of that.

        FileError where the source is not what it was; the last time when all is read and copied.
        """
        if self.source is not None:
            self.source.check()
        yield self.skeleton
        run = _Run(self.source)
        at = len(self.skeleton)
        for payload in self.payloads:
            gap = payload.gap(at)
            at = payload.end
            if run.extend(gap, payload.offset, len(payload.data)):
                continue
            yield from run.take()
            yield gap
            if not run.start_at(payload.offset, len(payload.data)):
                yield from payload.data.chunks()
        yield from run.take()
        yield self.tail
        if self.source is not None:
            self.source.check()


class _Run:
    """Data that follows each other in the source as it will in the new file."""

    def __init__(self, source: Source | None) -> None:
        self.source = source if source is not None and source.file is not None else None
        self.start = self.end = 0

    def start_at(self, offset: int | None, size: int) -> bool:
        """Begin with data at ``offset``; False where it is not in the source."""
        if self.source is None or offset is None:
            return False
        self.start, self.end = offset, offset + size
        return True

    def extend(self, gap: bytes, offset: int | None, size: int) -> bool:
        """Take in the next data too, if it comes next in the source, with ``gap`` before it."""
        if offset is None or self.end == self.start or self.end + len(gap) != offset:
            return False
        assert self.source is not None
        if self.source.data[self.end : offset] != gap:
            return False
        self.end = offset + size
        return True

    def take(self) -> Iterator[Piece]:
        """What was gathered, if anything; then there is nothing."""
        if self.source is None or self.source.file is None or self.end == self.start:
            return
        whole = FileRange(self.source.file, self.start, self.end - self.start)
        yield whole if whole.size >= MIN_RANGE else whole.view
        self.start = self.end = 0


def place(skeleton: bytearray, references: Iterable[Reference], source: Source | None) -> Encoded:
    """Put data behind ``skeleton``, once what several fields have of one place, and fill in the fields."""
    payloads: list[Payload] = []
    placed: dict[tuple[Place | int, bool], int] = {}
    end = len(skeleton)
    for at, data, counted in references:
        key = (data.place or id(data), counted)
        start = placed.get(key, 0)
        if not start:
            offset = source.offset(data.place) if source is not None else None
            start = placed[key] = _position(end + 4 * counted, len(data), offset)
            payloads.append(Payload(start, data, counted, offset))
            end = start + len(data)
        if counted:
            _U32.pack_into(skeleton, at, (start - 4 - at) & 0xFFFFFFFF)
        else:
            _U64.pack_into(skeleton, at, start)
    return Encoded(skeleton, payloads, end, source)


def _position(least: int, size: int, offset: int | None) -> int:
    """The first place from ``least`` on for ``size`` bytes, which are at ``offset`` in the source."""
    if offset is not None and size >= LARGE and offset % ALIGNMENT == 0:
        return least + (offset - least) % PAGE
    return least + -least % ALIGNMENT
