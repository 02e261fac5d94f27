# SPDX-License-Identifier: Apache-2.0
"""Constants of a text by reference to the file that they came from: ``file("net.circle", 1024, 400)``."""

from __future__ import annotations

import os
from mmap import mmap
from typing import Any

import numpy as np

from circlekit.errors import FormatError
from circlekit.io.file_map import map_file
from circlekit.ir.graph import Model
from circlekit.ir.text import Locate, Resolve
from circlekit.ir.value import Value


def locator(model: Model, name: str | None = None) -> Locate:
    """Finds constants that are still views of the file that ``model`` was loaded from.

    ``name``: what the text calls the file, by default the model's source.
    """
    path = name or model.source or ""

    def locate(value: Value) -> tuple[str, int] | None:
        whole = _file_of(value.data)
        if whole is None or value.data is None or not value.data.flags.c_contiguous:
            return None
        offset = _address(value.data) - _address(np.frombuffer(whole, np.uint8))
        return (path, offset) if 0 <= offset <= whole.nbytes - value.data.nbytes else None

    return locate


def _file_of(data: Any) -> memoryview | None:
    """The mapped file that an array is a view of; None where it is of other memory."""
    while isinstance(data, np.ndarray):
        data = data.base
    return data if isinstance(data, memoryview) and isinstance(data.obj, mmap) else None


def _address(array: Any) -> int:
    return int(array.__array_interface__["data"][0])


def resolver(path: str | os.PathLike[str], name: str | None = None) -> Resolve:
    """Reads from the one file ``path``, which the text calls ``name``; FormatError for any other name.

    FileError where ``path`` cannot be read.
    """
    known = name or os.fspath(path)
    whole = map_file(path)

    def resolve(file: str, offset: int, size: int) -> memoryview:
        if file != known:
            raise FormatError(f"the text refers to {file}, only {known} may be read")
        if offset + size > whole.nbytes:
            raise FormatError(f"{known} has {whole.nbytes} bytes, {size} at {offset} are wanted")
        return whole[offset : offset + size]

    return resolve
