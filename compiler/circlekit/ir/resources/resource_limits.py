# SPDX-License-Identifier: Apache-2.0
"""Limits for work on a model: how much memory it may take, and how many graph calls it may make.

A model may ask for arrays of any size.  A request above the limit raises LimitError, with its purpose and
size, before memory is allocated.

The limits are a context variable, not a parameter, because a command or a caller of the API sets them, while
kernels and fillers far below check them.  Limits hold inside a ``with`` block, in its thread or task only.
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
"""The default memory limit is the memory of the machine divided by this number."""

DEFAULT_MEMORY_BYTES = 4 << 30
"""The default memory limit if the memory of the machine is unknown."""

DEFAULT_CALLS = 1_000_000
"""The default limit of graph calls in one run.  An iteration of WHILE makes two calls."""

MAX_CALL_DEPTH = 64
"""The largest depth of nested graph calls.  The interpreter is recursive, and Python's stack is limited."""

_CGROUP = Path("/sys/fs/cgroup/memory.max")  # the memory limit of a container (Linux, cgroup version 2)


@dataclass(eq=False, repr=False)
class Tally:
    """The number of bytes reported to ``count_memory`` so far in one ``counted_memory`` block."""

    used: int = 0


class Limits(NamedTuple):
    """The limits that hold in a block.

    ``memory``: the largest number of bytes for one request; in a ``counted_memory`` block, for the request
    together with the bytes counted so far.  ``calls``: the largest number of graph calls in one run of a
    model, which the interpreter checks.  ``tally``: counts bytes; None outside a ``counted_memory`` block.
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
    """Return a context that limits memory (in bytes, or as a text such as "512M") and graph calls.

    None keeps the limit that holds outside the context.  Work that exceeds a limit raises LimitError.
    Raise ValueError if the text is not a size.
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
    """Return a context in which bytes reported to ``count_memory`` count against the memory limit.

    Each context, also one inside another, counts from 0.
    """
    token = _LIMITS.set(limits()._replace(tally=Tally()))
    try:
        yield
    finally:
        _LIMITS.reset(token)


def need_memory(size: int, purpose: str | Callable[[], str]) -> None:
    """Raise LimitError if ``size`` bytes, in addition to counted bytes, exceed the memory limit.

    ``purpose``: a text for the message that says what needs the bytes, or a function that returns the text.
    """
    current = limits()
    used = current.tally.used if current.tally is not None else 0
    if used + size > current.memory:
        in_use = f" in addition to the {format_exact_size(used)} in use" if used else ""
        taken = f"{purpose if isinstance(purpose, str) else purpose()} would take {format_exact_size(size)}"
        raise LimitError(f"{taken}{in_use}, the limit is {format_exact_size(current.memory)}")


def count_memory(size: int) -> None:
    """Count ``size`` bytes until the innermost ``counted_memory`` block ends; do nothing outside one."""
    tally = limits().tally
    if tally is not None:
        tally.used += size


@cache
def _default() -> Limits:
    return Limits(machine_memory() // MEMORY_DIVISOR)


def machine_memory() -> int:
    """Return the bytes of memory of this machine, or of the container that limits this process.

    If they are unknown, return DEFAULT_MEMORY_BYTES * MEMORY_DIVISOR, so that the default limit is
    DEFAULT_MEMORY_BYTES.
    """
    try:
        size = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return DEFAULT_MEMORY_BYTES * MEMORY_DIVISOR
    try:
        return min(size, int(_CGROUP.read_text()))
    except (OSError, ValueError):  # no container, or "max": no limit
        return size
