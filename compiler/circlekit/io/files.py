# SPDX-License-Identifier: Apache-2.0
"""Files: mapped to read, written whole or not at all."""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO

from circlekit.errors import FileError
from circlekit.io.read.file_map import FileMap
from circlekit.io.write.output import Output, Piece
from circlekit.io.write.temporary import replacement
from circlekit.ir.resource_limits import need_memory

PIPE_STEP = 1 << 20
"""Bytes of a pipe that are read at a time."""


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


def write_file(path: str | os.PathLike[str], pieces: Iterable[Piece], durable: bool = True) -> int:
    """Write a file that appears whole or not at all; ``path`` may be what ``pieces`` are views of.

    ``durable``: whether that holds for a loss of power, too,
    where it takes the place of a file; a new one is the system's to write to the disk, as by other programs.
    Returns the size.  FileError where the file cannot be written.  A device or a pipe is written directly; a
    link is followed.
    """
    with translated(path, "written"):
        mode = _mode(Path(path))
        if stat.S_ISDIR(mode):
            raise IsADirectoryError(None, "it is a directory")
        if mode and not stat.S_ISREG(mode):
            with Path(path).open("wb", buffering=0) as file:
                return Output(file.fileno()).write_all(pieces)
        target = Path(path).resolve()
        if not target.parent.is_dir():
            raise FileNotFoundError(None, f"there is no folder {target.parent}")
        with replacement(target, durable and bool(mode)) as descriptor:
            return Output(descriptor).write_all(pieces)


def _mode(path: Path) -> int:
    """What ``path`` leads to; 0 for nothing."""
    try:
        return path.stat().st_mode
    except FileNotFoundError:
        return 0


def need_folder(path: Path) -> None:
    """FileError where the folder in which ``path`` is to be written does not exist."""
    if not path.absolute().parent.is_dir():
        raise FileError(f"{path}: the directory {path.absolute().parent} does not exist")


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
