# SPDX-License-Identifier: Apache-2.0
"""Contents of the input file that the IR does not represent: kept by ``load``, used again by ``save``.

Keys that io adds to ``extra``, besides names of schema fields:

    Model   origin        Origin
    Graph   unused        values that no operator uses
    any     absent        names of vectors and strings that the file lacks and the IR has as empty ones
    Op      options       fields of the options table that the operator's class does not declare
            no_options    the file has no options table for an operator that declares one: True, or the
                          table's name if the file has the type of the union nevertheless
            far_options   True: the custom options are external data
            misfit        why an operator is opaque although a class has its code
            stored_code   index of the operator code
            stored_version  version of an operator without a declaration
    Value   buffer        index of a buffer without data
            stored_name   (name given by load, name in the file) of a tensor without a name
            stored_quantization  the quantization table

External data is constant data that a file refers to by its position in the file instead of holding it in a
vector of the flatbuffer; files beyond 2 GiB need it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final

from circlekit.io.file_map import FileMap
from circlekit.io.schema import Tree
from circlekit.ir.value import Array

Place = tuple[int, int]
"""Address and number of bytes of an array: equal for views of the same memory."""


def place_of(data: Array) -> Place:
    """Return the place of a contiguous array."""
    return int(data.__array_interface__["data"][0]), data.nbytes


@dataclass(eq=False, repr=False)
class Origin:
    """Parts of the input file that save needs: lists that indices refer to, and fields that the IR lacks.

    codes: The operator codes; ``buffers``: the data of the buffers, None for a buffer without a vector.
    unused_buffers, unused_codes: Indices of buffers and codes that nothing refers to; save keeps them.
    metadata: Index of the buffer of every metadata entry.  ``metadata_buffer``: that field of Model.
    has_external_data: Whether the file has external data.
    has_rank: Whether tensors of known rank are marked so.
    absent: Names of the vectors and strings of Model that the file lacks.
    archive: A zip archive after the flatbuffer.
    is_complete: Whether the model has everything that is in the file; if not, there was a FormatWarning.
    source: The map of the file, if ``buffers`` are views of one.
    rest: Fields of Model that the IR does not represent.
    """

    format: str
    codes: tuple[Tree, ...] = ()
    buffers: tuple[Array | None, ...] = ()
    unused_buffers: frozenset[int] = frozenset()
    unused_codes: frozenset[int] = frozenset()
    metadata: tuple[int, ...] = ()
    metadata_buffer: tuple[int, ...] | None = None
    has_external_data: bool = False
    has_rank: bool = False
    absent: tuple[str, ...] = ()
    archive: bytes = b""
    is_complete: bool = True
    source: FileMap | None = None
    rest: Tree = field(default_factory=dict)

    def __deepcopy__(self, memo: dict[int, Any]) -> Origin:
        """Return self: an origin is immutable, and its buffers are recognized by their address."""
        return self


NO_ORIGIN: Final = Origin(format="", absent=("operator_codes", "metadata", "signature_defs", "buffers"))
"""The origin of models that were not loaded from a file.  Its ``absent`` omits empty vectors."""


def absent(tree: Tree, names: Iterable[str]) -> tuple[str, ...]:
    """Return the names among ``names`` that ``tree`` lacks."""
    return tuple(name for name in names if name not in tree)


def drop_absent(tree: Tree, names: Iterable[str]) -> None:
    """Remove the fields ``names`` of ``tree`` if they are empty: the input file lacked them."""
    for name in names:
        if name in tree and not len(tree[name]):
            del tree[name]
