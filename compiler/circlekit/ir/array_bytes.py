# SPDX-License-Identifier: Apache-2.0
"""Read, sample and hash the bytes of an array in C order without a copy of the whole array."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Any

import numpy as np

from circlekit.ir.value import Array

CHUNK_BYTES = 1 << 22
"""The largest piece that is copied at a time if an array is not contiguous or needs another dtype."""

SAMPLE_BYTES = 4096
"""The number of bytes that a sample takes from each end of an array; few different arrays have equal ends."""


def chunks(array: Array, dtype: np.dtype[Any] | None = None) -> Iterator[memoryview]:
    """Yield the bytes of ``array`` in C order, converted to ``dtype`` (None: its own dtype).

    A C-contiguous array of this dtype gives one view.  Other arrays give pieces of at most CHUNK_BYTES each.
    """
    dtype = array.dtype if dtype is None else dtype
    if array.flags.c_contiguous and dtype == array.dtype:
        yield bytes_of(array)
    elif array.size:
        for part in _parts(array, CHUNK_BYTES // dtype.itemsize):
            yield bytes_of(np.ascontiguousarray(part, dtype))


def sample(array: Array, dtype: np.dtype[Any] | None = None) -> bytes:
    """Return some bytes of ``array``, converted to ``dtype``: those at both ends, or all if there are few.

    Two arrays have equal samples if their elements are equal after the conversion, and their own dtypes have
    the same size.
    """
    if array.nbytes <= 2 * SAMPLE_BYTES:
        return np.asarray(array, dtype).tobytes()
    count = SAMPLE_BYTES // array.itemsize
    flat = array.reshape(-1) if array.flags.c_contiguous else array.flat
    ends = (flat[:count], flat[array.size - count :])
    return b"".join(np.asarray(end, dtype).tobytes() for end in ends)


def digest(array: Array, dtype: np.dtype[Any] | None = None) -> bytes:
    """Return the BLAKE2b hash (32 bytes) of the bytes of ``array`` converted to ``dtype``."""
    state = hashlib.blake2b(digest_size=32)
    for chunk in chunks(array, dtype):
        state.update(chunk)
    return state.digest()


def bytes_of(array: Array) -> memoryview:
    """Return a view of the bytes of a C-contiguous array."""
    return array.reshape(-1).view(np.uint8).data


def _parts(array: Array, max_elements: int) -> Iterator[Array]:
    """Yield the elements of ``array`` in C order, as views of at most ``max_elements`` elements each."""
    if array.size <= max_elements:
        yield array
        return
    row_elements = array.size // len(array)
    if row_elements > max_elements:
        for row in array:
            yield from _parts(row, max_elements)
        return
    rows = max_elements // row_elements
    for start in range(0, len(array), rows):
        yield array[start : start + rows]
