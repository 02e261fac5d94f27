# SPDX-License-Identifier: Apache-2.0
"""Choose a buffer of the new file for each constant; a new constant shares the buffer of an equal one."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from circlekit.io.origin import Origin, Place, place_of
from circlekit.io.schema import Tree
from circlekit.ir import array_bytes as content
from circlekit.ir.value import Array


class ConstantBytes:
    """The bytes of an array as the file stores them.

    ``len`` is the number of bytes.  ``place``: address and size of the bytes in memory; None if the array is
    not contiguous or the file stores another dtype.
    """

    __slots__ = ("_digest", "array", "dtype", "place")

    def __init__(self, data: Any, dtype: np.dtype[Any] | None = None) -> None:
        """Describe ``data``, an array or a bytes-like object.

        ``dtype``: the dtype of the elements in the file, if it is another one than in memory.
        """
        is_array = isinstance(data, np.ndarray | np.generic)
        array: Array = np.asarray(data) if is_array else np.frombuffer(data, np.uint8)
        self.array = array
        self.dtype = array.dtype if dtype is None else dtype
        is_in_memory = array.flags.c_contiguous and self.dtype == array.dtype
        self.place: Place | None = place_of(array) if is_in_memory else None
        self._digest = b""

    def __len__(self) -> int:
        return self.array.size * self.dtype.itemsize

    def chunks(self) -> Iterator[memoryview]:
        """Yield the bytes in order: in one piece if ``place`` is set, else in pieces of at most 4 MiB."""
        return content.chunks(self.array, self.dtype)

    def sample(self) -> bytes:
        """Return some of the bytes, in constant time.

        Equal bytes give equal samples if the arrays have dtypes of the same size.
        """
        return content.sample(self.array, self.dtype)

    def digest(self) -> bytes:
        """Return a hash of all bytes; it is computed in the first call."""
        self._digest = self._digest or content.digest(self.array, self.dtype)
        return self._digest


def as_constant_bytes(data: Any) -> ConstantBytes:
    """Return ``data`` as ConstantBytes."""
    return data if isinstance(data, ConstantBytes) else ConstantBytes(data)


Key = tuple[int, int]
"""A buffer of the new file: (0, its index in the input file), or (1, its number among the new buffers)."""

EMPTY: Key = (0, 0)
"""The key of buffer 0, which has no data by convention of both formats."""


class BufferTable:
    """Chooses a buffer for each constant.

    A constant that is a view of a whole buffer of the input file keeps that buffer.  Any other constant
    shares the buffer of an equal constant, new or from the input file, if there is one.  To find equal
    constants, lengths are compared first, then samples, then digests.  Buffers of the input file are never
    compared with each other, so the constants of an unchanged model are only copied.

    A buffer that tensors of the input file used, but no tensor uses now, is dropped; buffers to which nothing
    in the input file referred are kept (``Origin.unused_buffers``).  So the indices in the new file are known
    only after all constants were added; until then, a key stands for a buffer.

    ``old``: the buffers of the input file.  ``places``, ``lengths``: their indices by place in memory, and by
    length.  ``new``: the data of the new buffers.  ``used``: the keys of the buffers to write.
    ``by_sample``: {length: {sample: the buffers to compare with, as (key, bytes)}}, only for lengths of added
    constants.
    """

    def __init__(self, origin: Origin) -> None:
        self.old = origin.buffers
        self.places: dict[Place, int] = {}
        for index, data in enumerate(self.old):
            if index and data is not None and len(data):  # buffer 0 means no data, whatever it contains
                self.places.setdefault(place_of(data), index)
        self.lengths: defaultdict[int, list[int]] = defaultdict(list)
        for (_, size), index in self.places.items():
            self.lengths[size].append(index)
        self.used: set[Key] = {EMPTY, *((0, index) for index in origin.unused_buffers)}
        self.new: list[ConstantBytes] = []
        self.by_sample: dict[int, dict[bytes, list[tuple[Key, ConstantBytes]]]] = {}

    def key_of(self, data: Array, dtype: np.dtype[Any] | None = None) -> Key:
        """Return the key of the buffer for ``data``.  ``dtype``: the dtype in the file, if it differs."""
        blob = ConstantBytes(data, dtype)
        index = self.places.get(blob.place) if blob.place is not None else None
        return self.add(blob) if index is None else self.keep(index)

    def key_without_data(self, index: int | None) -> Key:
        """Return the key of the buffer for a tensor without data.

        ``index``: the tensor's buffer in the input file, or None.  If that buffer is empty, the tensor keeps
        that buffer; in all other cases the tensor gets buffer 0.
        """
        if index is None or index >= len(self.old):
            return EMPTY
        data = self.old[index]
        return self.keep(index) if data is None or not len(data) else EMPTY

    def keep(self, index: int) -> Key:
        """Mark buffer ``index`` of the input file as used, and return its key."""
        self.used.add((0, index))
        return 0, index

    def add(self, blob: ConstantBytes) -> Key:
        """Return the key of a buffer with the bytes of ``blob``; make a new buffer if there is none."""
        if not len(blob):
            return EMPTY
        samples = self.by_sample.get(len(blob))
        if samples is None:
            samples = self.by_sample[len(blob)] = {}
            for index in self.lengths[len(blob)]:
                other = ConstantBytes(self.old[index])
                samples.setdefault(other.sample(), []).append(((0, index), other))
        bucket = samples.setdefault(blob.sample(), [])
        key = next((old_key for old_key, other in bucket if other.digest() == blob.digest()), None)
        if key is None:
            key = (1, len(self.new))
            bucket.append((key, blob))
            self.new.append(blob)
        self.used.add(key)
        return key

    def trees(self) -> tuple[list[Tree], dict[Key, int]]:
        """Return the tables of all used buffers in order, and the index of each by its key."""
        keys = sorted(self.used)
        trees: list[Tree] = []
        for is_new, index in keys:
            buffers: Sequence[Any] = self.new if is_new else self.old
            data = buffers[index] if index < len(buffers) else None  # buffer 0 of a new model
            trees.append({} if data is None else {"data": data})
        return trees, {key: index for index, key in enumerate(keys)}
