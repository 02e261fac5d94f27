# SPDX-License-Identifier: Apache-2.0
"""Limits on the memory and the number of graph calls that work on a model may take.

The author of a model decides how large its values are.  A request above the limit is refused before memory is
allocated, by a LimitError with its purpose, its size and the limit.

The limits are a context variable, not a parameter: a command or a caller of the API sets them, and kernels
and fillers far below need them.  They apply inside a ``with`` block, in its thread or task only.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import NamedTuple

from circlekit.errors import LimitError

MEMORY_DIVISOR = 2
"""The default memory limit is the machine's memory divided by this."""

DEFAULT_MEMORY_BYTES = 4 << 30
"""The default memory limit if the memory of the machine is unknown."""

DEFAULT_CALLS = 1_000_000
"""The default limit of graph calls in one run; an iteration of WHILE takes two."""

MAX_CALL_DEPTH = 64
"""Largest depth of nested graph calls: the interpreter calls itself for each, on Python's stack."""

_UNITS = {"": 0, "K": 10, "M": 20, "G": 30, "T": 40}  # exponents of 2
_CGROUP = Path("/sys/fs/cgroup/memory.max")


@dataclass(eq=False, repr=False)
class Tally:
    """Number of bytes reported to ``hold_memory`` in one ``adding_up`` block."""

    used: int = 0


class Limits(NamedTuple):
    """``memory``: bytes that may be held at once; ``calls``: graph calls in one run of a model.

    ``tally``: bytes that are held already; None outside of ``adding_up``, where none are counted.
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
def adding_up() -> Iterator[None]:
    """Apply the memory limit to the sum of all bytes reported to ``hold_memory`` inside this block."""
    token = _LIMITS.set(limits()._replace(tally=Tally()))
    try:
        yield
    finally:
        _LIMITS.reset(token)


def need_memory(size: int, what: str | Callable[[], str]) -> None:
    """Raise LimitError if ``size`` more bytes exceed the limit: ``what`` (or its result) needs them."""
    current = limits()
    used = current.tally.used if current.tally is not None else 0
    if used + size > current.memory:
        in_use = f" in addition to the {amount(used)} in use" if used else ""
        what = what if isinstance(what, str) else what()
        raise LimitError(f"{what} would take {amount(size)}{in_use}, the limit is {amount(current.memory)}")


def hold_memory(size: int) -> None:
    """Report ``size`` bytes that stay allocated until the enclosing ``adding_up`` block ends, if any."""
    tally = limits().tally
    if tally is not None:
        tally.used += size


def amount(size: int) -> str:
    """Format a size: ``1536 bytes``, ``3.0 GiB (3221225472 bytes)``."""
    if size < 1 << 20:
        return f"{size} bytes"
    letter = next((u for u in "TGM" if size >= 1 << _UNITS[u]), "M")
    return f"{size / (1 << _UNITS[letter]):.1f} {letter}iB ({size} bytes)"


def parse_size(text: str) -> int:
    """Return the bytes in ``8G``, ``512 MiB``, ``1.5g`` or ``4096`` (powers of 1024); ValueError if none."""
    match = re.fullmatch(r"\s*(\d{1,18}(?:\.\d{1,9})?)\s*([KMGT]?)(?:i?B)?\s*", text, re.IGNORECASE)
    size = 0 if match is None else int(float(match[1]) * (1 << _UNITS[match[2].upper()]))
    if size < 1:
        raise ValueError(f"expected a size such as 512M or 8G, got {text[:40]!r}")
    return size


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
