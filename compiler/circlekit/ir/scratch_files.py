# SPDX-License-Identifier: Apache-2.0
"""Large new constants, in pages of a file that has no name.

The system may write such pages out and take the memory back, so that a pass computes constants of any size
and number.  The file goes with the last array in it, or with the process, however that ends.
"""

from __future__ import annotations

import mmap
import os
import tempfile
from math import prod
from typing import Any

import numpy as np

from circlekit.ir.value import Array

LARGE = 8 << 20
"""Arrays of so many bytes, or more."""

MOST_FILES = 512
"""Each array keeps a file open, of which a process may have about a thousand."""


def paged(shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    """A new array of any contents, in a file; in memory where there is no room for one."""
    size = prod(shape) * dtype.itemsize
    # room is reserved: writing to a page that a full disk has no room for would end the process
    reserve = getattr(os, "posix_fallocate", None)
    if reserve is not None and size and not dtype.hasobject:
        try:
            with tempfile.TemporaryFile(buffering=0) as file:
                if file.fileno() <= MOST_FILES:
                    reserve(file.fileno(), 0, size)
                    pages = mmap.mmap(file.fileno(), size)
                    return np.frombuffer(pages, dtype).reshape(shape)
        except OSError:
            pass
    return np.empty(shape, dtype)


def settled(array: Array) -> Array:
    """``array`` itself, or, where it is large and in memory, its elements in a file."""
    owner = array
    while isinstance(owner.base, np.ndarray):
        owner = owner.base
    if array.nbytes < LARGE or owner.nbytes < LARGE or owner.base is not None:
        return array
    return copied(array)


def copied(array: Array) -> Array:
    """A copy in the order of the elements, in a file where it is large."""
    make = paged if array.nbytes >= LARGE else np.empty
    copy: Array = make(array.shape, array.dtype)
    copy[...] = array
    return copy


def attentive(array: Array) -> Array:
    """``array`` as one whose sums, products and so on are in files where they are large."""
    return array.view(_Attentive) if array.nbytes >= LARGE else array


class _Attentive(np.ndarray[Any, Any]):
    """What numpy's elementwise functions make of it is such an array again."""

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        operands = [_plain(x) for x in inputs]
        if kwargs.get("out") is not None:
            kwargs["out"] = tuple(_plain(x) for x in kwargs["out"])
        elif method == "__call__" and ufunc.nout == 1 and ufunc.signature is None:
            kwargs["out"] = _place(ufunc, operands, kwargs)
        made = getattr(ufunc, method)(*operands, **kwargs)
        return attentive(made) if isinstance(made, np.ndarray) else made


def _plain(operand: Any) -> Any:
    return operand.view(np.ndarray) if isinstance(operand, _Attentive) else operand


def _place(ufunc: np.ufunc, operands: list[Any], kwargs: dict[str, Any]) -> Array | None:
    """Where large results of ``ufunc`` go; None for small ones.

    Their dtype is that of its results for no elements; a scalar takes part as it is.
    """
    shape = np.broadcast_shapes(*(np.shape(x) for x in operands))
    none = [np.empty(0, np.asarray(x).dtype) if np.ndim(x) else x for x in operands]
    dtype = ufunc(*none, **{k: v for k, v in kwargs.items() if k in ("dtype", "casting", "signature")}).dtype
    return paged(shape, dtype) if prod(shape) * dtype.itemsize >= LARGE else None
