# SPDX-License-Identifier: Apache-2.0
"""Decode flatbuffers to trees, driven by the schema; every offset is checked before it is used.

A table begins with the distance back to its vtable.  The vtable begins with its own size and the size of the
table.  Then follows, for each slot (number of a field), the offset of the field in the table; 0 means that
the field is absent.  A string, vector or other table is stored elsewhere; its field is a reference: the
distance to it.

An invalid file gives FormatError with the path of the field, such as ``subgraphs[0].operators[12].inputs``.
The size of the file bounds time and memory.  A reference takes four bytes, so a file of n bytes has at most
n / 4 of them.  If the decoder follows more, the file refers to the same tables again and again, and is
refused.  A file of more than MAX_TABLES tables is refused too.  The depth of the tree is bounded, because no
table of the schema contains itself.

The decoder makes all checks of the verifier of the C++ flatbuffers library except two, which callers make:
the identifier (``identify``), and the limit of RUNTIME_TABLES tables (``Decoder.tables``).  In strings, bytes
that are not UTF-8 become surrogates (``surrogateescape``), which are written back as the same bytes.
"""

from __future__ import annotations

import struct
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple, NoReturn

import numpy as np

from circlekit.errors import FormatWarning, counted
from circlekit.io.findings import InvalidFile
from circlekit.io.schema import IDENTIFIERS, Field, Kind, Table, Tree, table
from circlekit.ir.tensor import Array

HEADER_BYTES = 8
"""The size of the first fields of every file: the offset of the root table, and the identifier."""

MAX_WARNINGS = 20
"""At most this many lost fields of a file are reported."""

MAX_TABLES = 4_000_000
"""The largest number of tables of a file; a decoded table takes a few hundred bytes of memory.

A model of half a million operators has fewer tables.
"""

MAX_SHARED_TABLES = 100_000
"""The largest number of vector elements that refer to the same table as an earlier element of their vector.

The table is read again for each such element, which takes time.
"""

RUNTIME_TABLES = 1_000_000
"""The largest number of tables that the C++ verifier, and so LiteRT, accepts.

A table counts once for each reference to it.
"""

MAX_OFFSET = 1 << 31
"""Offsets and sizes of vectors in bytes are below this: the C++ library reads them as signed numbers."""

Note = Callable[[str, str], None]
"""A function called with the path of a field of the file that is lost, and a sentence about the loss."""

_U32 = struct.Struct("<I")
_I32 = struct.Struct("<i")


class Layout(NamedTuple):
    """The layout of the tables that share a vtable.  Offsets are positions in the table.

    ``size``: the bytes of a table.
    ``unpack``: reads all numbers in the table itself.  ``names``: the fields of these numbers, in order.
    ``enums``: for each field that holds an enum value, its name and the names of the members by number.
    ``references``: each field whose value is stored outside of the table, with its offset.
    ``unions``: a pair for each union.  A union has two fields, its type and its value.  The pair has the
    field of the type, or that of the value if the type is absent; and the offset of the value, None if the
    value is absent.
    ``wide``: the offsets of the fields of 8 bytes, which must be aligned.
    ``unknown``: the first MAX_WARNINGS slots of fields that the schema does not have.
    """

    size: int
    unpack: struct.Struct
    names: tuple[str, ...]
    enums: tuple[tuple[str, dict[int, str]], ...]
    references: tuple[tuple[Field, int], ...]
    unions: tuple[tuple[Field, int | None], ...]
    wide: tuple[int, ...]
    unknown: tuple[int, ...]


def identify(data: memoryview) -> str | None:
    """Return the format that the identifier of the file names; None if it names neither format."""
    tag = bytes(data[4:8])
    return next((fmt for fmt, identifier in IDENTIFIERS.items() if identifier == tag), None)


def decode(data: memoryview, fmt: str, name: str = "<bytes>") -> Tree:
    """Return the tree of a file; raise InvalidFile for an invalid file.

    Vectors of numbers in the tree are views of ``data``.  ``name``: the name of the file, for messages.
    """
    return Decoder(data, fmt, name).root()


