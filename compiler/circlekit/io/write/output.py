# SPDX-License-Identifier: Apache-2.0
"""A file being written: bytes from memory, and ranges of other files that the kernel copies.

What a kernel, a file system or a pair of them cannot do is done in the next best way: ``copy_file_range``
(which shares blocks where the file system can), ``sendfile``, writing from the map.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections import deque
from collections.abc import Callable, Iterable
from typing import NamedTuple

from circlekit.io.ahead import Ahead
from circlekit.io.moves import MAP_STEP, PAGE, Move
from circlekit.io.read.file_map import FileMap

STEP = 32 << 20
"""Bytes written before the disk is told to start with them: it is done soon after the last ones."""

BLOCK = 1 << 16
"""What Linux moves at a time when it copies."""

BUFFER = 1 << 20
"""Smaller pieces are gathered."""

RESERVED = 1 << 20
"""Files of this many bytes get their room on the disk at once, which is quicker."""

UNABLE = frozenset(
    {
        errno.EXDEV, errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOTSUP, errno.EBADF, errno.EPERM,
        errno.ETXTBSY, errno.ESPIPE, errno.ENODEV, errno.ENOTSOCK, errno.EOVERFLOW,
    }
)  # fmt: skip
"""Refusals that say nothing of the disk or the file, only of the way to write it."""


class FileRange(NamedTuple):
    """``size`` bytes of ``source`` from ``start``."""

    source: FileMap
    start: int
    size: int

    @property
    def view(self) -> memoryview:
        return memoryview(self.source)[self.start : self.start + self.size]


Piece = bytes | bytearray | memoryview | FileRange
Copier = Callable[[int, int, int, int], int]
"""(source, target, start in the source, size) -> bytes copied."""


class Output:
    """``descriptor``: open for writing, at its start where it is a file; it stays open."""

    def __init__(self, descriptor: int, eager: bool = True, begun: Ahead | None = None) -> None:
        """``eager``: have the disk begin early, for the file will be waited for.

        ``begun``: what has copied into the file already.
        """
        self.descriptor = descriptor
        self.eager = eager
        self.there = deque(begun.copied if begun else ())
        self.stamp = begun.stamp if begun else ()
        self.is_file = stat.S_ISREG(os.fstat(descriptor).st_mode)
        self.position = 0
        self.reserved = 0
        self._started = 0
        self._gathered = bytearray()
        self._copiers = _copiers()

    def reserve(self, size: int) -> None:
        """Take the room for ``size`` bytes, if it is to be had: where blocks are shared, less may do."""
        if size < RESERVED or not self.is_file or self.there or not hasattr(os, "posix_fallocate"):
            return
        try:
            os.posix_fallocate(self.descriptor, 0, size)
        except OSError:
            os.ftruncate(self.descriptor, 0)
        else:
            self.reserved = size

    def write_all(self, pieces: Iterable[Piece]) -> int:
        """Write ``pieces``, and give back what was there or reserved beyond them; returns their size."""
        beyond = max((move.position + move.size for move in self.there), default=self.reserved)
        for piece in pieces:
            if isinstance(piece, FileRange):
                self._flush()
                self._copy(piece)
            elif len(piece) < BUFFER:
                self._gathered += piece
                if len(self._gathered) >= BUFFER:
                    self._flush()
            else:
                self._flush()
                self._write(memoryview(piece).cast("B"))
        self._flush()
        if self.position < beyond:
            os.ftruncate(self.descriptor, self.position)
        return self.position

    def _flush(self) -> None:
        if self._gathered:
            self._write(memoryview(self._gathered))
            self._gathered = bytearray()

    def _write(self, view: memoryview) -> None:
        done = 0
        while done < len(view):
            count = os.write(self.descriptor, view[done : done + MAP_STEP])
            done += count
            self._advance(count)

    def _copy(self, item: FileRange) -> None:
        """Copy a range, but for what is there."""
        start, end = item.start, item.start + item.size
        while start < end:
            known = self._there() if item.source.stamp == self.stamp else None
            size = end - start
            if known is not None and known.position > self.position:
                size = min(size, known.position - self.position)
            elif known is not None:
                size = min(size, known.position + known.size - self.position)
                if known.start - known.position == start - self.position:
                    os.lseek(self.descriptor, size, os.SEEK_CUR)
                    self._advance(size)
                    start += size
                    continue
            self._copy_all(item.source, start, size)
            start += size

    def _there(self) -> Move | None:
        """The first that is there and ends after what is written."""
        while self.there and self.there[0].position + self.there[0].size <= self.position:
            self.there.popleft()
        return self.there[0] if self.there else None

    def _copy_all(self, source: FileMap, start: int, size: int) -> None:
        """Copy in steps, by whatever way there is; parts of pages from the map, which is quicker."""
        while size and self._copiers and (start - self.position) % PAGE == 0:
            count = self._copy_step(source.descriptor, start, _step(self.position, size))
            start, size = start + count, size - count
        try:
            self._write(memoryview(source)[start : start + size])
        except OSError as error:
            if error.errno == errno.EFAULT:  # the file ends before
                source.check()
            raise

    def _copy_step(self, source: int, start: int, size: int) -> int:
        """Copy up to ``size`` bytes in the first way that is left; it is given up where it copies none."""
        try:
            count = self._copiers[0](source, self.descriptor, start, size)
        except OSError as error:
            if error.errno not in UNABLE:
                raise
            count = 0
        if not count:
            del self._copiers[0]
        self._advance(count)
        return count

    def _advance(self, count: int) -> None:
        """Let the disk work while the rest is still to come."""
        self.position += count
        if not (self.eager and self.is_file and hasattr(os, "posix_fadvise")):
            return
        if self.position - self._started >= STEP:
            # Linux starts to write dirty pages that are not needed; being dirty, they stay in memory
            advice = os.POSIX_FADV_DONTNEED
            with contextlib.suppress(OSError):
                os.posix_fadvise(self.descriptor, self._started, self.position - self._started, advice)
            self._started = self.position


def _step(position: int, size: int) -> int:
    """How much of ``size`` bytes to copy next to ``position``: up to a block, then blocks, then the rest.

    Blocks need half the time of what lies across them.
    """
    if position % BLOCK or size < BLOCK:
        return min(size, BLOCK - position % BLOCK)
    return min(size - size % BLOCK, STEP - position % STEP)


def _copiers() -> list[Copier]:
    """The ways that this system has, best first."""
    ways: list[Copier] = []
    if hasattr(os, "copy_file_range"):
        ways.append(lambda source, target, start, size: os.copy_file_range(source, target, size, start))
    if hasattr(os, "sendfile"):
        ways.append(lambda source, target, start, size: os.sendfile(target, source, start, size))
    return ways
