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
    _stamp: tuple[int, int]

    @classmethod
    def of(cls, descriptor: int, name: str) -> FileMap:
        """Map the whole file open as ``descriptor``, of which a duplicate is kept; ``name``: for messages."""
        new = cls(descriptor, 0, access=mmap.ACCESS_READ)
        new.descriptor = os.dup(descriptor)
        weakref.finalize(new, os.close, new.descriptor).atexit = False
        new.name = name
        new._stamp = _stamp(descriptor)
        return new

    def check(self) -> None:
        """FileError where the file was written to or cut since it was mapped: the map shows that."""
        if _stamp(self.descriptor) != self._stamp:
            raise FileError(f"{self.name}: it was changed since it was read; what was read of it is no more")


def _stamp(descriptor: int) -> tuple[int, int]:
    """Changes when the file does."""
    status = os.fstat(descriptor)
    return status.st_size, status.st_mtime_ns
