# SPDX-License-Identifier: Apache-2.0
"""Encode trees as flatbuffers, driven by the schema and written front to back.

First in the file comes the skeleton: everything except the data of buffers, and except custom options that
are external data.  Then follow these data, each at a multiple of 16 bytes.  So a file of any size is written
from a skeleton in memory and from the constants, which are not copied.  The same tree gives the same bytes.

A table begins with the distance to its vtable, which lists the offsets of the fields in the table by slot
(number of the field).  A string, vector or other table is written behind the table, and its field has the
offset to it.
"""

from __future__ import annotations

import math
import struct
from collections import deque
from typing import Any, NamedTuple, NoReturn

import numpy as np

from circlekit.errors import ModelError, UnsupportedError
from circlekit.io.origin import Place
from circlekit.io.schema import IDENTIFIERS, SIZES, Field, Kind, Table, Tree, table
from circlekit.io.write.buffer_table import ConstantBytes, as_constant_bytes
from circlekit.io.write.encoded_file import Encoded, Payload
from circlekit.io.write.field_types import USUAL_TYPES, check_type
from circlekit.ir.value import Array

LARGEST_ZERO = 2.0**-150
"""The largest magnitude of a number that becomes zero as float32."""

ALIGNMENT_BYTES = 16
"""The data of a constant start at a multiple of this many bytes in the file."""

LENGTH_BYTES = 4
"""The size of the element count that stands before the elements of a flatbuffer vector."""

MAX_INLINE_BYTES = int(np.iinfo(np.int32).max)
"""If a file would have this many bytes or more, its constants are external data, behind the flatbuffer."""

SHORT_BYTES = 32
"""Any number of fields may share a vector of numbers if it takes at most this many bytes, length included.

Longer vectors, such as zero points, are shared too, but the bytes saved in this way never exceed the bytes
written so far.  The reason: some readers, such as ours, count the bytes of a vector once for every reference
to it, and refuse a file if this sum is too large for the size of the file.
"""

_U32 = struct.Struct("<I")
_U64 = struct.Struct("<Q")


class StatedDefault(int):
    """A number that is written even if it is the default of its field."""


class Layout(NamedTuple):
    """The layout of tables that have the same fields.

    ``pack``: packs the distance to the vtable, and the fields in the order of ``order``.
    ``vtable``: the bytes of the vtable.  ``order``: the slots of the fields, the largest fields first.
    ``references``: (slot, offset in the table, field) of each field whose value is outside of the table.
    ``is_wide``: whether there are fields of 8 bytes.
    """

    pack: struct.Struct
    vtable: bytes
    order: tuple[int, ...]
    references: tuple[tuple[int, int, Field], ...]
    is_wide: bool


def layout_of(spec: Table, mask: int) -> Layout:
    """Return the layout of a table of type ``spec``; bit n of ``mask``: the table has the field of slot n."""
    fields = [f for f in spec.fields if mask >> f.slot & 1]
    slots = [0] * (fields[-1].slot + 1 if fields else 0)  # the offset of each field; 0: the field is absent
    packed = sorted(fields, key=lambda f: -f.size)
    references = []
    code, end = "<i", 4
    for item in packed:
        slots[item.slot] = end
        if item.kind not in (Kind.SCALAR, Kind.UNION_TYPE):
            references.append((item.slot, end, item))
        code += item.code if item.kind in (Kind.SCALAR, Kind.UNION_TYPE) else "I"
        end += item.size
    # the vtable's own size, the size of a table, the offsets
    vtable = struct.pack(f"<{len(slots) + 2}H", 4 + 2 * len(slots), end, *slots)
    references.sort(key=lambda reference: reference[0])
    order = tuple(item.slot for item in packed)
    return Layout(struct.Struct(code), vtable, order, tuple(references), any(f.size == 8 for f in fields))


def encode(tree: Tree, fmt: str, limit: int = MAX_INLINE_BYTES) -> Encoded:
    """Return the file of ``tree`` in the format ``fmt``.

    If the file has ``limit`` bytes or more, its constants are external data.  Raise ModelError for a field
    that neither format has, and for a value that its field cannot hold.  Raise UnsupportedError for a field
    that only the other format has, and for the name of an enum value that this format lacks.
    """
    encoded = Encoder(fmt).run(tree)
    if encoded.size < limit:
        return encoded
    buffers = [_external(b) for b in tree.get("buffers", ())]
    return Encoder(fmt).run({**tree, "buffers": buffers})


def _external(buffer: Tree) -> Tree:
    """Return the table of a buffer, changed so that its data are external."""
    data = buffer.get("data")
    if data is None or not len(data):
        return buffer
    blob = as_constant_bytes(data)
    return {"offset": blob, "size": len(blob)}


