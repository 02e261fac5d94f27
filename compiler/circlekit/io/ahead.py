# SPDX-License-Identifier: Apache-2.0
"""Copies that begin before the compiler has been imported.

Most of a large file goes over as it is, to places that follow from the file (``moves``).  A command that is
about to rewrite one lets a thread begin with that, into the temporary file that its output will be; it
imports its modules, reads the model and runs its passes meanwhile.  Writing the file then skips what is
there.  What the thread could not do, or did in vain, is done as if there had been none.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import stat
import struct
import sys
import threading
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path

from circlekit.io import moves
from circlekit.io.moves import LENGTH, MAP_STEP, PAGE, Move, find_moves
from circlekit.io.read.file_map import stamp_of
from circlekit.io.write.temporary import Temporary

STEP = 32 << 20
"""Bytes copied at a time; in between the thread looks whether it is still wanted."""

MAX_BUFFERS = 50_000
"""Files of more are not read ahead: that would take the time that is to be saved."""

SWITCH = 5e-5
"""Seconds that the thread waits at most for its turn, between two steps, while modules are imported."""

IDENTIFIERS = (b"TFL3", b"CIR0")
"""Those of ``schema``, whose import takes the time that is to be saved."""

_U16 = struct.Struct("<H")
_I32 = struct.Struct("<i")
_U32 = struct.Struct("<I")
_U64 = struct.Struct("<Q")


class Ahead:
    """One copy from ``source`` into a temporary file beside ``target``.

    ``copied``: what has been, in order; it grows until ``finish`` returns.  ``stamp``: of the source before.
    """

    def __init__(self, source: int, target: Path) -> None:
        """``source``: a descriptor, open as long as this.  OSError where there can be no temporary file."""
        self.source = source
        self.stamp = stamp_of(source)
        self.target = target
        self.copied: list[Move] = []
        self.unwanted = False
        self.temporary = Temporary(target)
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def finish(self) -> Temporary:
        """The temporary file, with all that ``copied`` says."""
        try:
            self.thread.join()
        except BaseException:
            self.abandon()
            raise
        return self.temporary

    def abandon(self) -> None:
        """Stop, and remove the temporary file."""
        self.unwanted = True
        self.thread.join()
        self.temporary.remove()

    def _run(self) -> None:
        # what is wrong with the file, or the disk, is told by those who read and write it in earnest
        with (
            contextlib.suppress(OSError, ValueError, struct.error),
            mmap.mmap(self.source, 0, access=mmap.ACCESS_READ) as data,
            memoryview(data) as view,
        ):
            runs = joined(view, find_moves(view, spans(view)))
            if runs:  # room that is taken at once is quicker to write to
                os.posix_fallocate(self.temporary.descriptor, 0, runs[-1].position + runs[-1].size)
            for run in runs:
                self._copy(run, view)

    def _copy(self, run: Move, view: memoryview) -> None:
        start, size, position = run
        while size and not self.unwanted:
            wanted = min(STEP - position % STEP, size)
            if (start - position) % PAGE:  # the kernel is quick with whole pages only
                with view[start : start + min(wanted, MAP_STEP)] as part:
                    count = os.pwrite(self.temporary.descriptor, part, position)
            else:
                count = os.copy_file_range(self.source, self.temporary.descriptor, wanted, start, position)
            if not count:
                return
            self.copied.append(Move(start, count, position))
            start, size, position = start + count, size - count, position + count


def spans(data: memoryview) -> list[tuple[int, int]]:
    """(start, size) of the large data of a model, of either format.

    It is read without any of the checks that the decoder makes: what is said of a file that is broken is
    something, ValueError or struct.error.
    """
    if bytes(data[4:8]) not in IDENTIFIERS:
        return []
    at = _field(data, _U32.unpack_from(data, 0)[0], 4)
    if at is None:
        return []
    at += _U32.unpack_from(data, at)[0]
    (count,) = _U32.unpack_from(data, at)
    if count > MAX_BUFFERS:
        return []
    found = []
    for place in range(at + 4, at + 4 + 4 * count, 4):
        start, size = _span(data, place + _U32.unpack_from(data, place)[0])
        if size >= moves.LARGE and start + size <= len(data):
            found.append((start, size))
    return found


def _span(data: memoryview, table: int) -> tuple[int, int]:
    """The data of the buffer at ``table``, inline or by position."""
    inline, offset, size = (_field(data, table, slot) for slot in range(3))
    if inline is not None:
        inline += _U32.unpack_from(data, inline)[0]
        return inline + LENGTH, _U32.unpack_from(data, inline)[0]
    if offset is None or size is None:
        return 0, 0
    return _U64.unpack_from(data, offset)[0], _U64.unpack_from(data, size)[0]


def _field(data: memoryview, table: int, slot: int) -> int | None:
    """Where a field of a table is; None where the table does not have it."""
    vtable = table - _I32.unpack_from(data, table)[0]
    at = 4 + 2 * slot
    if vtable < 0 or at >= _U16.unpack_from(data, vtable)[0]:
        return None
    offset: int = _U16.unpack_from(data, vtable + at)[0]
    return table + offset if offset else None


def joined(data: memoryview, parts: Sequence[Move]) -> list[Move]:
    """``parts``, with neighbours at once where what is between them is the same in both files.

    That is zeros and the length; both files have the length if the old one does.
    """
    runs: list[Move] = []
    for part in parts:
        last = runs[-1] if runs else None
        if last is not None and part.start - last.start == part.position - last.position:
            between = bytes(data[last.start + last.size : part.start])
            if between == _U32.pack(part.size).rjust(len(between), b"\0"):
                runs[-1] = Move(last.start, part.start + part.size - last.start, last.position)
                continue
        runs.append(part)
    return runs


# -- of a command ------------------------------------------------------------------------------

_current: list[Ahead] = []


@contextlib.contextmanager
def of_command(words: Sequence[str]) -> Iterator[None]:
    """While a command with these arguments runs, the large file among them is being copied."""
    begun = _begin(words)
    if begun is None:
        yield
        return
    _current.append(begun)
    interval = sys.getswitchinterval()
    sys.setswitchinterval(SWITCH)
    try:
        yield
    finally:
        sys.setswitchinterval(interval)
        if begun in _current:
            _current.remove(begun)
            begun.abandon()
        os.close(begun.source)


def claim(target: Path) -> Ahead | None:
    """What has been begun for ``target``, for the one who asks first; to be finished or abandoned."""
    for begun in _current:
        if begun.target == target:
            _current.remove(begun)
            return begun
    return None


def _begin(words: Sequence[str]) -> Ahead | None:
    """A copy of the first large file among ``words`` to what the next one names, where that is a file."""
    if not hasattr(os, "copy_file_range"):
        return None
    for word, following in pairwise(words):
        with contextlib.suppress(OSError, ValueError, RuntimeError):
            status = Path(word).stat()
            if stat.S_ISREG(status.st_mode) and status.st_size >= moves.LARGE_FILE:
                return None if following.startswith("-") else _open(word, Path(following))
    return None


def _open(source: str, target: Path) -> Ahead | None:
    target = target.resolve()
    if target.exists() and not target.is_file():
        return None
    descriptor = os.open(source, os.O_RDONLY | getattr(os, "O_CLOEXEC", 0))
    try:
        return Ahead(descriptor, target)
    except OSError:
        os.close(descriptor)
        raise
