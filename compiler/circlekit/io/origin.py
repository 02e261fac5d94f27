# SPDX-License-Identifier: Apache-2.0
"""Contents of the input file that the IR does not represent; ``load`` keeps them and ``save`` uses them.

The field ``extra`` of models, graphs, operators and values has, besides fields of the schema, these keys:

    Model   origin        Origin
    Graph   unused        the values that no operator computes or reads and that are no inputs or outputs
    any     absent        the names of vectors and strings that the file does not have, not even empty
    Op      options       empty vectors in the options table, and fields that the class does not declare
            no_options    set if the class has an options table, but the file has no table for this operator.
                          The value: the table's name if the file states it in the type field, else True
            far_options   True: the custom options are external data
            misfit        why the operator is opaque although its code has a declared class
            stored_code   the index of the operator code
            stored_version  the version of an opaque operator
    Value   buffer        the index of the tensor's buffer, if this buffer has no data and is not buffer 0
            stored_data   all bytes of the constant's buffer, if they are more than its elements take
            stored_name   for a tensor without a name in the file, a pair: the name that ``load`` gave it, and
                          what the file has, None (no string) or "" (an empty string)
            stored_quantization  the quantization table

External data are data of constants, or custom options, outside of the flatbuffer: the file gives their
position instead of holding them in a vector.  Files beyond 2 GiB need them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from circlekit.io.file_map import FileMap
from circlekit.io.schema import Tree
from circlekit.ir.value import Array

Place = tuple[int, int]
"""The address and the number of bytes of an array.  Views of exactly the same memory have equal places."""


def place_of(data: Array) -> Place:
    """Return the place of a contiguous array."""
    return int(data.__array_interface__["data"][0]), data.nbytes


MARKS_RANKS = "CONVERSION_METADATA"
"""The name of a metadata entry.  A file with this entry marks tensors of known rank by ``has_rank``.

All versions of TensorFlow's converter that write the entry set this field.
"""


@dataclass(eq=False, repr=False)
class Origin:
    """The parts of the input file that ``save`` needs and the IR does not have.  An Origin is never changed.

    ``format``: the format of the file; "" for NO_ORIGIN.
    ``codes``: the operator codes.  ``buffers``: the data of the buffers; None for a buffer without a vector.
    ``unused_buffers``, ``unused_codes``: the indices of buffers and codes to which nothing refers; ``save``
    keeps them.
    ``metadata``: the index of the buffer of each metadata entry.
    ``metadata_buffer``: the field ``metadata_buffer`` of the table Model, an older list of such indices.
    ``has_external_data``: whether the data of any buffer are external.  ``far_options``: the custom options
    that are external data.
    ``has_rank``: whether the file marks tensors of known rank by the field ``has_rank``.
    ``absent``: the names of the vectors and strings of Model that are absent in the file.
    ``archive``: the zip archive after the flatbuffer, or b"".
    ``is_complete``: whether the model has everything that is in the file; if not, there was a FormatWarning.
    ``source``: the memory map of the file; None if the bytes came from elsewhere, such as a pipe.
    ``rest``: the fields of Model that the IR does not represent.
    """

    format: str
    codes: tuple[Tree, ...] = ()
    buffers: tuple[Array | None, ...] = ()
    unused_buffers: frozenset[int] = frozenset()
    unused_codes: frozenset[int] = frozenset()
    metadata: tuple[int, ...] = ()
    metadata_buffer: tuple[int, ...] | None = None
    has_external_data: bool = False
    far_options: tuple[Array, ...] = ()
    has_rank: bool = False
    absent: tuple[str, ...] = ()
    archive: bytes = b""
    is_complete: bool = True
    source: FileMap | None = None
    rest: Tree = field(default_factory=dict)

    def __deepcopy__(self, memo: dict[int, Any]) -> Origin:
        """Return self: ``save`` recognizes the buffers by their address, so they must not be copied."""
        return self

    def __getstate__(self) -> Tree:
        """Return the fields for ``pickle``, without the memory map; arrays are copied from it.

        Raise FileError if the file was changed after it was loaded.
        """
        if self.source is not None:
            self.source.check()
        return {**self.__dict__, "source": None}


def extra_fault(extra: Tree, types: Mapping[str, tuple[type, ...]]) -> str | None:
    """Return a sentence about a value in ``extra`` that has none of the ``types`` of its key; else None.

    Such a value occurs because a model text may state any value in ``extra``.
    """
    for key, value in extra.items():
        if key in types and not isinstance(value, types[key]):
            names = " or ".join(kind.__name__ for kind in types[key])
            return f"{key} in extra: expected {names}, got {value!r:.80}"
    return None


NO_ORIGIN: Final = Origin(format="", absent=("operator_codes", "metadata", "signature_defs", "buffers"))
"""The origin of models that were not loaded from a file; ``absent`` makes ``save`` omit empty vectors."""


def absent(tree: Tree, names: Iterable[str]) -> tuple[str, ...]:
    """Return the ``names`` that are not fields of ``tree``."""
    return tuple(name for name in names if name not in tree)


def drop_absent(tree: Tree, names: Iterable[str]) -> None:
    """Remove each field of ``tree`` that is empty and in ``names``, the fields that the input file lacked."""
    for name in names:
        if name in tree and not len(tree[name]):
            del tree[name]
