# SPDX-License-Identifier: Apache-2.0
"""Large new constants in unlinked temporary files, which are mapped into memory.

The system can write such pages to the file and reuse the memory, so that passes can compute constants larger
than memory.  The file disappears with the last array in it, or with the process.
"""

from __future__ import annotations

import mmap
import os
import tempfile
from math import prod
from typing import Any

import numpy as np

from circlekit.ir.value import Array

LARGE_BYTES = 8 << 20
"""Arrays of this size or more are kept in files."""

MAX_OPEN_FILES = 512
"""Each array keeps a file open; a process may have about a thousand."""


def new_in_file(shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    """Return a new uninitialized array in a file; in memory if there is no room for a file."""
    size = prod(shape) * dtype.itemsize
    # space is reserved first: writing to a mapped page on a full disk would kill the process
    reserve = getattr(os, "posix_fallocate", None)
    if reserve is not None and size and not dtype.hasobject:
        try:
            with tempfile.TemporaryFile(buffering=0) as file:
                if file.fileno() <= MAX_OPEN_FILES:
                    reserve(file.fileno(), 0, size)
                    pages = mmap.mmap(file.fileno(), size)
                    return np.frombuffer(pages, dtype).reshape(shape)
        except OSError:
            pass
    return np.empty(shape, dtype)


def moved_to_file(array: Array) -> Array:
    """Return ``array``, or a copy in a file if it is large and in memory."""
    owner = array
    while isinstance(owner.base, np.ndarray):
        owner = owner.base
    if array.nbytes < LARGE_BYTES or owner.nbytes < LARGE_BYTES or owner.base is not None:
        return array
    return copied_to_file(array)


def copied_to_file(array: Array) -> Array:
    """Return a contiguous copy, in a file if it is large."""
    make = new_in_file if array.nbytes >= LARGE_BYTES else np.empty
    copy: Array = make(array.shape, array.dtype)
    copy[...] = array
    return copy


def with_results_in_files(array: Array) -> Array:
    """Return a view of ``array`` whose sums, products and so on are placed in files if they are large."""
    return array.view(_FileResults) if array.nbytes >= LARGE_BYTES else array


class _FileResults(np.ndarray[Any, Any]):
    """An array for which numpy's elementwise functions return arrays in files."""

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        operands = [_plain(x) for x in inputs]
        if kwargs.get("out") is not None:
            kwargs["out"] = tuple(_plain(x) for x in kwargs["out"])
        elif method == "__call__" and ufunc.nout == 1 and ufunc.signature is None:
            kwargs["out"] = _place(ufunc, operands, kwargs)
        made = getattr(ufunc, method)(*operands, **kwargs)
        return with_results_in_files(made) if isinstance(made, np.ndarray) else made


def _plain(operand: Any) -> Any:
    return operand.view(np.ndarray) if isinstance(operand, _FileResults) else operand


def _place(ufunc: np.ufunc, operands: list[Any], kwargs: dict[str, Any]) -> Array | None:
    """Return the array for the result of ``ufunc``; None if it is small.

    The dtype is found by calling it on empty arrays; scalars stay, because they promote differently.
    """
    shape = np.broadcast_shapes(*(np.shape(x) for x in operands))
    none = [np.empty(0, np.asarray(x).dtype) if np.ndim(x) else x for x in operands]
    dtype = ufunc(*none, **{k: v for k, v in kwargs.items() if k in ("dtype", "casting", "signature")}).dtype
    return new_in_file(shape, dtype) if prod(shape) * dtype.itemsize >= LARGE_BYTES else None
