# SPDX-License-Identifier: Apache-2.0
"""Write a file from pieces of memory; the file appears whole or not at all.

The new file is written under a temporary name and renamed when it is complete.  The writer locks the
temporary file, and the system releases the lock when the process ends in any way.  The next writer in the
same directory removes temporary files that are not locked.
"""

from __future__ import annotations

import contextlib
import os
import re
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path

from circlekit.errors import FileError
from circlekit.io.file_map import translated
from circlekit.ir.resources.progress import progress

try:
    import fcntl
except ImportError:  # without locks, files of killed writers are never removed
    CAN_LOCK = False
else:
    CAN_LOCK = True

NEW_FILE_MODE = 0o666
"""The permissions of a new file, before the umask is applied."""

PRIVATE_MODE = 0o600
"""The permissions of a temporary file until it gets the permissions of the file that it replaces."""

MAX_STEM_BYTES = 100
"""A temporary name contains at most this many bytes of the name of the file to write, the ``target``.

Some systems allow only 143 bytes for a whole name.
"""

TEMPORARY = re.compile(r"\..*\.\d+-\d+\.circlekit", re.DOTALL)
"""The pattern of temporary names: ``.TARGET.PROCESS-NUMBER.circlekit``."""


@contextlib.contextmanager
def replacement(target: Path, durable: bool = True) -> Iterator[int]:
    """Return a context with the descriptor of a new file, which replaces ``target`` at the end of the block.

    If an error ends the block, the new file is removed, and the file ``target`` stays as it is.  ``durable``:
    flush data and name to the disk, so that even a loss of power leaves either the old or the new file.
    Raise OSError if the file cannot be created, flushed or renamed.
    """
    descriptor, path = _create(target)
    try:
        yield descriptor
        _copy_permissions(descriptor, target)
        if durable:
            os.fsync(descriptor)
        path.replace(target)
        progress().finish_file(str(target))
    except BaseException:
        path.unlink(missing_ok=True)
        os.close(descriptor)
        raise
    os.close(descriptor)
    if durable:
        with contextlib.suppress(OSError):  # some systems cannot flush directories
            descriptor = os.open(target.parent, os.O_RDONLY)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)


def _create(target: Path) -> tuple[int, Path]:
    """Create and lock a temporary file in the directory of ``target``; return its descriptor and path."""
    remove_stale(target.parent)
    mode = PRIVATE_MODE if target.exists() else NEW_FILE_MODE
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
    stem = os.fsencode(target.name)[:MAX_STEM_BYTES].decode(errors="ignore")
    attempt = 0
    while True:
        path = target.with_name(f".{stem}.{os.getpid()}-{attempt}.circlekit")
        with contextlib.suppress(FileExistsError):
            descriptor = os.open(path, flags, mode)
            if _lock(descriptor) is not False and _is_at(descriptor, path):
                return descriptor, path
            os.close(descriptor)  # another writer locked or removed the file first, as if it were stale
        attempt += 1


def remove_stale(folder: Path) -> None:
    """Remove the temporary files of killed writers from ``folder``; files of running writers are locked."""
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        stale = [entry.path for entry in entries if TEMPORARY.fullmatch(entry.name)]
        for path in stale:
            with contextlib.suppress(OSError):
                _remove_unlocked(Path(path))


def _remove_unlocked(path: Path) -> None:
    """Remove the file at ``path`` if it is a regular file that can be locked.

    Raise OSError if ``path`` is a symbolic link, or cannot be opened or removed.
    """
    flags = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
    try:
        descriptor = os.open(path, os.O_WRONLY | flags)
    except PermissionError:  # the file has the read-only permissions of its target already
        descriptor = os.open(path, os.O_RDONLY | flags)
    try:
        if _lock(descriptor) and _is_at(descriptor, path) and stat.S_ISREG(os.fstat(descriptor).st_mode):
            path.unlink()
    finally:
        os.close(descriptor)


def _lock(descriptor: int) -> bool | None:
    """Lock the file; return True.

    Return False if the file is locked through another descriptor, in this process or another one; None if the
    system cannot lock files there.
    """
    if not CAN_LOCK:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return None
    return True


