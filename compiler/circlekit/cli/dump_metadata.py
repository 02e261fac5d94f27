# SPDX-License-Identifier: Apache-2.0
"""Print ONE's metadata tables: the names of operators, and which operators each one was made from."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator

_WORD = struct.Struct("<I")


def metadata_lines(name: str, data: bytes) -> Iterator[str]:
    """Yield a line for each entry of a known table; nothing for other metadata."""
    head, entry = _TABLES.get(name, ("", None))
    if entry is None or not data:
        return
    yield f"    [{head}]"
    try:
        yield from (f"    [{line}]" for line in entry(data))
    except struct.error:
        yield f"    (the table is truncated after {len(data)} bytes)"


def _sources(data: bytes) -> Iterator[str]:
    """Decode the number of entries, then id, length and zero-terminated text of each."""
    (count,) = _WORD.unpack_from(data, 0)
    at = 4
    for _ in range(count):
        number, length = struct.unpack_from("<II", data, at)
        (text,) = struct.unpack_from(f"{length}s", data, at + 8)
        at += 8 + length
        yield f"{number} : {text[:-1].decode('utf-8', 'replace')}"


def _origins(data: bytes) -> Iterator[str]:
    """Decode the number of entries, then id, count and origin ids of each."""
    (count,) = _WORD.unpack_from(data, 0)
    at = 4
    for _ in range(count):
        number, length = struct.unpack_from("<II", data, at)
        origins = struct.unpack_from(f"<{length}I", data, at + 8)
        at += 8 + 4 * length
        yield f"{number} : {', '.join(map(str, origins))}"


_TABLES: dict[str, tuple[str, Callable[[bytes], Iterator[str]]]] = {
    "ONE_source_table": ("node_id : node_name", _sources),
    "ONE_op_table": ("node_id : origin_ids", _origins),
    "source_table": ("node_id : node_name", _sources),
    "op_table": ("node_id : origin_ids", _origins),
}
