# SPDX-License-Identifier: Apache-2.0
"""Read arrays with a C library in a separate process.

A damaged file can make a library crash or loop forever, which Python cannot catch.  Here only the other
process ends, and the file is refused.
"""

from __future__ import annotations

import faulthandler
import json
import math
import multiprocessing
import signal
import time
import warnings
from collections.abc import Callable, Iterable
from multiprocessing.connection import Connection
from pathlib import Path
from typing import NamedTuple

import numpy as np

from circlekit.errors import CirclekitError, FileError, FormatError, LimitError
from circlekit.ir.array_bytes import bytes_of
from circlekit.ir.resource_limits import limits
from circlekit.ir.value import Array

CPU_SECONDS = 3
"""Processor time for reading one array, beside what a large file takes."""

BYTES_PER_SECOND = 1 << 24
"""A file of this size gets one second more."""

SILENCE_SECONDS = 60.0
"""The process is ended if it sends nothing for this time (it may be waiting for a disk)."""

SMALLEST_ARRAY_BYTES = 64
"""An array takes at least these bytes of a file: one that has more arrays than that does not end."""

LARGEST_COMPRESSION = 1100
"""One byte of a file expands to at most these bytes: deflate reaches 1032."""

SPARE_BYTES = 1 << 28
"""Memory that the process may use beside the arrays."""

_ERRORS = {kind.__name__: kind for kind in (FileError, FormatError, LimitError)}


class Item(NamedTuple):
    """One array with its name and the number of its group."""

    group: int
    name: str
    array: Array


def read_sandboxed(items: Callable[[], Iterable[Item]], what: str, size: int) -> list[Item]:
    """Return what ``items`` yields in a forked process; where the system cannot fork, in this one.

    ``what``: the name of the file for messages; ``size``: its bytes.  Errors of ``items`` are raised here;
    FormatError if the process crashes or exceeds its limits.
    """
    if "fork" not in multiprocessing.get_all_start_methods():
        return list(items())
    context = multiprocessing.get_context("fork")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=_serve, args=(items, sender, size))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # numpy's threads are not forked; reading does not need them
        process.start()
    sender.close()
    found: list[Item] | None = None
    try:
        found = _receive(receiver)
    except EOFError:
        pass
    finally:
        receiver.close()
        process.kill()
        process.join()
    if found is None:
        too_long = process.exitcode in (-signal.SIGXCPU, -signal.SIGKILL)
        reason = "reading it does not end" if too_long else "the library that reads it crashed"
        raise FormatError(f"{what} is damaged: {reason}")
    return found


# -- the other process ---------------------------------------------------------------------------


def _serve(items: Callable[[], Iterable[Item]], sender: Connection, size: int) -> None:
    """Send for each item a header and its elements, and at last an empty header or the error."""
    faulthandler.disable()
    _limit_memory(size)
    end = {}
    try:
        for number, item in enumerate(items()):
            if number < size // SMALLEST_ARRAY_BYTES:
                _limit_time(size)
            array = np.ascontiguousarray(item.array)
            header = (item.group, item.name, array.dtype.str, item.array.shape)
            sender.send_bytes(json.dumps(header).encode())
            sender.send_bytes(bytes_of(array))
    except CirclekitError as error:
        end = {"error": type(error).__name__, "message": error.message}
    except MemoryError:
        end = {"error": LimitError.__name__, "message": f"reading {size} bytes takes too much memory"}
    sender.send_bytes(json.dumps(end).encode())


def _limit_memory(size: int) -> None:
    """Limit memory and processor time of this process, which reads a file of ``size`` bytes."""
    import resource  # does not exist on every system

    signal.signal(signal.SIGXCPU, signal.SIG_DFL)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    _limit_time(size)
    statm = Path("/proc/self/statm")
    if statm.exists():
        used = int(statm.read_text().split()[0]) * resource.getpagesize()
        allowed = used + SPARE_BYTES + min(limits().memory, size * LARGEST_COMPRESSION)
        soft, hard = resource.getrlimit(resource.RLIMIT_AS)
        if soft == resource.RLIM_INFINITY or allowed < soft:
            resource.setrlimit(resource.RLIMIT_AS, (allowed, hard))


def _limit_time(size: int) -> None:
    """Allow this process the time for one more array of a file of ``size`` bytes."""
    import resource  # does not exist on every system

    seconds = math.ceil(time.process_time()) + CPU_SECONDS + size // BYTES_PER_SECOND
    _, hard = resource.getrlimit(resource.RLIMIT_CPU)
    resource.setrlimit(resource.RLIMIT_CPU, (seconds if hard == -1 else min(seconds, hard), hard))


# -- this process --------------------------------------------------------------------------------


def _receive(receiver: Connection) -> list[Item]:
    """Return all items; raise the error that the other process sends, EOFError if it ends or is silent."""
    found: list[Item] = []
    while True:
        _wait(receiver)
        header = json.loads(receiver.recv_bytes())
        if isinstance(header, dict):
            if header:
                raise _ERRORS.get(header["error"], FormatError)(header["message"])
            return found
        group, name, dtype, shape = header
        array = np.empty(shape, dtype)
        _wait(receiver)
        receiver.recv_bytes_into(bytes_of(array))
        found.append(Item(group, name, array))


def _wait(receiver: Connection) -> None:
    if not receiver.poll(SILENCE_SECONDS):
        raise EOFError
