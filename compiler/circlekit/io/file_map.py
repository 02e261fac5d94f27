# SPDX-License-Identifier: Apache-2.0
"""Read files through memory maps; turn errors of the operating system into FileError."""

from __future__ import annotations

import contextlib
import mmap
import os
import stat
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from circlekit.errors import FileError
from circlekit.io.foreign_files import foreign_folder
from circlekit.ir.resources.resource_limits import need_memory
from circlekit.ir.tensor import Array

PIPE_STEP_BYTES = 1 << 20
"""The number of bytes read from a pipe at a time."""


class FileMap(mmap.mmap):
    """A read-only memory map of a file; it can check whether the file was changed.

    ``descriptor``: a file descriptor that stays open as long as the map.  So ``check`` examines the mapped
    file even if its path now leads to another file.  ``name``: the path, for messages.  ``stamp``: the result
    of ``_stamp`` when the file was mapped.
    """

    descriptor: int
    name: str
    stamp: tuple[int, ...]

    @classmethod
    def of(cls, descriptor: int, name: str) -> FileMap:
        """Return a map of the whole file that is open as ``descriptor``; the file must not be empty.

        The caller may close ``descriptor``; the map has a duplicate.  ``name``: the path, for messages.
        """
        new = cls(descriptor, 0, access=mmap.ACCESS_READ)
        new.descriptor = os.dup(descriptor)
        weakref.finalize(new, os.close, new.descriptor).atexit = False  # at exit, the system closes it
        new.name = name
        new.stamp = _stamp(descriptor)
        return new

    def seekable(self) -> bool:
        """Return True.  ``zipfile`` calls this method, which ``mmap`` lacks before Python 3.13."""
        return True

    def seek(self, *place: Any) -> None:
        """Move to ``place``, as in ``file.seek``; raise OSError for a place outside of the file.

        ``mmap`` raises ValueError, which ``zipfile`` does not catch.
        """
        try:
            super().seek(*place)
        except ValueError as error:
            raise OSError(str(error)) from None

    def check(self) -> None:
        """Raise FileError if the file was changed after it was mapped: the map may have changed with it."""
        if _stamp(self.descriptor) != self.stamp:
            raise FileError(f"{self.name}: the file was changed after it was read; load it again")


def map_of(array: Array) -> FileMap | None:
    """Return the map of which ``array`` is a view; None if it is a view of other memory."""
    base: Any = array
    while isinstance(base, np.ndarray):
        base = base.base
    owner = base.obj if isinstance(base, memoryview) else base
    return owner if isinstance(owner, FileMap) else None


def _stamp(descriptor: int) -> tuple[int, ...]:
    """Return device, inode, size and modification time of a file; equal stamps count as an unchanged file."""
    status = os.fstat(descriptor)
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns


def map_file(path: str | os.PathLike[str]) -> memoryview:
    """Return the bytes of a file as a read-only memory map, or a copy of the bytes of a pipe.

    Raise FileError if the file cannot be read or is a device.  If ``path`` is the folder of another
    framework's model, the error says what to do.  Raise LimitError if a pipe has more bytes than the memory
    limit.
    """
    with translated(path, "read"):
        if (description := foreign_folder(Path(path))) is not None:
            raise ValueError(f"it is {description}")  # ``translated`` makes a FileError of this
    with translated(path, "read"), Path(path).open("rb") as file:
        status = os.fstat(file.fileno())
        if stat.S_ISCHR(status.st_mode) or stat.S_ISBLK(status.st_mode):
            raise OSError(None, "expected a file or a pipe, got a device")
        if not stat.S_ISREG(status.st_mode):
            return read_all(file, os.fspath(path))
        if not status.st_size:  # an empty file cannot be mapped
            return memoryview(b"")
        return memoryview(FileMap.of(file.fileno(), os.fspath(path)))


def read_all(stream: BinaryIO, name: str) -> memoryview:
    """Return all bytes of a stream; raise LimitError if they exceed the memory limit."""
    content = bytearray()
    while piece := stream.read(PIPE_STEP_BYTES):
        need_memory(len(content) + len(piece), f"{name}: the data read from it")
        content += piece
    return memoryview(content).toreadonly()


@contextlib.contextmanager
def translated(path: str | os.PathLike[str], verb: str) -> Iterator[None]:
    """Return a context that turns errors into FileError with the message ``PATH: cannot be VERB: reason``.

    The errors are OSError, ValueError and RuntimeError (for a loop of links).  Raise FileError at once if
    ``path`` is empty, has a zero byte, or is neither a string nor an ``os.PathLike``.
    """
    if not isinstance(path, str | os.PathLike):
        raise FileError(f"expected a path, got {type(path).__name__}")
    if not os.fspath(path):  # Path("") is the working directory
        raise FileError(f"a file without a name cannot be {verb}")
    try:
        if b"\0" in os.fsencode(path):  # some functions of pathlib say only that there is no such file
            raise ValueError("embedded null byte")
        yield
    except (OSError, ValueError, RuntimeError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise FileError(f"{os.fspath(path)}: cannot be {verb}: {reason}") from error
