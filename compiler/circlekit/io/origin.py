# SPDX-License-Identifier: Apache-2.0
"""What a file said that the IR has no place for: kept at load, looked up at save, so that nothing is lost.

Keys of ``extra`` that io sets besides the schema's own field names:

    Model   origin        Origin
    Graph   unused        values that nothing read when the file was loaded
    any     absent        vectors and strings that the file did not have, where the IR has an empty one
    Op      options       fields of the options that the declaration does not have
            no_options    the file had no options, where the operator has them
            far_options   custom options were stored behind the flatbuffer
            stored_version  the version of an operator that cannot tell which one it requires
            stored_code   index of the operator code, where another one before says the same
    Value   buffer        index of the buffer without data
            stored_name   (name given here, name in the file) of a tensor without a name
            stored_quantization  the table as it was, where the canonical one for the same meaning differs
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from circlekit.io.file_map import FileMap
from circlekit.io.schema import Tree
from circlekit.ir.value import Array

Place = tuple[int, int]
"""Address and number of bytes: tells views of the same memory."""


def place_of(data: Array) -> Place:
    """Where a contiguous array lies in memory."""
    return int(data.__array_interface__["data"][0]), data.nbytes


class Source:
    """The bytes that a model was loaded from; ``file`` is their memory map, None if they are in memory."""

    def __init__(self, data: memoryview) -> None:
        self.file = data.obj if isinstance(data.obj, FileMap) else None
        self.data = data if self.file is None else memoryview(self.file)
        self.address, self.size = place_of(np.frombuffer(self.data, np.uint8))

    def offset(self, place: Place | None) -> int | None:
        """Where in the bytes ``place`` is; None where it is elsewhere."""
        if place is None:
            return None
        start = place[0] - self.address
        return start if start >= 0 and start + place[1] <= self.size else None

    def check(self) -> None:
        """FileError where the file is not any more what was loaded."""
        if self.file is not None:
            self.file.check()


@dataclass(eq=False, repr=False)
class Origin:
    """The lists of a file that its indices refer to.

    ``unused_buffers``, ``unused_codes``: indices of those that nothing referred to; they are kept.
    ``far``: constant data was behind the flatbuffer.  ``has_rank``: tensors of known rank say so.
    ``archive``: a zip archive behind everything.  ``rest``: fields of Model that the IR has no place for.
    ``source``: what ``buffers`` are views of.
    """

    format: str
    codes: tuple[Tree, ...] = ()
    buffers: tuple[Array | None, ...] = ()
    unused_buffers: frozenset[int] = frozenset()
    unused_codes: frozenset[int] = frozenset()
    metadata: tuple[tuple[str, int], ...] = ()
    metadata_buffer: tuple[int, ...] | None = None
    far: bool = False
    has_rank: bool = False
    absent: tuple[str, ...] = ()
    archive: bytes = b""
    source: Source | None = None
    rest: Tree = field(default_factory=dict)

    def __deepcopy__(self, memo: dict[int, Any]) -> Origin:
        """Itself: it never changes, and its buffers are recognized by where they are."""
        return self


def absent(tree: Tree, names: Iterable[str]) -> tuple[str, ...]:
    """Those of ``names`` that ``tree`` does not have."""
    return tuple(name for name in names if name not in tree)


def drop_absent(tree: Tree, names: Iterable[str]) -> None:
    """Take out fields that the file did not have and that are still empty."""
    for name in names:
        if name in tree and not len(tree[name]):
            del tree[name]
