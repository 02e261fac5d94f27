# SPDX-License-Identifier: Apache-2.0
"""Keep large new arrays in memory-mapped temporary files, so that they may be larger than the memory.

The operating system can write mapped pages to the file and reuse their memory.  The files have no name: a
file disappears with the last array that uses it, or with the process.
"""

from __future__ import annotations

import mmap
import os
import tempfile
from math import prod
from typing import Any

import numpy as np

from circlekit.ir.value import Array

LARGE_BYTES = 1 << 20
"""The smallest size of an array that is kept in a file.

A model may have hundreds of smaller arrays, which together take hundreds of MiB at most.  An array in a file
costs about 0.7 ms of processor time per MiB more than an array in memory.
"""

HUGE_BYTES = 8 << 20
"""Arrays of this size or more may use descriptors up to MAX_DESCRIPTOR, smaller arrays up to half of it.

This leaves descriptors for huge arrays, however many smaller ones there are.
"""

MAX_DESCRIPTOR = 512
"""The largest file descriptor to use.  Each array in a file has one; a process may often have only 1024."""


def new_in_file(shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    """Return a new array in a file, or in memory if a file is impossible; its elements are not set.

    It is in memory if it is empty or has Python objects as elements, if the disk is full, if the system lacks
    ``posix_fallocate``, or if the file would have a descriptor above the limit.
    """
    size = prod(shape) * dtype.itemsize
    largest = MAX_DESCRIPTOR if size >= HUGE_BYTES else MAX_DESCRIPTOR // 2
    # the space is reserved at once: on a full disk, a later write to a mapped page would kill the process
    reserve = getattr(os, "posix_fallocate", None)
    if reserve is not None and size and not dtype.hasobject:
        try:
            with tempfile.TemporaryFile(buffering=0) as file:
                if file.fileno() <= largest:
                    reserve(file.fileno(), 0, size)
                    pages = mmap.mmap(file.fileno(), size)
                    return np.frombuffer(pages, dtype).reshape(shape)
        except OSError:
            pass
    return np.empty(shape, dtype)


def new_array(shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    """Return a new array, made by ``new_in_file`` if it is large; its elements are not set."""
    return (new_in_file if prod(shape) * dtype.itemsize >= LARGE_BYTES else np.empty)(shape, dtype)


def moved_to_file(array: Array) -> Array:
    """Return ``copied_to_file(array)``, or ``array`` itself if a copy is not needed.

    No copy is needed of a small array, of a view of a small array, and of a view of a memory map or of
    another buffer.
    """
    owner = array  # the array that has the memory; ``base`` of an array in a file is the memory map
    while isinstance(owner.base, np.ndarray):
        owner = owner.base
    if array.nbytes < LARGE_BYTES or owner.nbytes < LARGE_BYTES or owner.base is not None:
        return array
    return copied_to_file(array)


def copied_to_file(array: Array) -> Array:
    """Return a contiguous copy of ``array``, stored as by ``new_array``."""
    copy = new_array(array.shape, array.dtype)
    copy[...] = array
    return copy


def with_results_in_files(array: Array) -> Array:
    """Return ``array``, or a special view of it if it is large.

    Elementwise numpy functions with one result put a large result into a file if an operand is such a view.
    """
    return array.view(_FileResults) if array.nbytes >= LARGE_BYTES else array


class _FileResults(np.ndarray[Any, Any]):
    """The views that ``with_results_in_files`` returns."""

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        operands = [_plain(x) for x in inputs]
        if kwargs.get("out") is not None:
            kwargs["out"] = tuple(_plain(x) for x in kwargs["out"])
        elif method == "__call__" and ufunc.nout == 1 and ufunc.signature is None:  # elementwise, one result
            kwargs["out"] = _result_file(ufunc, operands, kwargs)
        result = getattr(ufunc, method)(*operands, **kwargs)
        return with_results_in_files(result) if isinstance(result, np.ndarray) else result


def _plain(operand: Any) -> Any:
    return operand.view(np.ndarray) if isinstance(operand, _FileResults) else operand


def _result_file(ufunc: np.ufunc, operands: list[Any], kwargs: dict[str, Any]) -> Array | None:
    """Return a new array in a file for the result of ``ufunc``; None if the result is small.

    The dtype of the result is found by a call with empty arrays.  Scalars are passed as they are, because
    numpy promotes the dtypes of scalars differently.
    """
    shape = np.broadcast_shapes(*(np.shape(x) for x in operands))
    empty = [np.empty(0, np.asarray(x).dtype) if np.ndim(x) else x for x in operands]
    dtype = ufunc(*empty, **{k: v for k, v in kwargs.items() if k in ("dtype", "casting", "signature")}).dtype
    return new_in_file(shape, dtype) if prod(shape) * dtype.itemsize >= LARGE_BYTES else None
