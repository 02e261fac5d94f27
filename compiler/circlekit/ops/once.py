# SPDX-License-Identifier: Apache-2.0
"""What follows from constants alone is computed once in an interpreter's life: widened weights, tables."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TypeVar

import numpy as np

from circlekit.ir.op import Op
from circlekit.ir.value import Value

T = TypeVar("T")


class Kept:
    """The results of one interpreter, up to ``limit`` bytes; what is beyond is computed each time."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.results: dict[tuple[Op, str], Any] = {}

    def add(self, key: tuple[Op, str], result: Any) -> None:
        size = _size(result)
        if size <= self.limit:
            self.limit -= size
            self.results[key] = result


_KEPT: ContextVar[Kept | None] = ContextVar("kept", default=None)


@contextmanager
def keeping(kept: Kept | None) -> Iterator[None]:
    """Within, ``once`` keeps results in ``kept``; None: it keeps nothing."""
    token = _KEPT.set(kept)
    try:
        yield
    finally:
        _KEPT.reset(token)


def room() -> int:
    """The bytes that ``once`` may still keep."""
    kept = _KEPT.get()
    return 1 << 62 if kept is None else kept.limit


def once(op: Op, name: str, make: Callable[[], T], *values: Value | None) -> T:
    """``make()``, in an interpreter only the first time, if all ``values`` that it depends on are constants.

    ``name``: which of the results of ``op`` it is.  It may also depend on what ``op`` and its values
    declare, but on no other array.
    """
    kept = _KEPT.get()
    if kept is None or any(v is not None and v.data is None for v in values):
        return make()
    key = op, name
    if key in kept.results:
        found: T = kept.results[key]
        return found
    result = make()
    kept.add(key, result)
    return result


def _size(result: Any) -> int:
    if isinstance(result, np.ndarray):
        return result.nbytes
    return sum(_size(item) for item in result) if isinstance(result, tuple | list) else 0
