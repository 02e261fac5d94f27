# SPDX-License-Identifier: Apache-2.0
"""Files mapped into memory for reading."""

from __future__ import annotations

import contextlib
import mmap
import os
import stat
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from circlekit.errors import FileError
from circlekit.ir.resource_limits import need_memory

PIPE_STEP = 1 << 20
"""Bytes of a pipe that are read at a time."""


class FileMap(mmap.mmap):
    """A read-only map of a file.

    ``descriptor`` stays open as long as the map, so that the kernel can copy from the file that was mapped
    even if another one has its name by now.
    """

    descriptor: int
    name: str
    stamp: tuple[int, ...]

    @classmethod
    def of(cls, descriptor: int, name: str) -> FileMap:
        """Map the whole file open as ``descriptor``, of which a duplicate is kept; ``name``: for messages."""
        new = cls(descriptor, 0, access=mmap.ACCESS_READ)
        new.descriptor = os.dup(descriptor)
        weakref.finalize(new, os.close, new.descriptor).atexit = False
        new.name = name
        new.stamp = stamp_of(descriptor)
        return new

    def check(self) -> None:
        """FileError where the file was written to or cut since it was mapped: the map shows that."""
        if stamp_of(self.descriptor) != self.stamp:
            raise FileError(f"{self.name}: it was changed since it was read; what was read of it is no more")


def stamp_of(descriptor: int) -> tuple[int, ...]:
    """Which file is open; another when that is written to or cut."""
    status = os.fstat(descriptor)
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns


def map_file(path: str | os.PathLike[str]) -> memoryview:
    """The bytes of a file as a read-only map of it, of a pipe as a copy; FileError where there are none."""
    with translated(path, "read"), Path(path).open("rb") as file:
        status = os.fstat(file.fileno())
        if stat.S_ISCHR(status.st_mode) or stat.S_ISBLK(status.st_mode):
            raise OSError(None, "it is a device")
        if not stat.S_ISREG(status.st_mode):
            return read_all(file, os.fspath(path))
        if not status.st_size:
            return memoryview(b"")
        return memoryview(FileMap.of(file.fileno(), os.fspath(path)))


def read_all(stream: BinaryIO, name: str) -> memoryview:
    """All that comes of a pipe, which may have no end: LimitError for more than memory may hold."""
    content = bytearray()
    while piece := stream.read(PIPE_STEP):
        need_memory(len(content) + len(piece), f"{name}: what comes of it")
        content += piece
    return memoryview(content).toreadonly()


@contextlib.contextmanager
def translated(path: str | os.PathLike[str], verb: str) -> Iterator[None]:
    """Give the operating system's refusals as FileError, with the path."""
    if not os.fspath(path):  # Path("") is the working directory
        raise FileError(f"a file without a name cannot be {verb}")
    try:
        yield
    except (OSError, ValueError, RuntimeError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise FileError(f"{os.fspath(path)}: cannot be {verb}: {reason}") from error
