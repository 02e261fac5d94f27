# SPDX-License-Identifier: Apache-2.0
"""Call C libraries in a forked process, so that their crash or endless loop does not stop this process."""

from __future__ import annotations

import math
import multiprocessing
import signal
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from multiprocessing.connection import Connection
from pathlib import Path
from typing import NamedTuple, TypeVar

from circlekit.equivalence.workers import silence_stderr
from circlekit.errors import FormatError, LimitError
from circlekit.ir.resources.resource_limits import limits
from circlekit.ir.value import Array

T = TypeVar("T")


class ProcessLost(Exception):
    """The error for a forked process that ended too early, or was killed because it sent nothing in time.

    ``code``: the exit code of the process; None if it sent nothing in time.
    """

    def __init__(self, code: int | None) -> None:
        super().__init__("no answer in time" if code is None else f"exit code {code}")
        self.code = code


def run_forked(work: Callable[[], Iterable[T]], seconds: float) -> Iterator[T]:
    """Yield the items that ``work`` yields in a forked process; raise the Exception that it raises.

    The items and the Exception are pickled.  Raise the error of pickle if an item cannot be stored or loaded,
    or if the Exception cannot be loaded.  Raise ProcessLost if the Exception cannot be stored, if the process
    ends before ``work`` does, or if it sends nothing for ``seconds``.  Raise ValueError if the system cannot
    fork.
    """
    context = multiprocessing.get_context("fork")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=_serve, args=(work, sender))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Python warns that a fork copies no threads; the child needs none
        process.start()
    sender.close()
    try:
        while receiver.poll(seconds):
            try:
                answer = receiver.recv()
            except (EOFError, OSError):  # the process ended
                break
            if answer is None:
                return
            if isinstance(answer, Exception):
                raise answer
            (item,) = answer
            yield item
        else:
            raise ProcessLost(None)
    finally:
        receiver.close()
        process.kill()
        process.join()
    raise ProcessLost(process.exitcode)


def _serve(work: Callable[[], Iterable[object]], sender: Connection) -> None:
    """Send each item of ``work`` as the tuple (item,); at the end, send None or the Exception of ``work``."""
    silence_stderr()
    end = None
    try:
        for item in work():
            sender.send((item,))
    except Exception as error:
        end = error
    sender.send(end)


# -- reading files of arrays -------------------------------------------------------------------

CPU_SECONDS = 3
"""The limit of the processor time for reading one array of a small file."""

BYTES_PER_SECOND = 1 << 24
"""The limit of the processor time grows by one second for each BYTES_PER_SECOND bytes of the file."""

SILENCE_SECONDS = 60.0
"""The process is killed if it sends nothing for this time.  Unlike processor time, it includes disk waits."""

SMALLEST_ARRAY_BYTES = 64
"""The least size of an array in a file.

A file may claim to have more arrays than fit into it; the time limit does not grow for the excess arrays.
"""

LARGEST_COMPRESSION = 1100
"""The largest number of bytes to which one byte of a file expands: 1032 with deflate, and a reserve."""

SPARE_BYTES = 1 << 28
"""The memory that the process may use in addition to the arrays."""


class Item(NamedTuple):
    """One array of a file.  ``group``: the number of the record to which it belongs."""

    group: int
    name: str
    array: Array


def iterate_sandboxed(items: Callable[[], Iterable[Item]], name: str, size: int) -> Iterator[Item]:
    """Call ``items`` in a forked process with limits of memory and time, and yield its items.

    On a system that cannot fork, ``items`` is called in this process, without limits.
    ``name``: the name of the file, for messages.  ``size``: its size in bytes.
    Raise the CirclekitErrors of ``items``.  Raise LimitError if the process needs too much memory or the
    system kills it, and FormatError if it crashes or takes too long.
    """

    def limited_items() -> Iterator[Item]:
        _limit_resources(size)
        try:
            for number, item in enumerate(items()):
                if number < size // SMALLEST_ARRAY_BYTES:
                    _limit_time(size)  # the time for the next array starts now
                yield item
        except MemoryError:
            raise LimitError(f"{name}: reading {size} bytes takes too much memory") from None

    if "fork" not in multiprocessing.get_all_start_methods():
        yield from items()
        return
    try:
        yield from run_forked(limited_items, SILENCE_SECONDS)
    except ProcessLost as lost:
        if lost.code == -signal.SIGKILL:
            raise LimitError(f"{name}: the system killed the process that reads it") from None
        if lost.code is None:  # the file may be intact, and the disk slow
            reason = "the file may be damaged, or the disk slow"
            raise FormatError(f"{name}: no array was read in {SILENCE_SECONDS:g} s; {reason}") from None
        too_long = lost.code == -signal.SIGXCPU
        reason = "reading it does not end" if too_long else "the library that reads it crashed"
        raise FormatError(f"{name} is damaged: {reason}") from None


def _limit_resources(size: int) -> None:
    """Limit memory and processor time of this process to what reading a file of ``size`` bytes may take.

    The memory is limited only where /proc says how much is in use; an earlier, stricter limit stays.  The
    soft limit of the processor time is replaced, even if it is stricter; the hard limit stays.
    """
    import resource  # does not exist on every system

    signal.signal(signal.SIGXCPU, signal.SIG_DFL)  # so that exceeding the processor time ends the process
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # a crash writes no core file
    _limit_time(size)
    statm = Path("/proc/self/statm")
    if statm.exists():
        used = int(statm.read_text().split()[0]) * resource.getpagesize()
        allowed = used + SPARE_BYTES + min(limits().memory, size * LARGEST_COMPRESSION)
        soft, hard = resource.getrlimit(resource.RLIMIT_AS)
        if soft == resource.RLIM_INFINITY or allowed < soft:
            resource.setrlimit(resource.RLIMIT_AS, (allowed, hard))


def _limit_time(size: int) -> None:
    """Let this process use, from now on, the processor time for one array of a file of ``size`` bytes."""
    import resource  # does not exist on every system

    seconds = math.ceil(time.process_time()) + CPU_SECONDS + size // BYTES_PER_SECOND
    _, hard = resource.getrlimit(resource.RLIMIT_CPU)
    resource.setrlimit(resource.RLIMIT_CPU, (seconds if hard == -1 else min(seconds, hard), hard))
