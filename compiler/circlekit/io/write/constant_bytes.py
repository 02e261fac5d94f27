# SPDX-License-Identifier: Apache-2.0
"""The bytes of constant data as a file has them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from circlekit.io.origin import Place, place_of
from circlekit.ir import array_bytes as content
from circlekit.ir.value import Array


class ConstantBytes:
    """``len`` is the number of bytes; ``place`` is where they are in memory, None where they are not."""

    __slots__ = ("_digest", "array", "dtype", "place")

    def __init__(self, data: Any, dtype: np.dtype[Any] | None = None) -> None:
        """``data``: an array, or something with a buffer.  ``dtype``: that of the file, if it is another."""
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
        """The bytes, in order: at once where they are in memory, else in pieces."""
        return content.chunks(self.array, self.dtype)

    def sample(self) -> bytes:
        """Equal for equal bytes, and cheap whatever the length."""
        return content.sample(self.array, self.dtype)

    def digest(self) -> bytes:
        """Equal for equal bytes only; found once."""
        self._digest = self._digest or content.digest(self.array, self.dtype)
        return self._digest


def as_constant_bytes(data: Any) -> ConstantBytes:
    """``data``, which may be one already."""
    return data if isinstance(data, ConstantBytes) else ConstantBytes(data)
