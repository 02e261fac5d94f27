# SPDX-License-Identifier: Apache-2.0
"""Find the zip archive (labels, vocabularies) that TFLite's metadata tools append to a model.

A zip archive consists of the zipped files, a central directory with one entry per file, and an end record.
Each part begins with a signature: PK 3 4 a zipped file, PK 1 2 an entry, PK 5 6 the end record.
Offsets in the archive count either from the start of the model file or from the start of the archive.
"""

from __future__ import annotations

import struct

_END = struct.Struct("<4s4HIIH")
"""The end record: signature, 3 unused fields, number of entries, size and offset of the directory, comment
length."""

_ENTRY = struct.Struct("<4s24x3H8xI")
"""A directory entry: signature, lengths of name, extra field and comment, offset of the zipped file."""

ENTRY_OFFSET_FIELD = 42
"""The position, within a directory entry, of the field that holds the offset of the zipped file."""

DIRECTORY_OFFSET_FIELD = 16
"""The position, within the end record, of the field that holds the offset of the directory."""

MAX_COMMENT_BYTES = 0xFFFF  # the comment, the last part of the end record, has a 16-bit length


def attached_archive(data: memoryview) -> bytes:
    """Return the zip archive at the end of a model file; b"" if there is none, or if it has no files.

    An archive does not count if its directory, or the signature of its first file, is malformed; the other
    files are not checked.  Offsets in the returned archive count from its own start.
    """
    tail = bytes(data[-_END.size - MAX_COMMENT_BYTES :])
    at = len(tail) - _END.size + 4  # the signature may occur in the comment, which ends the file
    while (at := tail.rfind(b"PK\5\6", 0, at)) >= 0:
        if int.from_bytes(tail[at + _END.size - 2 : at + _END.size], "little") == len(tail) - at - _END.size:
            break
    else:
        return b""
    end = len(data) - len(tail) + at
    _, _, _, _, count, size, offset, _ = _END.unpack_from(data, end)
    position = directory = end - size  # the directory ends where the end record begins
    if directory < 0:
        return b""
    shift = directory - offset  # the position in the model file from which the offsets count
    places: dict[int, int] = {}  # the offset of each zipped file, by the position of the field that holds it
    for _ in range(count):
        if position + _ENTRY.size > end:
            return b""
        signature, *lengths, places[position + ENTRY_OFFSET_FIELD] = _ENTRY.unpack_from(data, position)
        if signature != b"PK\1\2":
            return b""
        position += _ENTRY.size + sum(lengths)
    start = min(places.values(), default=offset) + shift  # the archive begins with its first zipped file
    if not 0 <= start < directory or bytes(data[start : start + 4]) != b"PK\3\4":
        return b""
    archive = bytearray(data[start:])
    for field, place in places.items():
        struct.pack_into("<I", archive, field - start, place + shift - start)
    struct.pack_into("<I", archive, end - start + DIRECTORY_OFFSET_FIELD, directory - start)
    return bytes(archive)
