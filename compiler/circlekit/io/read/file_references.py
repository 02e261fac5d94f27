# SPDX-License-Identifier: Apache-2.0
"""Constants in a text as references to a model file: ``file("net.circle", POSITION, SIZE)``."""

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
    """Return a function that finds the constants that are still views of the file ``model`` was loaded from.

    It gives (name of the file, position in bytes), or None for other constants.  ``name``: the name of the
    file in the text, by default the model's source.
    """
    path = name or model.source or ""

    def locate(value: Value) -> tuple[str, int] | None:
        whole: Any = value.data
        while isinstance(whole, np.ndarray):
            whole = whole.base
        is_mapped = isinstance(whole, memoryview) and isinstance(whole.obj, mmap)
        if not is_mapped or value.data is None or not value.data.flags.c_contiguous:
            return None
        offset = _address(value.data) - _address(np.frombuffer(whole, np.uint8))
        return (path, offset) if 0 <= offset <= whole.nbytes - value.data.nbytes else None

    return locate


def _address(array: Any) -> int:
    return int(array.__array_interface__["data"][0])


def resolver(path: str | os.PathLike[str], name: str | None = None) -> Resolve:
    """Return a function that reads constants from ``path``, whose name in the text is ``name``.

    It raises FormatError for any other name.  FileError if ``path`` cannot be read.
    """
    known = name or os.fspath(path)
    whole = map_file(path)

    def resolve(file: str, offset: int, size: int) -> memoryview:
        if file != known:
            raise FormatError(f"expected a reference to {known}, got one to {file}")
        if offset + size > whole.nbytes:
            raise FormatError(f"{known}: expected {size} bytes at {offset}, the file has {whole.nbytes}")
        return whole[offset : offset + size]

    return resolve
