# SPDX-License-Identifier: Apache-2.0
"""Locations of offsets, vtables, lengths and union types in a valid flatbuffer: the targets of damage."""

from __future__ import annotations

import struct
from collections import defaultdict
from typing import NamedTuple

from circlekit.io.schema import SIZES, Field, Kind, Table, table


class Leaf(NamedTuple):
    """A string or a vector of numbers, ``size`` bytes with its length.  ``at``: where the offset to it is."""

    at: int
    start: int
    size: int
    is_text: bool


class TablePlace(NamedTuple):
    """A table at byte ``at``; ``offset``: the position of an offset to it; ``is_leaf``: it has no offsets."""

    at: int
    vtable: int
    is_leaf: bool
    offset: int


class Structure:
    """Byte positions of each kind of structure in ``data``, a valid file of format ``fmt``."""

    def __init__(self, data: bytes, fmt: str) -> None:
        self.data = data
        self.format = fmt
        self.numbers: defaultdict[str, list[tuple[int, str, int]]] = defaultdict(list)
        """By kind: position, type code of ``struct``, and, of a length, the bytes of an element."""
        self.leaves: list[Leaf] = []
        self.tables: list[TablePlace] = []
        self.targets: list[int] = []
        """Positions that offsets may be redirected to: tables, vtables, vectors and strings."""
        self.seen: set[tuple[str, int]] = set()
        self._add("offset", 0, "I")
        self._table(0, table("Model", fmt))

    def _add(self, kind: str, at: int, code: str, unit: int = 1) -> None:
        self.numbers[kind].append((at, code, unit))

    def _word(self, at: int) -> int:
        return int(struct.unpack_from("<I", self.data, at)[0])

    def _table(self, at: int, spec: Table) -> None:
        place = at + self._word(at)
        vtable = place - int(struct.unpack_from("<i", self.data, place)[0])
        if (spec.name, place) in self.seen:
            return
        self.seen.add((spec.name, place))
        (length,) = struct.unpack_from("<H", self.data, vtable)
        slots = struct.unpack_from(f"<{length // 2 - 2}H", self.data, vtable + 4)
        present = [(f, o) for f, o in zip(spec.fields, slots, strict=False) if o]
        if ("", vtable) not in self.seen:
            self.seen.add(("", vtable))
            for kind, place_of_size in (("vtable_size", vtable), ("table_size", vtable + 2)):
                self._add(kind, place_of_size, "H")
            for index in range(len(slots)):
                self._add("slot", vtable + 4 + 2 * index, "H")
        refers = [(f, o) for f, o in present if f.kind not in (Kind.SCALAR, Kind.UNION_TYPE)]
        self.tables.append(TablePlace(place, vtable, not refers, at))
        self._add("to_vtable", place, "i")
        self.targets += (place, vtable)
        tags = {f.name: place + o for f, o in present if f.kind is Kind.UNION_TYPE}
        for position in tags.values():
            self._add("tag", position, "B")
        for field, offset in refers:
            self._add("offset", place + offset, "I")
            if field.kind is Kind.UNION:
                member = field.enum and field.enum.names.get(self.data[tags[field.name + "_type"]])
                if member:
                    self._table(place + offset, table(member, self.format))
            else:
                self._reference(place + offset, field)

    def _reference(self, at: int, field: Field) -> None:
        if field.kind is Kind.TABLE:
            self._table(at, table(field.table, self.format))
            return
        start = at + self._word(at)
        count = self._word(start)
        size = {Kind.STRING: 1, Kind.TABLES: 4}.get(field.kind, SIZES[field.code])
        self._add("length", start, "I", size)
        self.targets.append(start)
        if field.kind is Kind.TABLES:
            for place in range(start + 4, start + 4 + 4 * count, 4):
                self._add("offset", place, "I")
                self._table(place, table(field.table, self.format))
            return
        is_text = field.kind is Kind.STRING
        self.leaves.append(Leaf(at, start, 4 + count * size, is_text))
        if is_text:
            self._add("end", start + 4 + count, "B")
