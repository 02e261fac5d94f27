# SPDX-License-Identifier: Apache-2.0
"""A file to be written: a skeleton in memory, and constants that are copied from where they are."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from circlekit.io.file_map import FileMap
from circlekit.io.write.buffer_table import ConstantBytes
from circlekit.io.write.file_writer import Piece

_U32 = struct.Struct("<I")


class Payload(NamedTuple):
    """Data that stand at ``position`` in the file: a vector of the flatbuffer, or external data.

    The table of a buffer or operator with external data has their position and size.
    """

    position: int
    data: ConstantBytes
    is_vector: bool

    @property
    def end(self) -> int:
        return self.position + len(self.data)

    def gap(self, start: int) -> bytes:
        """Return the bytes between position ``start`` and the data: zeros, then, for a vector, its length."""
        length = _U32.pack(len(self.data)) if self.is_vector else b""
        return length.rjust(self.position - start, b"\0")


@dataclass(eq=False, repr=False)
class Encoded:
    """A file to be written.

    ``skeleton``: everything except the payloads.  ``payloads``: the data of buffers, and custom options that
    are external data, in the order of their positions.
    ``sources``: maps of files; the data of payloads may be views of these maps.
    ``tail``: the bytes after the payloads: the zip archive at the end of the input file, or b"".
    """

    skeleton: bytearray | memoryview
    payloads: list[Payload]
    sources: Sequence[FileMap] = ()
    tail: bytes = b""

    @property
    def size(self) -> int:
        """The number of bytes of the file."""
        return (self.payloads[-1].end if self.payloads else len(self.skeleton)) + len(self.tail)

    def pieces(self) -> Iterator[Piece]:
        """Yield the bytes of the file, in order.

        Raise FileError if a source file was changed after it was loaded.  This is checked before the first
        piece and after the last one.
        """
        for source in self.sources:
            source.check()
        yield self.skeleton
        end = len(self.skeleton)
        for payload in self.payloads:
            yield payload.gap(end)
            yield from payload.data.chunks()
            end = payload.end
        yield self.tail
        for source in self.sources:
            source.check()
