# SPDX-License-Identifier: Apache-2.0
"""How much memory, and how many runs of graphs, the work on a model may take.

A model says how large its values are, so whoever made it says what running or folding it takes.  What is
too much is refused before it is allocated: LimitError says what it was for, how much, and the limit.

The limits are a context variable, not a parameter: they are known at the very top (a command, a caller of
the API) and wanted at the very bottom (a kernel's results, a filler of a recipe), and every function between
would have to hand them on.  They hold inside a ``with`` block, in its thread or task alone.
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

SHARE = 2
"""By default work may take one part in this of the machine's memory."""

UNKNOWN_MACHINE = 4 << 30
"""By default, in bytes, where the memory of the machine cannot be found out."""

CALLS = 1_000_000
"""By default, of graphs that operators run: twice the rounds of a WHILE."""

DEPTH = 64
"""Of graphs that run graphs; Python's own stack ends not far beyond."""

_UNITS = {"": 0, "K": 10, "M": 20, "G": 30, "T": 40}
_CGROUP = Path("/sys/fs/cgroup/memory.max")


@dataclass(eq=False, repr=False)
class Tally:
    """Bytes that several pieces of work hold together."""

    used: int = 0


class Limits(NamedTuple):
    """``memory``: bytes of all that is held at once; ``calls``: graphs that one run of a model may run."""

    memory: int
    calls: int = CALLS
    tally: Tally | None = None


_LIMITS: ContextVar[Limits | None] = ContextVar("circlekit_limits", default=None)


def limits() -> Limits:
    """Those that hold here."""
    return _LIMITS.get() or _default()


@contextmanager
def limited(memory: int | str | None = None, calls: int | None = None) -> Iterator[Limits]:
    """In this block work takes at most ``memory`` (bytes, or a text such as "512M"), and ``calls`` graphs.

    What is not given stays as it is outside.  LimitError where more is wanted, before it is allocated.
    """
    size = parse_size(memory) if isinstance(memory, str) else memory
    outside = limits()
    inside = outside._replace(
        memory=outside.memory if size is None else size,
        calls=outside.calls if calls is None else calls,
    )
    token = _LIMITS.set(inside)
    try:
        yield inside
    finally:
        _LIMITS.reset(token)


@contextmanager
def adding_up() -> Iterator[None]:
    """In this block all that ``hold_memory`` is told counts together."""
    token = _LIMITS.set(limits()._replace(tally=Tally()))
    try:
        yield
    finally:
        _LIMITS.reset(token)


def need_memory(size: int, what: str | Callable[[], str]) -> None:
    """LimitError unless ``size`` bytes may be allocated now; ``what`` is, or says, for which: ``%y of F``."""
    here = limits()
    used = here.tally.used if here.tally is not None else 0
    if used + size > here.memory:
        held = f", besides {amount(used)} that are held" if used else ""
        what = what if isinstance(what, str) else what()
        raise LimitError(f"{what} would take {amount(size)}{held}, the limit is {amount(here.memory)}")


def hold_memory(size: int) -> None:
    """Note that ``size`` bytes stay allocated until the end of the ``adding_up`` around, if there is one."""
    tally = limits().tally
    if tally is not None:
        tally.used += size


def amount(size: int) -> str:
    """``1536 bytes``, ``3.0 GiB (3221225472 bytes)``."""
    if size < 1 << 20:
        return f"{size} bytes"
    letter = next((u for u in "TGM" if size >= 1 << _UNITS[u]), "M")
    return f"{size / (1 << _UNITS[letter]):.1f} {letter}iB ({size} bytes)"


def parse_size(text: str) -> int:
    """Bytes of ``8G``, ``512 MiB``, ``1.5g``, ``4096``; units are powers of 1024.  ValueError for others."""
    match = re.fullmatch(r"\s*(\d{1,18}(?:\.\d{1,9})?)\s*([KMGT]?)(?:i?B)?\s*", text, re.IGNORECASE)
    size = 0 if match is None else int(float(match[1]) * (1 << _UNITS[match[2].upper()]))
    if size < 1:
        raise ValueError(f"a size is a number with a unit, such as 512M or 8G, not {text[:40]!r}")
    return size


@cache
def _default() -> Limits:
    return Limits(machine_memory() // SHARE)


def machine_memory() -> int:
    """Bytes that this machine, or the container around the process, has."""
    try:
        size = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return UNKNOWN_MACHINE * SHARE
    try:
        return min(size, int(_CGROUP.read_text()))
    except (OSError, ValueError):  # no container, or one without a limit
        return size