class Decoder:
    """Decodes one file.

    ``note``: is called for the first MAX_WARNINGS fields that are lost; by default a FormatWarning is issued.
    ``bytes``: the file as an array.  ``path``: the path of the current field.
    ``references_left``, ``bytes_left``: how many more references and bytes may be followed and read.
    ``notes``: the number of fields found to be lost.  ``tables``: the number of tables read.  ``shared``: the
    number of vector elements that refer to the same table as an earlier element of their vector.
    ``layouts``: the layouts by name of the table and position of the vtable.
    ``strings``: the strings by position.
    """

    def __init__(self, data: memoryview, fmt: str, name: str, note: Note | None = None) -> None:
        self.data = data
        self.bytes = np.frombuffer(data, np.uint8)
        self.size = len(data)
        self.format = fmt
        self.name = name
        self.path: list[str | int] = []
        self.references_left = self.size // 4
        self.bytes_left = 4 * self.size  # more than the file has, because several fields may share a vector
        self.note = note or self.warn
        self.notes = 0
        self.tables = 0
        self.shared = 0
        self.layouts: dict[tuple[str, int], Layout] = {}
        self.strings: dict[int, str] = {}

    def root(self) -> Tree:
        """Return the tree of the table Model; raise InvalidFile for an invalid file."""
        if self.size < HEADER_BYTES:
            self.fail(f"expected {HEADER_BYTES} bytes or more, got {self.size}")
        return self.table_at(0, _U32.unpack_from(self.data, 0)[0], table("Model", self.format))

    # -- errors --------------------------------------------------------------------------------

    def where(self, leaf: str = "") -> str:
        """Return the path of the current field, or of the field ``leaf`` in it, as text."""
        parts = [*self.path, leaf] if leaf else self.path
        text = "".join(f"[{p}]" if isinstance(p, int) else f".{p}" for p in parts)
        return text[1:] or "the root"

    def fail(self, what: str, leaf: str = "") -> NoReturn:
        """Raise InvalidFile with the message ``what`` at the current field or at its field ``leaf``."""
        raise InvalidFile.of(self.name, "flatbuffer", self.where(leaf), what)

    def lose(self, what: str, leaf: str) -> None:
        """Report that the field ``leaf``, or a part of it, is lost.  ``what``: a sentence."""
        self.notes += 1
        if self.notes <= MAX_WARNINGS:
            self.note(self.where(leaf), what)

    def warn(self, path: str, what: str) -> None:
        warnings.warn(f"{self.name}: {path}: {what}", FormatWarning, stacklevel=2)

    def spend(self, references: int, size: int = 0) -> None:
        """Count references that are followed and bytes that are read; fail if there are too many."""
        self.references_left -= references
        self.bytes_left -= size
        if self.references_left < 0 or self.bytes_left < 0:
            self.fail("the file refers to the same data too often")

    # -- tables --------------------------------------------------------------------------------

    def count(self, tables: int) -> None:
        """Count ``tables`` tables that are read next; fail if there are too many in all."""
        self.spend(tables)
        self.tables += tables
        if self.tables > MAX_TABLES:
            self.fail(f"expected at most {MAX_TABLES} tables, got {self.tables} or more")

    def target(self, at: int, offset: int) -> int:
        """Return the position to which ``offset``, stored at byte ``at``, points.

        Raise InvalidFile unless ``offset`` is from 1 to MAX_OFFSET - 1, and the position is a multiple of 4
        at which the file has four bytes.
        """
        target = at + offset
        if 0 < offset < MAX_OFFSET and target > self.size - 4:
            end = f"beyond the end of the file of {self.size:,} bytes, which may be cut off"
            self.fail(f"the offset at byte {at:,} leads to byte {target:,}, {end}")
        if not 0 < offset < MAX_OFFSET or target % 4:
            self.fail(f"the offset {offset} at byte {at} does not lead forwards to an aligned place")
        return target

    def table_at(self, at: int, offset: int, spec: Table) -> Tree:
        """Return the table to which ``offset``, stored at byte ``at``, points.  ``spec``: its schema."""
        self.count(1)
        return self.read(self.target(at, offset), spec)

    def tables_at(self, at: int, offset: int, spec: Table) -> list[Tree]:
        """Return the tables of the vector to which ``offset``, stored at byte ``at``, points."""
        start, count = self.vector(at, offset, 4)
        self.count(count)
        offsets = self.numbers(start, count, np.dtype("<u4")).tolist()
        out = []
        seen: set[int] = set()
        self.path.append(0)
        for index, distance in enumerate(offsets):
            self.path[-1] = index
            position = self.target(start + 4 * index, distance)
            self.shared += position in seen
            seen.add(position)
            if self.shared > MAX_SHARED_TABLES:
                self.fail("the file refers to the same tables too often")
            out.append(self.read(position, spec))
        self.path.pop()
        return out

    def read(self, position: int, spec: Table) -> Tree:
        """Return the table at ``position``, which is aligned and inside the file."""
        vtable = position - _I32.unpack_from(self.data, position)[0]
        layout = self.layouts.get((spec.name, vtable))
        if layout is None:
            layout = self.layout(vtable, spec)
            self.layouts[spec.name, vtable] = layout
        if position + layout.size > self.size:
            self.fail(f"a table of {layout.size} bytes at byte {position} ends beyond the file")
        for offset in layout.wide:
            if (position + offset) % 8:
                self.fail(f"an 8-byte field at byte {position + offset} is not aligned")
        tree: Tree = dict(zip(layout.names, layout.unpack.unpack_from(self.data, position), strict=True))
        for name, names in layout.enums:
            tree[name] = names.get(tree[name], tree[name])
        for slot in layout.unknown:
            self.lose(f"the schema has no slot {slot} in {spec.name}; its value is lost", f"slot_{slot}")
        for field, offset in layout.references:
            tree[field.name] = self.reference(position + offset, tree[field.name], field)
        for field, union_offset in layout.unions:
            self.union(tree, field, None if union_offset is None else position + union_offset)
        return tree

    def layout(self, vtable: int, spec: Table) -> Layout:
        """Return the layout of the tables that share the vtable at byte ``vtable``; fail if it is invalid."""
        if vtable < 0 or vtable > self.size - 4 or vtable % 2:
            self.fail(f"expected a vtable at an even byte inside the file, got byte {vtable}")
        length, size = struct.unpack_from("<HH", self.data, vtable)
        if length < 4 or length % 2 or vtable + length > self.size or size < 4:
            self.fail(f"the vtable at byte {vtable} has an invalid size or is not inside the file")
        self.spend(0, length)
        offsets = struct.unpack_from(f"<{(length - 4) // 2}H", self.data, vtable + 4)
        present = [(offset, field) for offset, field in zip(offsets, spec.fields, strict=False) if offset]
        present.sort(key=lambda item: item[0])
        code, end = "<", 0  # the format for ``struct``, in which "12x" skips 12 bytes between two fields
        for offset, field in present:  # the first 4 bytes of a table are the distance to the vtable
            if offset < max(end, 4) or offset + field.size > size or offset % min(field.size, 4):
                self.fail(f"the vtable gives this field the invalid offset {offset}", field.name)
            code += f"{offset - end}x{field.code if field.kind in (Kind.SCALAR, Kind.UNION_TYPE) else 'I'}"
            end = offset + field.size
        count = len(spec.fields)
        unknown = tuple(slot for slot, offset in enumerate(offsets[count:], count) if offset)[:MAX_WARNINGS]
        offset_of = {field.name: offset for offset, field in present}
        union_types = [field for _, field in present if field.kind is Kind.UNION_TYPE]
        untyped = [f for _, f in present if f.kind is Kind.UNION and f.name + "_type" not in offset_of]
        unions = [(f, offset_of.get(f.name.removesuffix("_type"))) for f in union_types]
        return Layout(
            size,
            struct.Struct(code),
            tuple(field.name for _, field in present),
            tuple((f.name, f.enum.names) for _, f in present if f.enum and f.kind is Kind.SCALAR),
            # these kinds are STRING, VECTOR, TABLE and TABLES
            tuple((f, o) for o, f in present if Kind.STRING <= f.kind <= Kind.TABLES),
            (*unions, *((f, offset_of[f.name]) for f in untyped)),
            tuple(offset for offset, field in present if field.size == 8),
            unknown,
        )

    # -- values outside of their table ---------------------------------------------------------

    def reference(self, at: int, offset: int, field: Field) -> Any:
        """Return the value of ``field``, to which ``offset``, stored at byte ``at``, points."""
        self.path.append(field.name)
        value: Any
        if field.kind is Kind.VECTOR:
            value = self.scalars_at(at, offset, field)
        elif field.kind is Kind.STRING:
            value = self.string_at(at, offset)
        elif field.kind is Kind.TABLE:
            value = self.table_at(at, offset, table(field.table, self.format))
        else:
            value = self.tables_at(at, offset, table(field.table, self.format))
        self.path.pop()
        return value

    def union(self, tree: Tree, field: Field, at: int | None) -> None:
        """Read a union and set it in ``tree``.

        ``field``: the field that holds the type of the union; the union itself if the table has no type.
        ``at``: the position of the offset of the union's value; None if the table has no value.
        """
        name = field.name.removesuffix("_type") if field.kind is Kind.UNION_TYPE else field.name
        tag = tree.pop(name + "_type", 0)
        offset = tree.pop(name, None)
        member = field.enum.names.get(tag) if field.enum else None
        if member is None:
            if at is not None and not 0 < offset < min(MAX_OFFSET, self.size - at):  # as the C++ verifier
                self.fail(f"the offset {offset} at byte {at} does not lead forwards into the file", name)
            if tag or offset is not None:
                self.lose(f"the schema has no member {tag} in this union; its value is lost", name)
        elif at is None:
            tree[name + "_type"] = member
        else:
            self.path.append(name)
            tree[name] = {"": member, **self.table_at(at, offset, table(member, self.format))}
            self.path.pop()

    def vector(self, at: int, offset: int, size: int) -> tuple[int, int]:
        """Return position and number of the elements of the vector to which ``offset`` points.

        ``at``: the position of ``offset``.  ``size``: the bytes of an element.  Some writers do not align
        elements of 8 bytes; as in the C++ verifier, this is not an error.
        """
        position = self.target(at, offset)
        (count,) = _U32.unpack_from(self.data, position)
        if position + 4 + count * size > self.size or count * size >= MAX_OFFSET:
            vector = f"a vector of {counted(count, 'element')} at byte {position}"
            self.fail(f"{vector} ends beyond the file, or has 2 GiB or more")
        return position + 4, count

    def scalars_at(self, at: int, offset: int, field: Field) -> Any:
        """Return the vector to which ``offset`` points: a view of the file, or a list of enum values."""
        dtype = np.dtype(field.code).newbyteorder("<")
        start, count = self.vector(at, offset, dtype.itemsize)
        if not field.is_data:  # data stay a view that is not read here
            self.spend(0, count * dtype.itemsize)
        view = self.numbers(start, count, dtype)
        if field.enum is None:
            return view
        self.spend(count)  # an element of the list takes memory, so it counts as a reference
        return [field.enum.names.get(v, v) for v in view.tolist()]

    def numbers(self, start: int, count: int, dtype: np.dtype[Any]) -> Array:
        """Return the ``count`` numbers from byte ``start`` on, as a view of the file."""
        # np.frombuffer would add a memoryview for each vector, which slows down garbage collection
        return self.bytes[start : start + count * dtype.itemsize].view(dtype)

    def string_at(self, at: int, offset: int) -> str:
        """Return the string to which ``offset``, stored at byte ``at``, points."""
        start, count = self.vector(at, offset, 1)
        self.spend(1)
        text = self.strings.get(start)
        if text is None:
            self.spend(0, count)
            if start + count >= self.size or self.data[start + count]:
                self.fail(f"the string at byte {start} does not end with a zero")
            text = str(self.data[start : start + count], "utf-8", "surrogateescape")
            self.strings[start] = text
        return text
