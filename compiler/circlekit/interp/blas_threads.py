# SPDX-License-Identifier: Apache-2.0
"""Limit of numpy's OpenBLAS to one thread, for models whose matrix products are too small for several.

OpenBLAS splits each product among its threads and waits for the last one.  Beside other busy processes this
wait takes longer than the product: with a load of 8 on two cores, models above 1 ms ran 2.5 times faster
(median; up to 17 times) in one thread.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

SMALL_MACS = 1 << 18
"""Multiply-accumulates of an operator up to which OpenBLAS itself uses one thread."""

LARGE_MACS = 1 << 26
"""Multiply-accumulates of an operator from which several threads pay."""


@contextmanager
def limited_blas_threads(largest_macs: int) -> Iterator[None]:
    """Let OpenBLAS use one thread within the block, in the whole process, if that is favorable.

    ``largest_macs``: multiply-accumulates of the largest operator.
    """
    before = blas_threads() if SMALL_MACS < largest_macs < LARGE_MACS else None
    if before is None or before == 1:
        yield
        return
    _openblas_function("set")(1)
    try:
        yield
    finally:
        _openblas_function("set")(before)


def blas_threads() -> int | None:
    """Return the number of threads that OpenBLAS may use now; None if numpy uses another library."""
    read = _openblas_function("get")
    return None if read is None else int(read())


@cache
def _openblas_function(verb: str) -> Any:
    """Return the function that gets or sets the number of threads; None without /proc or OpenBLAS."""
    maps = Path("/proc/self/maps")
    lines = maps.read_text(errors="replace").splitlines() if maps.exists() else []
    paths = {line.split(maxsplit=5)[-1] for line in lines if "openblas" in line}
    for path in sorted(p for p in paths if Path(p).exists()):  # a library may be replaced by an update
        for prefix, suffix in product(("scipy_", ""), ("64_", "_64", "")):
            name = f"{prefix}openblas_{verb}_num_threads{suffix}"
            function = getattr(ctypes.CDLL(path), name, None)
            if function is not None:
                return function
    return None
