# SPDX-License-Identifier: Apache-2.0
"""Arrays of strings: bytes objects (dtype object) in memory, a fixed length (dtype S) in npy and HDF5 files.

Zeros at the end of a string are lost in such a file.
"""

from __future__ import annotations

import numpy as np

from circlekit.errors import FormatError, counted
from circlekit.ir.resources.resource_limits import need_memory
from circlekit.ir.value import Array

BYTES_OBJECT_BYTES = 64
"""The memory of a short bytes object and of the references to it."""


def with_fixed_length(array: Array) -> Array:
    """Return an array of bytes objects as strings of a fixed length, and any other array unchanged."""
    return array.astype("S") if array.dtype == object else array


def with_bytes_objects(array: Array, place: str) -> Array:
    """Return an array of strings (dtype S or U) as bytes objects (dtype object), and any other unchanged.

    Raise LimitError if the bytes objects need too much memory.  Raise FormatError, which names ``place``, if
    a string of dtype U has a number that is no Unicode character, such as a surrogate.
    """
    if array.dtype.kind not in "SU":
        return array
    need_memory(array.size * BYTES_OBJECT_BYTES, counted(array.size, "string"))
    try:
        texts = [t if isinstance(t, bytes) else t.encode() for t in array.reshape(-1).tolist()]
    except (ValueError, SystemError):  # numpy's tolist raises SystemError for a number above 0x10FFFF
        raise FormatError(f"{place}: expected strings of Unicode characters, got others") from None
    return np.array(texts, object).reshape(array.shape)
