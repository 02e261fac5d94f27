# SPDX-License-Identifier: Apache-2.0
"""Explain why a written file is larger than the file that its model was read from."""

from __future__ import annotations

from circlekit.io.origin import Origin, place_of
from circlekit.io.write.encoded_file import Encoded


def explain_growth(origin: Origin, old_size: int, file: Encoded) -> str:
    """Return ``grew by N bytes: ...`` with the growth of each part of the file; "" if it did not grow.

    ``origin``, ``old_size``: the file that was read, and its size in bytes.  In that file, padding and tables
    cannot be distinguished; both count as tables.  ``file``: the new file.  Its parts: ``skeleton`` (tables),
    ``payloads`` (constants, with padding before them), and ``tail`` (the zip archive of the old file, which
    does not grow).
    """
    if file.size <= old_size:
        return ""
    places = {place_of(data) for data in origin.buffers if data is not None}  # a set: buffers may share bytes
    old_constants = sum(length for _, length in places)
    old_tables = old_size - old_constants - len(origin.archive)
    constants = sum(len(payload.data) for payload in file.payloads)
    padding = file.size - len(file.skeleton) - constants - len(file.tail)
    tables = len(file.skeleton) - old_tables
    if tables < 0:  # at least ``-tables`` bytes of the old file were padding: padding grew by less
        tables, padding = 0, padding + tables
    parts = {
        "constants": constants - old_constants,
        "tables of operators and tensors": tables,
        "alignment of constants to 16 bytes": padding,
    }
    listed = ", ".join(f"{name} {change:+,}" for name, change in parts.items() if change)
    return f"grew by {file.size - old_size:,} bytes: {listed}"
