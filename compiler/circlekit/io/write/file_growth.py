# SPDX-License-Identifier: Apache-2.0
"""Explain why a written file is larger than the file that its model was read from."""

from __future__ import annotations

from circlekit.io.origin import Origin, place_of
from circlekit.io.write.encoded_file import Encoded


def explain_growth(origin: Origin, old_size: int, file: Encoded) -> str:
    """Return ``grew by N bytes: ...`` with the growth of constants and metadata, and of the rest of the file.

    The result is "" if the file did not grow.  ``origin``, ``old_size``: the file that was read, and its size
    in bytes.  ``file``: the new file.  Custom options that are external data count as constants.  The rest of
    a file is its tables, and the padding that aligns tables and constants.  An attached zip archive is
    copied, so it does not grow.
    """
    growth = file.size - old_size
    if growth <= 0:
        return ""
    old = (*origin.buffers, *origin.far_options)
    places = {place_of(data) for data in old if data is not None}  # a set: they may share bytes
    constants = sum(len(payload.data) for payload in file.payloads) - sum(length for _, length in places)
    parts = {"constants and metadata": constants, "tables and alignment": growth - constants}
    listed = ", ".join(f"{name} {change:+,}" for name, change in parts.items() if change)
    return f"grew by {growth:,} bytes: {listed}"
