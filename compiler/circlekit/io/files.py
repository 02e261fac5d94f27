# SPDX-License-Identifier: Apache-2.0
"""Files: mapped to read, written whole or not at all."""

from __future__ import annotations

import contextlib
import mmap
import os
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO

from circlekit.errors import FileError

Piece = bytes | bytearray | memoryview
MODE = 0o666
"""Permissions of a new file, less the umask."""


def map_file(path: str | os.PathLike[str]) -> memoryview:
    """The bytes of a file as a read-only map of it, of a pipe as a copy; FileError where there are none."""
    with _translated(path, "read"), Path(path).open("rb") as file:
        status = os.fstat(file.fileno())
        if stat.S_ISCHR(status.st_mode) or stat.S_ISBLK(status.st_mode):
            raise OSError(None, "it is a device")
        if not stat.S_ISREG(status.st_mode):
            return memoryview(file.read())
        if not status.st_size:
            return memoryview(b"")
        return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))


def write_file(path: str | os.PathLike[str], pieces: Iterable[Piece]) -> None:
    """Write a file that appears whole or not at all; ``path`` may be what ``pieces`` are views of.

    FileError where that cannot be.  A device or a pipe is written directly; a link is followed.
    """
    with _translated(path, "written"):
        target = Path(path).resolve()
        if target.is_dir():
            raise IsADirectoryError(None, "it is a directory")
        if not target.parent.is_dir():
            raise FileNotFoundError(None, f"there is no folder {target.parent}")
        if target.exists() and not target.is_file():
            with target.open("wb") as file:
                _write(file, pieces)
            return
        _replace(target, pieces)


def _replace(target: Path, pieces: Iterable[Piece]) -> None:
    """Write a temporary file beside ``target`` and give it that name."""
    descriptor, temporary = _create_beside(target)
    try:
        with os.fdopen(descriptor, "wb", buffering=1 << 20) as file:
            _write(file, pieces)
            file.flush()
            os.fsync(file.fileno())
        with contextlib.suppress(FileNotFoundError):
            temporary.chmod(stat.S_IMODE(target.stat().st_mode))
        temporary.replace(target)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    _sync_folder(target.parent)


def _create_beside(target: Path) -> tuple[int, Path]:
    """(descriptor, path) of a new file in the folder of ``target``."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
    attempt = 0
    while True:
        temporary = target.with_name(f".{target.name[:200]}.{os.getpid()}.{attempt}.tmp")
        try:
            return os.open(temporary, flags, MODE), temporary
        except FileExistsError:
            attempt += 1


def _write(file: BinaryIO, pieces: Iterable[Piece]) -> None:
    for piece in pieces:
        file.write(piece)


def _sync_folder(folder: Path) -> None:
    """Make the new name durable, where the system can do that for folders."""
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


@contextlib.contextmanager
def _translated(path: str | os.PathLike[str], verb: str) -> Iterator[None]:
    """Give the operating system's refusals as FileError, with the path."""
    try:
        yield
    except (OSError, ValueError, RuntimeError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise FileError(f"{os.fspath(path)}: cannot be {verb}: {reason}") from error
