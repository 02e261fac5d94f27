# SPDX-License-Identifier: Apache-2.0
"""The layout of a model file: a skeleton in memory, and the constant data behind it.

The skeleton holds every table, string and small vector.  Constant data follows in the order in which the
skeleton refers to it.  Unchanged data is a view of the map of the file that the model was loaded from.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from circlekit.io.file_map import FileMap
from circlekit.io.origin import Place
from circlekit.io.write.buffer_table import ConstantBytes
from circlekit.io.write.file_writer import Piece

ALIGNMENT_BYTES = 16
"""Constant data starts at a multiple of this many bytes from the start of the file."""

LENGTH_BYTES = 4
"""Size of the element count that precedes the data of a flatbuffer vector."""

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
    """Constant data at ``position`` of the file."""

    position: int
    data: ConstantBytes
    is_vector: bool

    @property
    def end(self) -> int:
        return self.position + len(self.data)

    def gap(self, start: int) -> bytes:
        """The bytes from ``start`` to the data: zero padding, and the length of a vector."""
        length = _U32.pack(len(self.data)) if self.is_vector else b""
        return length.rjust(self.position - start, b"\0")


@dataclass(eq=False, repr=False)
class Encoded:
    """A file to be written.

    size: Bytes without ``tail``, which is appended as it is.
    source: The map of the file that the model was loaded from, if constants are views of it.
    """

    skeleton: bytearray
    payloads: list[Payload]
    size: int
    source: FileMap | None = None
    tail: bytes = b""

    def pieces(self) -> Iterator[Piece]:
        """Yield the bytes of the file, in order.

        Raises FileError if the source file was changed since it was loaded.  This is checked before the
        first and after the last piece.
        """
        if self.source is not None:
            self.source.check()
        yield self.skeleton
        end = len(self.skeleton)
        for payload in self.payloads:
            yield payload.gap(end)
            yield from payload.data.chunks()
            end = payload.end
        yield self.tail
        if self.source is not None:
            self.source.check()


def lay_out(skeleton: bytearray, references: Iterable[Reference]) -> Encoded:
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
            payload = payloads[key] = Payload(least + -least % ALIGNMENT_BYTES, data, is_vector)
            end = payload.end
        if is_vector:
            _U32.pack_into(skeleton, at, (payload.position - LENGTH_BYTES - at) & 0xFFFFFFFF)
        else:
            _U64.pack_into(skeleton, at, payload.position)
    return Encoded(skeleton, list(payloads.values()), end)