class Encoder:
    """Encodes one tree.

    ``out``: the skeleton that is written so far.
    ``pending``: values that are still to be written, as (position of the offset to the value, field, value).
    ``vtables``: the positions of vtables by their bytes.
    ``layouts``: the layouts by name of the table and the ``mask`` of ``layout_of``.
    ``constants``: (position of a field, its constant data, whether the data are a flatbuffer vector).
    Data that are not a vector are external data, and the field gets their position in the file.
    ``shared``: (alignment, bytes) of vectors of numbers: the position of the latest vector that has them.
    ``repeated``: the bytes of vectors longer than SHORT_BYTES that were shared instead of written again.
    """

    def __init__(self, fmt: str) -> None:
        self.format = fmt
        self.out = bytearray()
        self.pending: deque[tuple[int, Field, Any]] = deque()
        self.vtables: dict[bytes, int] = {}
        self.layouts: dict[tuple[str, int], Layout] = {}
        self.constants: list[tuple[int, ConstantBytes, bool]] = []
        self.shared: dict[tuple[int, bytes], int] = {}
        self.repeated = 0

    def run(self, tree: Tree) -> Encoded:
        """Return the file of ``tree``, a table Model; raise the errors of ``encode``."""
        self.out += bytes(4) + IDENTIFIERS[self.format]
        self.write_table(0, tree, table("Model", self.format))
        while self.pending:
            self.write(*self.pending.popleft())
        return self.lay_out()

    def lay_out(self) -> Encoded:
        """Place the constant data after the skeleton; fields with data in the same memory share one copy."""
        payloads: dict[tuple[Place | int, bool], Payload] = {}
        end = len(self.out)
        for at, data, is_vector in self.constants:
            key = (data.place or id(data)), is_vector
            payload = payloads.get(key)
            if payload is None:
                lowest = end + LENGTH_BYTES * is_vector
                payload = payloads[key] = Payload(lowest + -lowest % ALIGNMENT_BYTES, data, is_vector)
                end = payload.end
            if is_vector:  # only in a file that ``encode`` discards may an offset exceed 32 bits
                _U32.pack_into(self.out, at, (payload.position - LENGTH_BYTES - at) & 0xFFFFFFFF)
            else:
                _U64.pack_into(self.out, at, payload.position)
        return Encoded(self.out, list(payloads.values()))

    def align(self, size: int, ahead: int = 0) -> int:
        """Add zeros to the output until its end plus ``ahead`` is a multiple of ``size``; return the end."""
        end = len(self.out)
        gap = -(end + ahead) % size
        self.out += bytes(gap)
        return end + gap

    def begin(self, at: int, size: int = 4, ahead: int = 0) -> int:
        """Align the output (see ``align``); return its end, to which the offset at ``at`` then points."""
        start = self.align(size, ahead)
        _U32.pack_into(self.out, at, start - at)
        return start

    # -- tables --------------------------------------------------------------------------------

    def write_table(self, at: int, tree: Tree, spec: Table) -> None:
        """Write the table ``tree``, and let the offset at ``at`` point to it."""
        values: dict[int, Any] = {}
        mask = 0  # has a bit for each slot of ``values``
        for name, value in tree.items():
            if value is None or not name:  # the key "" of a union's table has the name of the table
                continue
            item = spec.by_name.get(name) or self.refuse(name, value, spec)
            kind, slot = item.kind, item.slot
            if type(value) is not USUAL_TYPES.get(kind):
                check_type(item, value, spec)
            if kind is Kind.SCALAR:
                if item.code == "f" and abs(value) <= LARGEST_ZERO:
                    value = math.copysign(0.0, value)
                # -0.0 equals a default of 0, but is another number
                if value == item.default and str(value) != "-0.0" and not isinstance(value, StatedDefault):
                    continue
                if item.enum is not None:
                    value = self.number(value, item, spec.name)
            elif kind is Kind.UNION:  # the field before a union has its type
                values[slot - 1] = self.number(value[""], item, spec.name)
                mask |= 1 << slot - 1
            elif kind is Kind.UNION_TYPE:
                value = self.number(value, item, spec.name)
            mask |= 1 << slot
            values[slot] = value
        layout = self.layouts.get((spec.name, mask))
        if layout is None:
            layout = self.layouts[spec.name, mask] = layout_of(spec, mask)
        try:
            self.put(at, layout, values)
        except (struct.error, OverflowError) as error:  # ``struct`` raises OverflowError for floats
            raise ModelError(f"{spec.name} has a number that its field cannot hold: {error}") from None

    def put(self, at: int, layout: Layout, values: dict[int, Any]) -> None:
        """Write a table with ``values`` by slot; write its vtable unless an equal one is written already."""
        vtable = self.vtables.get(layout.vtable)
        if vtable is None:
            vtable = self.vtables[layout.vtable] = self.align(2)
            self.out += layout.vtable
        # the fields of 8 bytes stand first, behind the distance of 4 bytes, and must be aligned
        start = self.begin(at, 8, 4) if layout.is_wide else self.begin(at)
        for slot, offset, item in layout.references:
            self.pending.append((start + offset, item, values[slot]))
            values[slot] = 0
        if layout.is_wide:
            for index, slot in enumerate(layout.order):
                value = values[slot]
                if isinstance(value, ConstantBytes):  # external data: ``lay_out`` stores their position here
                    self.constants.append((start + 4 + 8 * index, value, False))
                    values[slot] = 0
        self.out += layout.pack.pack(start - vtable, *[values[slot] for slot in layout.order])

    def number(self, value: str | int, item: Field, owner: str = "") -> int:
        """Return the number of an enum value; raise UnsupportedError if the format does not have it.

        ``owner``: the name of the table that has the field ``item``, for the error; "": it is not known.
        """
        if isinstance(value, int):
            return value
        assert item.enum is not None
        number = item.enum.numbers.get(value)
        if number is None:
            place = f"{owner}.{item.name}" if owner else item.name
            raise UnsupportedError(f".{self.format} has no {item.enum.name} {value} for {place}")
        return number

    def refuse(self, name: str, value: Any, spec: Table) -> NoReturn:
        """Raise the error for a field that the format or the schema does not have."""
        if name not in spec.foreign:
            raise ModelError(f"the schema has no field {spec.name}.{name}")
        raise UnsupportedError(f".{self.format} has no field {spec.name}.{name} (its value is {value!r})")

    # -- values outside of their table ---------------------------------------------------------

    def write(self, at: int, item: Field, value: Any) -> None:
        """Write a value that is stored outside of its table, and let the offset at ``at`` point to it."""
        kind = item.kind
        if kind is Kind.VECTOR:
            self.write_vector(at, item, value)
        elif kind is Kind.STRING:
            try:
                text = value.encode("utf-8", "surrogateescape")
            except UnicodeEncodeError as error:
                raise ModelError(f"{item.name}: expected text that UTF-8 can encode: {error}") from None
            self.begin(at)
            self.out += _U32.pack(len(text)) + text + b"\0"
        elif kind is Kind.TABLE:
            self.write_table(at, value, table(item.table, self.format))
        elif kind is Kind.UNION:
            self.write_table(at, value, table(value[""], self.format))
        else:  # a vector of tables: the offsets follow the length
            start = self.begin(at) + 4
            self.out += _U32.pack(len(value)) + bytes(4 * len(value))
            for index, tree in enumerate(value):
                self.write_table(start + 4 * index, tree, table(item.table, self.format))

    def write_vector(self, at: int, item: Field, value: Any) -> None:
        """Write a vector of numbers, or record the data of a buffer, which ``lay_out`` places later."""
        if item.is_data and len(value):
            self.constants.append((at, as_constant_bytes(value), True))
            return
        if item.enum is not None:
            value = [self.number(v, item) for v in value]
        try:
            if isinstance(value, list | tuple):
                data = struct.pack(f"<{len(value)}{item.code}", *value)
            else:
                data = _array_bytes(value, item.code) if isinstance(value, np.ndarray) else bytes(value)
        except (struct.error, OverflowError) as error:  # ``struct`` raises OverflowError for floats
            raise ModelError(f"{item.name} has an element that its field cannot hold: {error}") from None
        size = SIZES[item.code]
        self.put_vector(at, max(size, 4), _U32.pack(len(data) // size) + data)

    def put_vector(self, at: int, size: int, data: bytes) -> None:
        """Write length and elements of a vector, or let the offset at ``at`` point to an equal vector.

        ``size``: the alignment of the elements.  ``data``: the bytes of length and elements.  A vector before
        ``at`` cannot be shared, because offsets are positive.
        """
        start = self.shared.get((size, data), 0)  # 0: there is no equal vector
        counted = len(data) if len(data) > SHORT_BYTES else 0
        if start > at and self.repeated + counted <= len(self.out):
            _U32.pack_into(self.out, at, start - at)
            self.repeated += counted
            return
        self.shared[size, data] = self.begin(at, size, LENGTH_BYTES)
        self.out += data


def _array_bytes(array: Array, code: str) -> bytes:
    """Return the bytes of ``array``, its elements converted to the type code ``code``.

    Floats are rounded.  Raise OverflowError if this type cannot hold an element.
    """
    dtype = np.dtype(code).newbyteorder("<")
    if array.dtype != dtype:
        with np.errstate(all="ignore"):
            stored = array.astype(dtype)
        fits = np.isfinite(stored) == np.isfinite(array) if dtype.kind == "f" else stored == array
        if not fits.all():
            raise OverflowError(f"{array[~fits][0]} does not fit {dtype}")
        array = stored
    return array.tobytes()
