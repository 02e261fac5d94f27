# SPDX-License-Identifier: Apache-2.0
"""Limits on the memory and the number of graph calls that work on a model may take.

The author of a model decides how large its values are.  A request above the limit is refused before memory is
allocated, by a LimitError with its purpose, its size and the limit.

The limits are a context variable, not a parameter: a command or a caller of the API sets them, and kernels
and fillers far below need them.  They apply inside a ``with`` block, in its thread or task only.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import NamedTuple

from circlekit.errors import LimitError
from circlekit.ir.resources.byte_sizes import format_exact_size, parse_size

MEMORY_DIVISOR = 2
"""The default memory limit is the machine's memory divided by this."""

DEFAULT_MEMORY_BYTES = 4 << 30
"""The default memory limit if the memory of the machine is unknown."""

DEFAULT_CALLS = 1_000_000
"""The default limit of graph calls in one run; an iteration of WHILE takes two."""

MAX_CALL_DEPTH = 64
"""Largest depth of nested graph calls: the interpreter calls itself for each, on Python's stack."""

_CGROUP = Path("/sys/fs/cgroup/memory.max")


@dataclass(eq=False, repr=False)
class Tally:
    """Number of bytes reported to ``count_memory`` in one ``counted_memory`` block."""

    used: int = 0


class Limits(NamedTuple):
    """``memory``: bytes that may be allocated at once; ``calls``: graph calls in one run of a model.

    ``tally``: the bytes that are counted; None outside of a ``counted_memory`` block.
    """

    memory: int
    calls: int = DEFAULT_CALLS
    tally: Tally | None = None


_LIMITS: ContextVar[Limits | None] = ContextVar("circlekit_limits", default=None)


def limits() -> Limits:
    """Return the limits of the innermost ``limited`` block, or the default limits."""
    return _LIMITS.get() or _default()


@contextmanager
def limited(memory: int | str | None = None, calls: int | None = None) -> Iterator[Limits]:
    """Limit memory (bytes, or a text such as "512M") and graph calls inside this block.

    A limit that is not given stays as it is outside.  Work that needs more raises LimitError; a text that is
    no size raises ValueError.
    """
    size = parse_size(memory) if isinstance(memory, str) else memory
    outside = limits()
    inside = outside._replace(
        memory=outside.memory if size is None else size, calls=outside.calls if calls is None else calls
    )
    token = _LIMITS.set(inside)
    try:
        yield inside
    finally:
        _LIMITS.reset(token)


@contextmanager
def counted_memory() -> Iterator[None]:
    """Apply the memory limit to the sum of all bytes reported to ``count_memory`` inside this block."""
    token = _LIMITS.set(limits()._replace(tally=Tally()))
    try:
        yield
    finally:
        _LIMITS.reset(token)


def need_memory(size: int, purpose: str | Callable[[], str]) -> None:
    """Raise LimitError if ``size`` more bytes exceed the limit.

    ``purpose``: what needs them, or a function that returns it, for the message.
    """
    current = limits()
    used = current.tally.used if current.tally is not None else 0
    if used + size > current.memory:
        in_use = f" in addition to the {format_exact_size(used)} in use" if used else ""
        taken = f"{purpose if isinstance(purpose, str) else purpose()} would take {format_exact_size(size)}"
        raise LimitError(f"{taken}{in_use}, the limit is {format_exact_size(current.memory)}")


def count_memory(size: int) -> None:
    """Report ``size`` bytes that stay allocated until the innermost ``counted_memory`` block ends, if any."""
    tally = limits().tally
    if tally is not None:
        tally.used += size


@cache
def _default() -> Limits:
    return Limits(machine_memory() // MEMORY_DIVISOR)


def machine_memory() -> int:
    """Return the bytes of memory that this machine, or the container of the process, has."""
    try:
        size = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return DEFAULT_MEMORY_BYTES * MEMORY_DIVISOR
    try:
        return min(size, int(_CGROUP.read_text()))
    except (OSError, ValueError):  # no container, or no limit
        return size
