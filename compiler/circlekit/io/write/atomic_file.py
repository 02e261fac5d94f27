# SPDX-License-Identifier: Apache-2.0
"""The file that takes the place of another at once, when it is whole.

It is written beside the other, under a name of its own and under a lock that the system lets go when the
writer ends, however it ends.  The next writer in that folder removes those that nobody holds any more.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import re
import stat
from collections.abc import Iterator
from pathlib import Path

try:
    import fcntl
except ImportError:  # no such system call, no clearing up
    CAN_LOCK = False
else:
    CAN_LOCK = True

MODE = 0o666
"""Permissions of a new file, less the umask."""

PRIVATE = 0o600
"""Those of one that takes the place of another, until it is whole and gets the permissions of that."""

NAME_BYTES = 100
"""What is kept of the target's name: file systems have room for 143 to 255 bytes."""

TEMPORARY = re.compile(r"\..+\.\d+-\d+\.circlekit", re.DOTALL)
"""Name of the target, process and number, our mark."""


@contextlib.contextmanager
def replacement(target: Path, durable: bool = True) -> Iterator[int]:
    """A descriptor of a new file that becomes ``target`` when the block ends, or is removed by an error.

    Whatever happens, ``target`` is what it was or is whole.  If ``durable``, that goes for a loss of power,
    too: the data is on the disk before the name is given, and both when the block has ended.  OSError where
    the file cannot be made.
    """
    descriptor, path = _create(target)
    try:
        yield descriptor
        _dress(descriptor, target)
        if durable:
            os.fsync(descriptor)
        path.replace(target)
    except BaseException:
        path.unlink(missing_ok=True)
        os.close(descriptor)
        raise
    os.close(descriptor)
    if durable:
        _sync_folder(target.parent)


def _create(target: Path) -> tuple[int, Path]:
    """(descriptor, path) of a new and locked file in the folder of ``target``."""
    remove_stale(target.parent)
    mode = PRIVATE if target.exists() else MODE
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
    stem = os.fsencode(target.name)[:NAME_BYTES].decode(errors="ignore")
    for attempt in itertools.count():
        path = target.with_name(f".{stem}.{os.getpid()}-{attempt}.circlekit")
        try:
            descriptor = os.open(path, flags, mode)
        except FileExistsError:
            continue
        if _lock(descriptor) is not False and _is_at(descriptor, path):
            return descriptor, path
        os.close(descriptor)  # it was taken for stale before it was locked
    raise AssertionError


def remove_stale(folder: Path) -> None:
    """Remove what killed writers left in ``folder``; files that are being written are locked, and stay."""
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        stale = [entry.path for entry in entries if TEMPORARY.fullmatch(entry.name)]
        for path in stale:
            with contextlib.suppress(OSError):
                _remove_unlocked(Path(path))


def _remove_unlocked(path: Path) -> None:
    flags = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
    try:
        descriptor = os.open(path, os.O_WRONLY | flags)
    except PermissionError:  # it had the permissions of its target already
        descriptor = os.open(path, os.O_RDONLY | flags)
    try:
        if _lock(descriptor) and _is_at(descriptor, path) and stat.S_ISREG(os.fstat(descriptor).st_mode):
            path.unlink()
    finally:
        os.close(descriptor)


def _lock(descriptor: int) -> bool | None:
    """Whether the file could be locked; None where files cannot be."""
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
    """Whether ``path`` is still the name of the open file."""
    try:
        return os.path.samestat(os.fstat(descriptor), path.lstat())
    except FileNotFoundError:
        return False


def _dress(descriptor: int, target: Path) -> None:
    """Give the new file the permissions of the one that it replaces, and its owner where we may."""
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


def _sync_folder(folder: Path) -> None:
    """Make the new name durable, where the system can do that for folders."""
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
