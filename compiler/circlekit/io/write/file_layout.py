# SPDX-License-Identifier: Apache-2.0
"""The layout of a model file: a skeleton in memory, and the constant data behind it.

The skeleton holds every table, string and small vector.  Constant data follows in the order in which the
skeleton refers to it.  Data that is still unchanged in the file that the model was loaded from is not read:
``Encoded.parts`` gives it as a range of that file, which the kernel can copy.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from circlekit.io.origin import Place, Source
from circlekit.io.write.constant_bytes import ConstantBytes
from circlekit.io.write.file_writer import FileRange, Piece

ALIGNMENT_BYTES = 16
"""Constant data starts at a multiple of this many bytes from the start of the file."""

LENGTH_BYTES = 4
"""Size of the element count that precedes the data of a flatbuffer vector."""

MIN_RANGE_BYTES = 1 << 16
"""Shorter runs of unchanged data are written from memory: one system call per run would cost more."""

_U32 = struct.Struct("<I")
_U64 = struct.Struct("<Q")


class Reference(NamedTuple):
    """A field of the skeleton that refers to constant data.

    at: Position of the field in the skeleton.
    data: The bytes it refers to.
    is_vector: True for the offset of a flatbuffer vector, whose length precedes the data; False for the
        position of external data in the file.
    """

    at: int
    data: ConstantBytes
    is_vector: bool


class Payload(NamedTuple):
    """Constant data at ``position`` of the file; ``offset``: its position in the source file or None."""

    position: int
    data: ConstantBytes
    is_vector: bool
    offset: int | None

    @property
    def end(self) -> int:
        return self.position + len(self.data)

    def gap(self, start: int) -> bytes:
        """The bytes from ``start`` to the data: zero padding, and the length of a vector."""
        length = _U32.pack(len(self.data)) if self.is_vector else b""
        return length.rjust(self.position - start, b"\0")


@dataclass(eq=False, repr=False)
class Encoded:
    """A file to be written.  ``size``: bytes without ``tail``, which is appended as it is."""

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
        """The file in order, with unchanged data as ranges of the source file.

        Raises FileError if the source file was changed since it was loaded.  This is checked before the
        first and after the last part.
        """
        if self.source is not None:
            self.source.check()
        yield self.skeleton
        run = _Run(self.source)
        end = len(self.skeleton)
        for payload in self.payloads:
            gap = payload.gap(end)
            end = payload.end
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


def lay_out(skeleton: bytearray, references: Iterable[Reference], source: Source | None) -> Encoded:
    """Place constant data behind ``skeleton`` and fill in the fields that refer to it.

    Fields that refer to the same bytes in memory share one copy.
    """
    payloads: dict[tuple[Place | int, bool], Payload] = {}
    end = len(skeleton)
    for at, data, is_vector in references:
        key = data.place or id(data), is_vector
        payload = payloads.get(key)
        if payload is None:
            least = end + LENGTH_BYTES * is_vector
            offset = None if source is None else source.offset(data.place)
            payload = Payload(least + -least % ALIGNMENT_BYTES, data, is_vector, offset)
            payloads[key] = payload
            end = payload.end
        if is_vector:
            _U32.pack_into(skeleton, at, (payload.position - LENGTH_BYTES - at) & 0xFFFFFFFF)
        else:
            _U64.pack_into(skeleton, at, payload.position)
    return Encoded(skeleton, list(payloads.values()), end, source)


class _Run:
    """Consecutive payloads that are also consecutive, with the same gaps, in the source file."""

    def __init__(self, source: Source | None) -> None:
        self.source = source if source is not None and source.file is not None else None
        self.start = self.end = 0

    def start_at(self, offset: int | None, size: int) -> bool:
        """Start a run with the data at ``offset``; return False if the source file does not have it."""
        if self.source is None or offset is None:
            return False
        self.start, self.end = offset, offset + size
        return True

    def extend(self, gap: bytes, offset: int | None, size: int) -> bool:
        """Add the data at ``offset`` if it follows in the source, behind ``gap``; return whether it does."""
        if offset is None or self.end == self.start or self.end + len(gap) != offset:
            return False
        assert self.source is not None
        if self.source.data[self.end : offset] != gap:
            return False
        self.end = offset + size
        return True

    def take(self) -> Iterator[Piece]:
        """Yield the run, if there is one, and start over."""
        if self.source is None or self.source.file is None or self.end == self.start:
            return
        whole = FileRange(self.source.file, self.start, self.end - self.start)
        yield whole if whole.size >= MIN_RANGE_BYTES else whole.view
        self.start = self.end = 0
