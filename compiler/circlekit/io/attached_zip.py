# SPDX-License-Identifier: Apache-2.0
"""Find the zip archive (labels, vocabularies) that TFLite's metadata tools append to a model.

Layout of a zip file: the files, then a central directory with one entry per file, then an end record.
Offsets in the directory count from the start of the whole model file or from the start of the archive.
"""

from __future__ import annotations

import struct

_END = struct.Struct("<4s4HIIH")
"""End record: signature, 3 unused, number of entries, size and offset of the directory, comment length."""

_ENTRY = struct.Struct("<4s24x3H8xI")
"""Directory entry: signature, lengths of name, extra field and comment, offset of the file."""

ENTRY_OFFSET_FIELD = 42
"""Position, within an entry, of the offset of the file."""

DIRECTORY_OFFSET_FIELD = 16
"""Position, within the end record, of the offset of the directory."""

MAX_COMMENT_BYTES = 0xFFFF  # the comment, the last part of the end record, has a 16-bit length


def attached_archive(data: memoryview) -> bytes:
    """Return the archive at the end of a file, with offsets from its own start; b"" if there is none."""
    tail_start = max(0, len(data) - _END.size - MAX_COMMENT_BYTES)
    end = tail_start + bytes(data[tail_start:]).rfind(b"PK\5\6")
    if end < tail_start or end + _END.size > len(data):
        return b""
    _, _, _, _, count, size, offset, comment = _END.unpack_from(data, end)
    position = directory = end - size
    if end + _END.size + comment != len(data) or directory < 0:
        return b""
    shift = directory - offset  # position in the file from which offsets count
    places: dict[int, int] = {}  # the offset of each zipped file, by the position of its field in the model
    for _ in range(count):
        if position + _ENTRY.size > end:
            return b""
        signature, *lengths, places[position + ENTRY_OFFSET_FIELD] = _ENTRY.unpack_from(data, position)
        if signature != b"PK\1\2":
            return b""
        position += _ENTRY.size + sum(lengths)
    start = min(places.values(), default=offset) + shift
    if not 0 <= start < directory or bytes(data[start : start + 4]) != b"PK\3\4":
        return b""
    archive = bytearray(data[start:])
    for field, place in places.items():
        struct.pack_into("<I", archive, field - start, place + shift - start)
    struct.pack_into("<I", archive, end - start + DIRECTORY_OFFSET_FIELD, directory - start)
    return bytes(archive)
