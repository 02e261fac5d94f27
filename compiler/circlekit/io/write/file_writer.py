# SPDX-License-Identifier: Apache-2.0
"""Write files from pieces of memory; a file appears whole or not at all."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable
from pathlib import Path

from circlekit.errors import FileError
from circlekit.io.file_map import translated
from circlekit.io.write.atomic_file import replacement

WRITE_STEP_BYTES = 1 << 18
"""Bytes passed to one ``write``: mapped pages are still in the processor's cache when they are copied."""

BUFFER_BYTES = 1 << 16
"""Smaller pieces are gathered up to this size before they are written."""

Piece = bytes | bytearray | memoryview


def write_pieces(descriptor: int, pieces: Iterable[Piece]) -> int:
    """Write ``pieces`` in order to an open file; return their total size in bytes."""
    size = 0
    gathered = bytearray()
    for piece in pieces:
        is_small = len(piece) < BUFFER_BYTES
        if is_small:
            gathered += piece
        if len(gathered) >= BUFFER_BYTES or not is_small:
            size += _write(descriptor, gathered)
            gathered = bytearray()
        if not is_small:
            size += _write(descriptor, piece)
    return size + _write(descriptor, gathered)


def _write(descriptor: int, piece: Piece) -> int:
    view = memoryview(piece).cast("B")
    done = 0
    while done < len(view):
        done += os.write(descriptor, view[done : done + WRITE_STEP_BYTES])
    return done


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
                return write_pieces(file.fileno(), pieces)
        target = Path(path).resolve()
        if not target.parent.is_dir():
            raise FileNotFoundError(None, f"the directory {target.parent} does not exist")
        with replacement(target, durable and bool(mode)) as descriptor:
            return write_pieces(descriptor, pieces)


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
