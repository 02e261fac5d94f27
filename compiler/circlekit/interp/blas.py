# SPDX-License-Identifier: Apache-2.0
"""numpy's OpenBLAS in one thread, where its threads would wait for one another longer than they work.

OpenBLAS gives each of its threads a part of every product that is not tiny, and waits for the last one.  A
model of many small products then takes as long as the operating system needs to let all threads run at once:
with two busy neighbours on two cores, a hundred times as long as in one thread.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

TINY, LARGE = 1 << 18, 1 << 26
"""Multiplications of a layer: up to the first OpenBLAS takes one thread itself, from the second on all."""


@contextmanager
def few_threads(macs: int) -> Iterator[None]:
    """Within, OpenBLAS takes one thread, in the whole process, unless ``macs`` are few or many.

    ``macs``: multiplications of the largest layer.
    """
    switch = _switch() if TINY < macs < LARGE else None
    before = switch[0]() if switch is not None else 1
    if switch is None or before == 1:
        yield
        return
    switch[1](1)
    try:
        yield
    finally:
        switch[1](before)


def blas_threads() -> int | None:
    """How many threads OpenBLAS may take now; None where numpy has another library."""
    switch = _switch()
    return None if switch is None else switch[0]()


@cache
def _switch() -> tuple[Callable[[], int], Callable[[int], None]] | None:
    """OpenBLAS's functions that tell and set the number of threads."""
    for path in _libraries():
        try:
            library = ctypes.CDLL(path)
        except OSError:
            continue
        for prefix in ("scipy_", ""):
            for suffix in ("64_", "_64", ""):
                names = [f"{prefix}openblas_{what}_num_threads{suffix}" for what in ("get", "set")]
                functions: list[Any] = [getattr(library, name, None) for name in names]
                if all(f is not None for f in functions):
                    get, put = functions
                    get.restype, get.argtypes = ctypes.c_int, []
                    put.restype, put.argtypes = None, [ctypes.c_int]
                    return get, put
    return None


def _libraries() -> list[str]:
    """The files of OpenBLAS that this process has loaded, or that numpy's wheel brings."""
    maps = Path("/proc/self/maps")
    if maps.exists():
        with maps.open(errors="replace") as lines:
            return sorted({line.split(maxsplit=5)[-1].rstrip() for line in lines if "openblas" in line})
    beside = Path(np.__file__).parent
    return sorted(
        str(p)
        for folder in (beside.parent / "numpy.libs", beside / ".dylibs")
        for p in folder.glob("*openblas*")
    )
