# SPDX-License-Identifier: Apache-2.0
"""Limit of numpy's OpenBLAS to one thread, for models whose matrix products are too small for several.

OpenBLAS splits each product among its threads and waits for the last one.  Beside other busy processes this
wait takes longer than the product: with a load of 8 on two cores, models above 1 ms ran 2.5 times faster
(median; up to 17 times) in one thread.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

SMALL_MACS = 1 << 18
"""Multiply-accumulates of an operator up to which OpenBLAS itself uses one thread."""

LARGE_MACS = 1 << 26
"""Multiply-accumulates of an operator from which several threads pay."""


class ThreadCount(NamedTuple):
    """OpenBLAS's functions that read and write the number of its threads."""

    read: Callable[[], int]
    write: Callable[[int], None]


@contextmanager
def limited_blas_threads(largest_macs: int) -> Iterator[None]:
    """Let OpenBLAS use one thread within the block, in the whole process, if that is favorable.

    ``largest_macs``: multiply-accumulates of the largest operator.
    """
    count = _thread_count() if SMALL_MACS < largest_macs < LARGE_MACS else None
    before = 1 if count is None else count.read()
    if count is None or before == 1:
        yield
        return
    count.write(1)
    try:
        yield
    finally:
        count.write(before)


def blas_threads() -> int | None:
    """Return the number of threads that OpenBLAS may use now; None if numpy uses another library."""
    count = _thread_count()
    return None if count is None else count.read()


@cache
def _thread_count() -> ThreadCount | None:
    for path in _openblas_libraries():
        try:
            library = ctypes.CDLL(path)
        except OSError:
            continue
        for prefix in ("scipy_", ""):
            for suffix in ("64_", "_64", ""):
                names = [f"{prefix}openblas_{verb}_num_threads{suffix}" for verb in ("get", "set")]
                functions: list[Any] = [getattr(library, name, None) for name in names]
                if None not in functions:
                    read, write = functions
                    read.restype, read.argtypes = ctypes.c_int, []
                    write.restype, write.argtypes = None, [ctypes.c_int]
                    return ThreadCount(read, write)
    return None


def _openblas_libraries() -> list[str]:
    """Return the OpenBLAS files that this process has loaded or, without /proc, those of numpy's wheel."""
    maps = Path("/proc/self/maps")
    if maps.exists():
        with maps.open(errors="replace") as lines:
            return sorted({line.split(maxsplit=5)[-1].rstrip() for line in lines if "openblas" in line})
    package = Path(np.__file__).parent
    folders = (package.parent / "numpy.libs", package / ".dylibs")
    return sorted(str(p) for folder in folders for p in folder.glob("*openblas*"))
