# SPDX-License-Identifier: Apache-2.0
"""Arrays that foreign code reads, in a process of its own.

A damaged file can bring a library that is written in C to crash, or to run in circles: neither can be caught
where it happens.  Here the process ends that did it, and what it was reading is refused.
"""

from __future__ import annotations

import contextlib
import faulthandler
import json
import math
import os
import select
import signal
import time
import warnings
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import IO, NamedTuple

import numpy as np

from circlekit.errors import CirclekitError, FileError, FormatError, LimitError
from circlekit.ir.resource_limits import limits
from circlekit.ir.value import Array

SECONDS = 3
"""Of processor time for reading any array."""

SMALLEST = 64
"""Bytes of a file that an array takes at least: one that has more of them runs in circles."""

BYTES_A_SECOND = 1 << 24
"""Of a file: a large one may take longer."""

SILENCE = 60.0
"""Seconds without a sign of the process, which may be waiting for a disk, after which it is ended."""

DENSEST = 1100
"""Bytes that one of the file may become: deflate packs up to 1032 into one."""

SPARE = 1 << 28
"""Bytes that the process may take besides."""

STATM = Path("/proc/self/statm")

ERRORS = {kind.__name__: kind for kind in (FileError, FormatError, LimitError)}


class Item(NamedTuple):
    """One array, its name, and the number of the group in which it is."""

    group: int
    name: str
    array: Array


def read_apart(items: Callable[[], Iterable[Item]], what: str, size: int) -> list[Item]:
    """What ``items`` yields, made in another process where the system can do that.

    FormatError where that process does not come to an end: ``what`` is the name of the file, ``size`` its
    bytes.  Errors of ``items`` are raised here.
    """
    if not hasattr(os, "fork"):
        return list(items())
    theirs, ours = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of threads: those of BLAS, which nothing here waits for
        process = os.fork()
    if process == 0:
        os.close(theirs)
        _serve(items, ours, size)
    os.close(ours)
    found: list[Item] | None = None
    try:
        with contextlib.suppress(EOFError):
            found = _received(_Pipe(theirs))
    finally:
        os.close(theirs)
        os.kill(process, signal.SIGKILL)  # it has nothing more to do, or is silent
        _, status = os.waitpid(process, 0)
    if found is None:
        raise FormatError(f"{what} is damaged: {_ending(status)}")
    return found


def _ending(status: int) -> str:
    number = os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0
    too_long = number in (signal.SIGXCPU, signal.SIGKILL)
    return "reading it does not come to an end" if too_long else "what reads it fails"


# -- the other process ---------------------------------------------------------------------------


def _serve(items: Callable[[], Iterable[Item]], pipe: int, size: int) -> None:
    """Send every item, or the error, and end."""
    try:
        faulthandler.disable()
        _bound(size)
        with os.fdopen(pipe, "wb") as out:
            _send(items, out, size)
    finally:
        os._exit(0)


def _bound(size: int) -> None:
    """Limit the processor time and the memory of this process, which reads a file of ``size`` bytes."""
    import resource  # not on every system

    signal.signal(signal.SIGXCPU, signal.SIG_DFL)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    _allow(size)
    if STATM.exists():
        used = int(STATM.read_text().split()[0]) * resource.getpagesize()
        wanted = used + SPARE + min(limits().memory, size * DENSEST)
        soft, hard = resource.getrlimit(resource.RLIMIT_AS)
        if soft == resource.RLIM_INFINITY or wanted < soft:
            resource.setrlimit(resource.RLIMIT_AS, (wanted, hard))


def _allow(size: int) -> None:
    """Let this process go on for as long as the next array of a file of ``size`` bytes may take."""
    import resource  # not on every system

    seconds = math.ceil(time.process_time()) + SECONDS + size // BYTES_A_SECOND
    _, hard = resource.getrlimit(resource.RLIMIT_CPU)
    resource.setrlimit(resource.RLIMIT_CPU, (seconds if hard == -1 else min(seconds, hard), hard))


def _send(items: Callable[[], Iterable[Item]], out: IO[bytes], size: int) -> None:
    """A line of JSON for each item, and behind it its elements; at last a line that says how it ended."""
    try:
        for number, item in enumerate(items()):
            if number < size // SMALLEST:
                _allow(size)
            array = np.ascontiguousarray(item.array)
            head = (item.group, item.name, array.dtype.str, item.array.shape)
            out.write(json.dumps(head).encode() + b"\n")
            out.write(array.reshape(-1).view(np.uint8).data)
        end = {}
    except CirclekitError as error:
        end = {"error": type(error).__name__, "message": error.message}
    except MemoryError:
        end = {"error": LimitError.__name__, "message": "the memory is full"}
    out.write(json.dumps(end).encode() + b"\n")


# -- this process --------------------------------------------------------------------------------


def _received(pipe: _Pipe) -> list[Item]:
    found: list[Item] = []
    while True:
        head = json.loads(pipe.line())
        if isinstance(head, dict):
            if head:
                raise ERRORS.get(head["error"], FormatError)(head["message"])
            return found
        group, name, dtype, shape = head
        array = np.empty(shape, dtype)
        pipe.fill(array.reshape(-1).view(np.uint8).data)
        found.append(Item(group, name, array))


class _Pipe:
    """What the other process sends; EOFError where that ends too early, or is silent for too long."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor
        self.left = b""

    def line(self) -> bytes:
        while b"\n" not in self.left:
            self.left += self._more(1 << 16)
        line, _, self.left = self.left.partition(b"\n")
        return line

    def fill(self, place: memoryview) -> None:
        """Fill ``place`` with what comes next."""
        count = min(len(place), len(self.left))
        place[:count] = self.left[:count]
        self.left = self.left[count:]
        while count < len(place):
            piece = self._more(min(len(place) - count, 1 << 20))
            place[count : count + len(piece)] = piece
            count += len(piece)

    def _more(self, most: int) -> bytes:
        ready, _, _ = select.select([self.descriptor], [], [], SILENCE)
        data = os.read(self.descriptor, most) if ready else b""
        if not data:
            raise EOFError
        return data