def _is_at(descriptor: int, path: Path) -> bool:
    """Return whether ``path`` still names the file that is open as ``descriptor``."""
    try:
        return os.path.samestat(os.fstat(descriptor), path.lstat())
    except FileNotFoundError:
        return False


def _copy_permissions(descriptor: int, target: Path) -> None:
    """Give the new file the permissions and, if allowed, the owner of ``target``, if ``target`` exists."""
    try:
        old = target.stat()
    except FileNotFoundError:
        return
    new = os.fstat(descriptor)
    if hasattr(os, "fchown") and (old.st_uid, old.st_gid) != (new.st_uid, new.st_gid):
        with contextlib.suppress(PermissionError):
            os.fchown(descriptor, old.st_uid, old.st_gid)
    if hasattr(os, "fchmod"):
        os.fchmod(descriptor, stat.S_IMODE(old.st_mode))


WRITE_STEP_BYTES = 1 << 18
"""One ``write`` gets at most this many bytes, so that mapped pages stay in the processor's cache."""

REPORT_STEP_BYTES = 1 << 22
"""The bytes that are written between two reports of progress."""

BUFFER_BYTES = 1 << 16
"""Small pieces are gathered until they have this many bytes, then written together."""

Piece = bytes | bytearray | memoryview


def write_pieces(descriptor: int, pieces: Iterable[Piece]) -> int:
    """Write ``pieces`` in order to the file open as ``descriptor``; return their size in bytes."""
    size = 0
    with os.fdopen(descriptor, "wb", BUFFER_BYTES, closefd=False) as file:
        for piece in pieces:
            for start in range(0, len(piece), WRITE_STEP_BYTES):
                size += file.write(memoryview(piece)[start : start + WRITE_STEP_BYTES])
    return size


def write_file(
    path: str | os.PathLike[str], pieces: Iterable[Piece], durable: bool = True, size: int | None = None
) -> int:
    """Write ``pieces`` to a file that appears whole or not at all; return its size in bytes.

    ``path`` may be the file that ``pieces`` are views of.  A symbolic link is followed; a device or a pipe is
    written directly.  ``durable``: flush the new file to the disk before it replaces another file, so that a
    loss of power leaves the old or the new file.  ``size``: the number of bytes of all pieces, for reports of
    progress; None: do not report how many bytes are written.
    Raise FileError if the file cannot be written.
    """
    if size is not None:
        progress().begin(f"writing {Path(path).name}", size, "bytes")
        pieces = _counted(pieces)
    with translated(path, "written"):
        try:
            mode = Path(path).stat().st_mode
        except FileNotFoundError:  # there is no file to replace
            mode = 0
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


def _counted(pieces: Iterable[Piece]) -> Iterator[Piece]:
    """Yield ``pieces`` in parts, and report the size of each part after the caller has written it."""
    report = progress()
    for piece in pieces:
        for start in range(0, len(piece), REPORT_STEP_BYTES):
            part = memoryview(piece)[start : start + REPORT_STEP_BYTES]
            yield part
            report.advance(len(part))


@contextlib.contextmanager
def made_folders(*folders: Path) -> Iterator[None]:
    """Return a context in which ``folders`` exist.

    Missing folders and their missing parents are made.  At the end, those of them that are empty are removed
    again.  Raise FileError for a folder that cannot be made.
    """
    made: list[Path] = []
    try:
        for folder in folders:
            with translated(folder, "made"):
                for path in reversed([p for p in (folder, *folder.parents) if not p.is_dir()]):
                    path.mkdir(exist_ok=True)
                    made.append(path)
        yield
    finally:
        for path in reversed(made):
            with contextlib.suppress(OSError):  # it is not empty
                path.rmdir()


def require_directory(path: Path) -> None:
    """Raise FileError if the directory in which ``path`` lies does not exist."""
    if not path.absolute().parent.is_dir():
        raise FileError(f"{path}: the directory {path.absolute().parent} does not exist")
