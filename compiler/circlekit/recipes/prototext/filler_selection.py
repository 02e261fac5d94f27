# SPDX-License-Identifier: Apache-2.0
"""Choose the filler of a constant in ``test.recipe``; large constants are written to ``.npy`` files."""

from __future__ import annotations

import base64
from collections.abc import Callable
from io import BytesIO
from typing import NamedTuple

import numpy as np

from circlekit.ir.dtypes import DType
from circlekit.ir.text.literal_printing import elements
from circlekit.ir.value import Array
from circlekit.recipes.prototext.filler_data import PACKED, packed, strings_of

MAX_LISTED = 64
"""Constants of at most this many elements, or bytes, are written into the recipe."""

Keep = Callable[[str, Array], str]
"""Puts the constant of a value (its name, the array) into a file and returns the name of the file."""


class Filling(NamedTuple):
    """A filler: its tag and arguments."""

    tag: str
    args: list[str]


class Folder:
    """The ``.npy`` files of one recipe, in memory.

    files: Content of each file.  offsets: Position of the elements in each file, behind its header.
    """

    def __init__(self, stem: str) -> None:
        self.stem = stem
        self.files: dict[str, bytes] = {}
        self.offsets: dict[str, int] = {}

    def keep(self, name: str, array: Array) -> str:
        """Add an array and return the name of its file, which is a number: ``name`` may be any text."""
        file = f"{self.stem}.{len(self.files)}.npy"
        stream = BytesIO()
        np.lib.format.write_array(stream, np.ascontiguousarray(array), (1, 0), allow_pickle=False)
        self.files[file] = stream.getvalue()
        self.offsets[file] = len(self.files[file]) - array.nbytes
        return file


def filling(data: Array, dtype: DType, name: str, count: int | None, keep: Keep | None) -> Filling:
    """Return the filler for a constant of the bytes ``data``.  ``count``: its elements, None if unknown."""
    listed = _listed(data, dtype, count)
    if listed is not None:
        return listed
    kind = dtype.numpy
    is_array = kind is not None and count is not None and count * kind.itemsize == len(data)
    if keep is None or len(data) <= MAX_LISTED:
        return Filling("base64", [base64.b64encode(data.tobytes()).decode("ascii")])
    return Filling("file", [keep(name, data.view(kind) if is_array and kind is not None else data)])


def _listed(data: Array, dtype: DType, count: int | None) -> Filling | None:
    """Return the constant as a list, or as one argument if all elements are equal; None if it is too long."""
    if count is None:
        return None
    if dtype is DType.STRING:
        texts = strings_of(data.tobytes()) if count <= MAX_LISTED else None
        if texts is None or len(texts) != count:
            return None
        return Filling("explicit", [text.decode("utf-8", "surrogateescape") for text in texts])
    array = _array(data, dtype, count)
    if array is None:
        return None
    if count > 4 and _is_uniform(array):
        tag, array = "constant", array[:1]
    elif count <= MAX_LISTED:
        tag = "explicit"
    else:
        return None
    if array.dtype.kind == "b":
        array = array.astype(np.uint8)  # ONE reads numbers only
    texts_of = elements(array)
    return None if texts_of is None else Filling(tag, texts_of)


def _array(data: Array, dtype: DType, count: int) -> Array | None:
    """Return the elements; None if their number or type is one that fillers cannot make."""
    if dtype in PACKED:
        low, high = data & 15, data >> 4
        nibbles = np.stack([low, high], axis=1).reshape(-1)[:count]
        if dtype is DType.INT4:
            nibbles = ((nibbles.astype(np.int8) ^ 8) - 8).astype(np.int8)
        return nibbles if packed(nibbles) == data.tobytes() else None
    kind = dtype.numpy
    if kind is None or kind.kind not in "fiub" or count * kind.itemsize != len(data):
        return None
    if kind.kind == "b" and (data > 1).any():
        return None
    return np.asarray(data.view(kind))


def _is_uniform(array: Array) -> bool:
    bits = array.view(f"u{array.dtype.itemsize}") if array.dtype.kind != "b" else array
    return bool((bits == bits[0]).all())


def gaussian(data: Array, dtype: DType, count: int | None) -> Filling | None:
    """Return a gaussian filler with the mean and deviation of ``data``; None if small or uniform."""
    array = None if count is None else _array(data, dtype, count)
    if array is None or array.dtype.kind == "b" or array.size <= MAX_LISTED or _is_uniform(array):
        return None
    numbers = array.astype(np.float64)
    if not np.isfinite(numbers).all():
        return None
    return Filling(
        "gaussian", [repr(float(np.float32(numbers.mean()))), repr(float(np.float32(numbers.std())))]
    )
