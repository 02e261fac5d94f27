# SPDX-License-Identifier: Apache-2.0
"""Tree -> flatbuffer, driven by the schema, written front to back.

The skeleton (everything but the data of buffers) comes first, the data behind it in the order of the
buffers, each at a multiple of 16 bytes; the offsets into the data point forward.  So a file of any size is
written from a skeleton in memory and the constants where they are.  Same tree, same bytes.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from circlekit.errors import UnsupportedError
from circlekit.io.schema import IDENTIFIERS, SIZES, Field, Kind, Table, Tree, table

ALIGNMENT = 16
"""Constant data starts at multiples of this many bytes from the start of the file."""

INLINE_LIMIT = 2**31 - 1
"""A flatbuffer ends below this; data of larger files is referred to by its place in the file."""

_U32 = struct.Struct("<I")
_U64 = struct.Struct("<Q")


class Payload(NamedTuple):
    """Constant data behind the skeleton: where it starts, its bytes, whether a length goes before it."""

    position: int
    data: memoryview
    counted: bool


@dataclass
class Encoded:
    """A file in pieces."""

    skeleton: bytearray
    payloads: list[Payload]
    size: int

    def pieces(self) -> Iterator[bytes | bytearray | memoryview]:
        """The bytes of the file, in order."""
        yield self.skeleton
        at = len(self.skeleton)
        for position, data, counted in self.payloads:
            head = _U32.pack(len(data)) if counted else b""
            yield bytes(position - len(head) - at) + head
            yield data
            at = position + len(data)


@dataclass(frozen=True)
class Far:
    """The value of a field that holds a position in the file: where the writer puts ``data``."""

    data: memoryview


@dataclass(frozen=True)
class Layout:
    """How a table with certain fields lies in the file.

    ``order``: for each value in the packed order, its index among the fields in slot order.
    ``references``: (index in slot order, offset in the table, field) of those stored elsewhere.
    """

    pack: struct.Struct
    vtable: bytes
    order: tuple[int, ...]
    references: tuple[tuple[int, int, Field], ...]
    is_wide: bool


def plan(spec: Table, mask: int) -> Layout:
    """Lay out the fields in ``mask`` (a bit per slot), largest first; 8-byte ones start at byte 4."""
    fields = [f for f in spec.fields if mask >> f.slot & 1]
    order = sorted(range(len(fields)), key=lambda i: -fields[i].size)
    slots = [0] * (fields[-1].slot + 1 if fields else 0)
    references = []
    code, end = "<i", 4
    for index in order:
        item = fields[index]
        slots[item.slot] = end
        if item.kind not in (Kind.SCALAR, Kind.UNION_TYPE):
            references.append((index, end, item))
        code += item.code if item.size < 4 or item.kind is Kind.SCALAR else "I"
        end += item.size
    vtable = struct.pack(f"<{len(slots) + 2}H", 4 + 2 * len(slots), end, *slots)
    references.sort()
    is_wide = any(f.size == 8 for f in fields)
    return Layout(struct.Struct(code), vtable, tuple(order), tuple(references), is_wide)


def encode(tree: Tree, fmt: str, limit: int = INLINE_LIMIT) -> Encoded:
    """The file of ``tree`` in format ``fmt``; beyond ``limit`` bytes data is referred to by position."""
    encoded = Encoder(fmt).run(tree)
    if encoded.size < limit:
        return encoded
    buffers = [_by_position(b) for b in tree.get("buffers", ())]
    return Encoder(fmt).run({**tree, "buffers": buffers})


def as_bytes(data: Any) -> memoryview:
    """The bytes of an array or bytes-like object, without a copy where it is contiguous."""
    if isinstance(data, np.ndarray):
        return np.ascontiguousarray(data).reshape(-1).view(np.uint8).data
    return memoryview(data).cast("B")


def _by_position(buffer: Tree) -> Tree:
    data = buffer.get("data")
    if data is None or not len(data):
        return buffer
    view = as_bytes(data)
    return {"offset": Far(view), "size": len(view)}


class Encoder:
    """One run over one tree."""

    def __init__(self, fmt: str) -> None:
        self.format = fmt
        self.out = bytearray()
        self.pending: list[tuple[int, Field, Any]] = []
        self.vtables: dict[bytes, int] = {}
        self.layouts: dict[tuple[str, int], Layout] = {}
        self.far: list[tuple[int, memoryview, bool]] = []

    def run(self, tree: Tree) -> Encoded:
        self.out += bytes(4) + IDENTIFIERS[self.format]
        self.write_table(0, tree, table("Model", self.format))
        for at, item, value in self.pending:  # which grows meanwhile
            self.write(at, item, value)
        return self.place()

    def place(self) -> Encoded:
        """Put the data behind the skeleton."""
        payloads: list[Payload] = []
        end = len(self.out)
        for at, data, counted in self.far:
            start = -(-(end + 4 * counted) // ALIGNMENT) * ALIGNMENT
            if counted:
                _U32.pack_into(self.out, at, (start - 4 - at) & 0xFFFFFFFF)
            else:
                _U64.pack_into(self.out, at, start)
            payloads.append(Payload(start, data, counted))
            end = start + len(data)
        return Encoded(self.out, payloads, end)

    def align(self, size: int, ahead: int = 0) -> int:
        """Fill up until what comes ``ahead`` bytes later is at a multiple of ``size``."""
        self.out += bytes(-(len(self.out) + ahead) % size)
        return len(self.out)

    def refer(self, at: int) -> None:
        """Let the offset at ``at`` lead to the end of what is written."""
        _U32.pack_into(self.out, at, len(self.out) - at)

    # -- tables --------------------------------------------------------------------------------

    def write_table(self, at: int, tree: Tree, spec: Table) -> None:
        """A table, and the offset at ``at`` to it."""
        values: list[Any] = []
        mask = found = 0
        get = tree.get
        for item in spec.fields:
            value = get(item.name)
            if value is not None:
                found += 1
            elif item.kind is not Kind.UNION_TYPE or (value := _member(tree, item)) is None:
                continue
            if item.kind is Kind.SCALAR and value == item.default and not _is_negative_zero(value):
                continue
            if item.enum is not None and item.kind in (Kind.SCALAR, Kind.UNION_TYPE):
                value = self.number(value, item, spec)
            mask |= 1 << item.slot
            values.append(value)
        if found != len(tree) - ("" in tree):
            self.check_names(tree, spec)
        layout = self.layouts.get((spec.name, mask))
        if layout is None:
            layout = self.layouts[spec.name, mask] = plan(spec, mask)
        self.put(at, layout, values)

    def put(self, at: int, layout: Layout, values: list[Any]) -> None:
        """The table with ``values`` (in slot order), behind its vtable where that is new."""
        vtable = self.vtables.get(layout.vtable)
        if vtable is None:
            vtable = self.vtables[layout.vtable] = self.align(2)
            self.out += layout.vtable
        start = self.align(8, 4) if layout.is_wide else self.align(4)
        self.refer(at)
        for index, offset, item in layout.references:
            self.pending.append((start + offset, item, values[index]))
            values[index] = 0
        for index, value in enumerate(values):
            if isinstance(value, Far):
                offset = 4 + 8 * layout.order.index(index)
                self.far.append((start + offset, value.data, False))
                values[index] = 0
        self.out += layout.pack.pack(start - vtable, *[values[i] for i in layout.order])

    def number(self, value: str | int, item: Field, spec: Table) -> int:
        """The number of an enum value."""
        if isinstance(value, int):
            return value
        assert item.enum is not None
        number = item.enum.numbers.get(value)
        if number is None:
            place = f"{spec.name}.{item.name}"
            raise UnsupportedError(f".{self.format} has no {item.enum.name} {value} for {place}")
        return number

    def check_names(self, tree: Tree, spec: Table) -> None:
        """Refuse what the format cannot say; None stands for absent."""
        for name, value in tree.items():
            if value is None or not name or name in spec.by_name:
                continue
            if name not in spec.foreign:
                raise KeyError(f"the schema has no field {spec.name}.{name}")
            raise UnsupportedError(f".{self.format} has no field {spec.name}.{name} (it is {value!r} here)")

    # -- what a table refers to ----------------------------------------------------------------

    def write(self, at: int, item: Field, value: Any) -> None:
        """The value of a field that is stored outside of its table, and the offset at ``at`` to it."""
        kind = item.kind
        if kind is Kind.VECTOR:
            self.write_vector(at, item, value)
        elif kind is Kind.STRING:
            text = value.encode("utf-8", "surrogateescape")
            self.align(4)
            self.refer(at)
            self.out += _U32.pack(len(text)) + text + b"\0"
        elif kind is Kind.TABLE:
            self.write_table(at, value, table(item.table, self.format))
        elif kind is Kind.UNION:
            self.write_table(at, value, table(value[""], self.format))
        else:
            self.write_tables(at, value, table(item.table, self.format))

    def write_tables(self, at: int, trees: list[Tree], spec: Table) -> None:
        self.align(4)
        self.refer(at)
        start = len(self.out) + 4
        self.out += _U32.pack(len(trees)) + bytes(4 * len(trees))
        for index, tree in enumerate(trees):
            self.write_table(start + 4 * index, tree, spec)

    def write_vector(self, at: int, item: Field, value: Any) -> None:
        """A vector of numbers; that of a buffer's data is left for ``place``."""
        if item.is_data and len(value):
            self.far.append((at, as_bytes(value), True))
            return
        if item.enum is not None:
            value = [v if isinstance(v, int) else item.enum.numbers[v] for v in value]
        if isinstance(value, list | tuple):
            data = struct.pack(f"<{len(value)}{item.code}", *value)
        elif isinstance(value, np.ndarray):
            data = value.astype(np.dtype(item.code).newbyteorder("<"), copy=False).tobytes()
        else:
            data = bytes(value)
        size = SIZES[item.code]
        self.align(max(size, 4), 4)
        self.refer(at)
        self.out += _U32.pack(len(data) // size)
        self.out += data


def _member(tree: Tree, item: Field) -> str | None:
    """Which table the union of type field ``item`` holds."""
    value = tree.get(item.name.removesuffix("_type"))
    return None if value is None else str(value[""])


def _is_negative_zero(value: Any) -> bool:
    return isinstance(value, float) and value == 0 and math.copysign(1.0, value) < 0
