# SPDX-License-Identifier: Apache-2.0
"""The list of buffers of a file to be written: which data goes where, and what may share a place."""

from __future__ import annotations

import zlib

import numpy as np

from circlekit.io.encode import as_bytes
from circlekit.io.origin import Origin, Place, place_of
from circlekit.io.schema import Tree
from circlekit.ir.value import Array

Key = tuple[int, int]
"""(0, index in the file that the model came from) or (1, number of a new buffer)."""

EMPTY: Key = (0, 0)
"""Buffer 0 has no data: a convention of both formats."""


class Buffers:
    """Gives every piece of data a buffer.

    Data that is an untouched view of a buffer of the origin keeps that; equal new data shares one.  Buffers
    of the origin that nothing needs any more are left out, so numbers are known at the end only.
    """

    def __init__(self, origin: Origin | None) -> None:
        self.old: tuple[Array | None, ...] = origin.buffers if origin else ()
        self.places: dict[Place, int] = {}
        for index, data in enumerate(self.old):
            if data is not None and len(data):
                self.places.setdefault(place_of(data), index)
        self.used: set[Key] = {EMPTY, *((0, i) for i in (origin.unused_buffers if origin else ()))}
        self.new: list[memoryview] = []
        self.alike: dict[tuple[int, int], list[int]] = {}

    def data(self, data: Array) -> Key:
        """The buffer of constant data."""
        index = self.places.get(place_of(data)) if data.flags.c_contiguous else None
        return self.add(data) if index is None else self.keep(index)

    def empty(self, index: int | None) -> Key:
        """The buffer of a tensor without data: ``index`` where the origin has one there without data."""
        if index is None or index >= len(self.old):
            return EMPTY
        data = self.old[index]
        return self.keep(index) if data is None or not len(data) else EMPTY

    def keep(self, index: int) -> Key:
        self.used.add((0, index))
        return 0, index

    def add(self, data: Array | bytes) -> Key:
        """A new buffer, or the one that a new buffer of the same bytes has."""
        view = as_bytes(data)
        if not len(view):
            return EMPTY
        bucket = self.alike.setdefault((len(view), zlib.crc32(view)), [])
        for index in bucket:
            if np.array_equal(np.frombuffer(view, np.uint8), np.frombuffer(self.new[index], np.uint8)):
                return 1, index
        key = (1, len(self.new))
        bucket.append(key[1])
        self.new.append(view)
        self.used.add(key)
        return key

    def trees(self) -> tuple[list[Tree], dict[Key, int]]:
        """The tables of the buffers, and the index of every key."""
        keys = sorted(self.used)
        trees: list[Tree] = []
        for origin, index in keys:
            data: Array | memoryview | None = self.old[index] if index < len(self.old) else None
            if origin:
                data = self.new[index]
            trees.append({} if data is None else {"data": data})
        return trees, {key: index for index, key in enumerate(keys)}
