# SPDX-License-Identifier: Apache-2.0
"""A file in pieces: its skeleton, and the constant data behind it.

What is still as it was in the file that the model came from is not read but left to be copied from there,
neighbours at once.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from circlekit.io.read.buffer_data import Blob
from circlekit.io.uninterpreted import Source
from circlekit.io.write.output import FileRange, Piece

MIN_RANGE = 1 << 16
"""Fewer bytes are quicker to read and write than to have copied."""

ZEROS = bytes(1 << 16)
"""What is between constants is written in pieces of this size."""

_U32 = struct.Struct("<I")


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

    def gap(self, at: int) -> Iterator[bytes]:
        """What is between ``at`` and the data: zeros, and the length."""
        head = _U32.pack(len(self.data)) if self.counted else b""
        zeros = self.position - len(head) - at
        for _ in range(zeros // len(ZEROS)):
            yield ZEROS
        yield bytes(zeros % len(ZEROS)) + head


@dataclass(eq=False, repr=False)
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
            gap = list(payload.gap(at))
            at = payload.end
            if len(gap) == 1 and run.extend(gap[0], payload.offset, len(payload.data)):
                continue
            yield from run.take()
            yield from gap
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
