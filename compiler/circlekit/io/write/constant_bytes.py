# SPDX-License-Identifier: Apache-2.0
"""Constant data as the bytes of a file, without a copy where the array already has them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from circlekit.io.origin import Place, place_of
from circlekit.ir import array_bytes as content
from circlekit.ir.value import Array


class ConstantBytes:
    """The bytes of an array in the order and byte order of a file.

    ``len`` is the number of bytes.  ``place`` is where they are in memory; None if the array is not
    contiguous or is stored as another type.
    """

    __slots__ = ("_digest", "array", "dtype", "place")

    def __init__(self, data: Any, dtype: np.dtype[Any] | None = None) -> None:
        """``data``: an array or an object with a buffer.  ``dtype``: the type in the file, if it differs."""
        elements = isinstance(data, np.ndarray | np.generic)
        array: Array = np.asarray(data) if elements else np.frombuffer(data, np.uint8)
        self.array = array
        self.dtype = array.dtype if dtype is None else dtype
        is_there = array.flags.c_contiguous and self.dtype == array.dtype
        self.place: Place | None = place_of(array) if is_there else None
        self._digest = b""

    def __len__(self) -> int:
        return self.array.size * self.dtype.itemsize

    def chunks(self) -> Iterator[memoryview]:
        """Yield the bytes in order: in one piece if they are in memory, else in pieces of a few MiB."""
        return content.chunks(self.array, self.dtype)

    def sample(self) -> bytes:
        """Return some of the bytes: equal for equal data, and cheap for any length."""
        return content.sample(self.array, self.dtype)

    def digest(self) -> bytes:
        """Return a digest of all bytes; computed once."""
        self._digest = self._digest or content.digest(self.array, self.dtype)
        return self._digest


def as_constant_bytes(data: Any) -> ConstantBytes:
    """Return ``data`` as ConstantBytes, which it may be already."""
    return data if isinstance(data, ConstantBytes) else ConstantBytes(data)
