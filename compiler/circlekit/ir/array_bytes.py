# SPDX-License-Identifier: Apache-2.0
"""The bytes of an array in C order, piece by piece, without a copy of the whole array for any strides."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Any

import numpy as np

from circlekit.ir.value import Array

CHUNK_BYTES = 1 << 22
"""Size of the pieces of an array that is not contiguous."""

SAMPLE_BYTES = 4096
"""Size of the sample at either end of an array, which tells most arrays of one size apart."""


def chunks(array: Array, dtype: np.dtype[Any] | None = None) -> Iterator[memoryview]:
    """Yield the bytes of ``array`` as ``dtype``: one view if it has that dtype and order, else pieces."""
    dtype = array.dtype if dtype is None else dtype
    if array.flags.c_contiguous and dtype == array.dtype:
        yield bytes_of(array)
    elif array.size:
        for part in _parts(array, CHUNK_BYTES // dtype.itemsize):
            yield bytes_of(np.ascontiguousarray(part, dtype))


def sample(array: Array, dtype: np.dtype[Any] | None = None) -> bytes:
    """Return up to ``SAMPLE_BYTES`` bytes of either end; equal arrays have equal samples."""
    if array.nbytes <= 2 * SAMPLE_BYTES:
        return np.asarray(array, dtype).tobytes()
    count = SAMPLE_BYTES // array.itemsize
    flat = array.reshape(-1) if array.flags.c_contiguous else array.flat
    ends = (flat[:count], flat[max(0, array.size - count) :])
    return b"".join(np.asarray(end, dtype).tobytes() for end in ends)


def digest(array: Array, dtype: np.dtype[Any] | None = None) -> bytes:
    """Return the BLAKE2b hash of the bytes."""
    state = hashlib.blake2b(digest_size=32)
    for chunk in chunks(array, dtype):
        state.update(chunk)
    return state.digest()


def bytes_of(array: Array) -> memoryview:
    """Return a view of the bytes of a contiguous array."""
    return array.reshape(-1).view(np.uint8).data


def _parts(array: Array, limit: int) -> Iterator[Array]:
    """Cut ``array``, in C order, into parts of at most ``limit`` elements."""
    if array.size <= limit:
        yield array
        return
    row = array.size // len(array)
    if row > limit:
        for item in array:
            yield from _parts(item, limit)
        return
    count = limit // row
    for start in range(0, len(array), count):
        yield array[start : start + count]
