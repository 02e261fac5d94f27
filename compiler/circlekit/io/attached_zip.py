# SPDX-License-Identifier: Apache-2.0
"""The zip archive that TFLite's metadata tools append to a model (labels, vocabularies), kept as it is."""

from __future__ import annotations

import struct

_END = struct.Struct("<4s4HIIH")
_ENTRY = struct.Struct("<4s24x3H8xI")
"""Of an entry of the central directory: signature, lengths of name, extra and comment, place of the file."""

MAX_COMMENT = 0xFFFF


def attached_archive(data: memoryview) -> bytes:
    """The archive at the end of a file, with offsets from its own start; empty where there is none."""
    tail_start = max(0, len(data) - _END.size - MAX_COMMENT)
    end = tail_start + bytes(data[tail_start:]).rfind(b"PK\5\6")
    if end < tail_start or end + _END.size > len(data):
        return b""
    _, _, _, _, count, size, offset, comment = _END.unpack_from(data, end)
    directory = end - size
    if end + _END.size + comment != len(data) or directory < 0:
        return b""
    entries = _entries(data[:end], directory, count)
    shift = directory - offset
    start = min((place for _, place in entries), default=offset) + shift
    if not 0 <= start < directory or bytes(data[start : start + 4]) != b"PK\3\4":
        return b""
    archive = bytearray(data[start:])
    for at, place in entries:
        struct.pack_into("<I", archive, at - start + 42, place + shift - start)
    struct.pack_into("<I", archive, end - start + 16, directory - start)
    return bytes(archive)


def _entries(data: memoryview, at: int, count: int) -> list[tuple[int, int]]:
    """(where it is, the place it tells) of the entries of the central directory; none where one is broken."""
    out = []
    for _ in range(count):
        if at + _ENTRY.size > len(data):
            return []
        signature, name, extra, comment, place = _ENTRY.unpack_from(data, at)
        if signature != b"PK\1\2":
            return []
        out.append((at, place))
        at += _ENTRY.size + name + extra + comment
    return out
