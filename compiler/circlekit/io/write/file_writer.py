# SPDX-License-Identifier: Apache-2.0
"""Write files from pieces of memory and ranges of other files; a file appears whole or not at all."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from circlekit.errors import FileError
from circlekit.io.file_map import FileMap, translated
from circlekit.io.write.atomic_file import replacement

WRITE_STEP_BYTES = 1 << 20
"""Bytes passed to one ``write``: mapped pages are still in the processor's cache when they are copied."""

BUFFER_BYTES = 1 << 20
"""Smaller pieces are gathered up to this size before they are written."""

UNSUPPORTED_COPY = frozenset(
    {
        errno.EXDEV, errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOTSUP, errno.EBADF, errno.EPERM,
        errno.ETXTBSY, errno.ESPIPE, errno.ENODEV, errno.EOVERFLOW,
    }
)  # fmt: skip
"""Errors of ``copy_file_range`` that mean that these two files cannot be copied that way."""


class FileRange(NamedTuple):
    """``size`` bytes of ``source`` from ``start``."""

    source: FileMap
    start: int
    size: int

    @property
    def view(self) -> memoryview:
        return memoryview(self.source)[self.start : self.start + self.size]


Piece = bytes | bytearray | memoryview | FileRange


class FileWriter:
    """A writer to ``descriptor``, which is open for writing and stays open.

    Ranges of files are copied by the kernel with ``copy_file_range``, which shares blocks where the file
    system can; where that is not supported they are written from the memory map of the source.
    """

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor
        self._size = 0
        self._gathered = bytearray()
        self._can_copy = hasattr(os, "copy_file_range")

    def write_all(self, pieces: Iterable[Piece]) -> int:
        """Write ``pieces`` in order; return their total size in bytes."""
        for piece in pieces:
            if isinstance(piece, FileRange):
                self._flush()
                self._copy(piece)
            elif len(piece) < BUFFER_BYTES:
                self._gathered += piece
                if len(self._gathered) >= BUFFER_BYTES:
                    self._flush()
            else:
                self._flush()
                self._write(memoryview(piece).cast("B"))
        self._flush()
        return self._size

    def _flush(self) -> None:
        if self._gathered:
            self._write(memoryview(self._gathered))
            self._gathered = bytearray()

    def _write(self, view: memoryview) -> None:
        done = 0
        while done < len(view):
            done += os.write(self.descriptor, view[done : done + WRITE_STEP_BYTES])
        self._size += done

    def _copy(self, item: FileRange) -> None:
        source, start, size = item
        while size and self._can_copy:
            count = self._copy_in_kernel(source.descriptor, start, size)
            start, size = start + count, size - count
        try:
            self._write(memoryview(source)[start : start + size])
        except OSError as error:
            if error.errno == errno.EFAULT:  # the source file was truncated
                source.check()
            raise

    def _copy_in_kernel(self, source: int, start: int, size: int) -> int:
        """Copy up to ``size`` bytes and return how many; clear ``_can_copy`` if the kernel copies none."""
        try:
            count = os.copy_file_range(source, self.descriptor, size, start)
        except OSError as error:
            if error.errno not in UNSUPPORTED_COPY:
                raise
            count = 0
        self._can_copy = count > 0
        self._size += count
        return count


def write_file(path: str | os.PathLike[str], pieces: Iterable[Piece], durable: bool = True) -> int:
    """Write a file that appears whole or not at all; return its size in bytes.

    ``path`` may be the file that ``pieces`` are views of.  A symbolic link is followed; a device or a pipe is
    written directly.  ``durable``: when a file is replaced, the new one is on the disk before it takes the
    name, so that a loss of power leaves one of the two.

    Raises FileError if the file cannot be written.
    """
    with translated(path, "written"):
        mode = _mode(Path(path))
        if stat.S_ISDIR(mode):
            raise IsADirectoryError(None, "expected a file, got a directory")
        if mode and not stat.S_ISREG(mode):
            with Path(path).open("wb", buffering=0) as file:
                return FileWriter(file.fileno()).write_all(pieces)
        target = Path(path).resolve()
        if not target.parent.is_dir():
            raise FileNotFoundError(None, f"the directory {target.parent} does not exist")
        with replacement(target, durable and bool(mode)) as descriptor:
            return FileWriter(descriptor).write_all(pieces)


def _mode(path: Path) -> int:
    """Return the type and permissions of the file that ``path`` leads to; 0 if there is none."""
    try:
        return path.stat().st_mode
    except FileNotFoundError:
        return 0


def need_folder(path: Path) -> None:
    """Raise FileError if the directory of ``path`` does not exist."""
    if not path.absolute().parent.is_dir():
        raise FileError(f"{path}: the directory {path.absolute().parent} does not exist")
