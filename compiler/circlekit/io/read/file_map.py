# SPDX-License-Identifier: Apache-2.0
"""Maps of files that know the file."""

from __future__ import annotations

import mmap
import os
import weakref

from circlekit.errors import FileError


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
