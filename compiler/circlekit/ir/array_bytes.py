# SPDX-License-Identifier: Apache-2.0
"""The bytes of an array in the order of its elements, made piece by piece: arrays of any size and strides are
written and compared without a copy of the whole.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Any

import numpy as np

from circlekit.ir.value import Array

CHUNK = 1 << 22
"""At most this many bytes of what is not in memory in that order are made at a time."""

SAMPLE = 4096
"""So many bytes at either end tell most arrays of one size apart."""


def chunks(array: Array, dtype: np.dtype[Any] | None = None) -> Iterator[memoryview]:
    """The bytes as ``dtype``, by default as they are: at once where they are in memory, else in pieces."""
    dtype = array.dtype if dtype is None else dtype
    if array.flags.c_contiguous and dtype == array.dtype:
        yield _bytes_of(array)
    elif array.size:
        for part in _parts(array, CHUNK // dtype.itemsize):
            yield _bytes_of(np.ascontiguousarray(part, dtype))


def sample(array: Array, dtype: np.dtype[Any] | None = None) -> bytes:
    """Up to ``SAMPLE`` bytes of either end: equal for equal bytes, and cheap whatever the size."""
    if array.nbytes <= 2 * SAMPLE:
        return np.asarray(array, dtype).tobytes()
    count = SAMPLE // array.itemsize
    flat = array.reshape(-1) if array.flags.c_contiguous else array.flat
    ends = (flat[:count], flat[max(0, array.size - count) :])
    return b"".join(np.asarray(end, dtype).tobytes() for end in ends)


def digest(array: Array, dtype: np.dtype[Any] | None = None) -> bytes:
    """The BLAKE2b hash of the bytes: equal for equal bytes only."""
    state = hashlib.blake2b(digest_size=32)
    for chunk in chunks(array, dtype):
        state.update(chunk)
    return state.digest()


def _bytes_of(array: Array) -> memoryview:
    """The memory of a contiguous array."""
    return array.reshape(-1).view(np.uint8).data


def _parts(array: Array, limit: int) -> Iterator[Array]:
    """Cut ``array``, in the order of its elements, into parts of at most ``limit`` elements."""
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
