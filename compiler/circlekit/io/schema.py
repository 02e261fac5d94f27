# SPDX-License-Identifier: Apache-2.0
"""The tables and enums of the schema, as one of the two formats has them; ``io.tables`` holds their data."""

from __future__ import annotations

import struct
from enum import IntEnum, auto
from functools import cache
from typing import Any, Final, NamedTuple

from circlekit.io.tables import ENUMS, TABLES, UNIONS

Tree = dict[str, Any]
"""One decoded table as {field: value}; it has only the fields that the file has.

An enum value is a name, or a number if the schema has no name for it.  The value of a string is a str, of a
vector an array or a list, of a table a tree.  The tree of a union also has the name of its table, under the
key "".
"""

FORMATS: Final = ("tflite", "circle")
IDENTIFIERS: Final = {"tflite": b"TFL3", "circle": b"CIR0"}
EXTENSIONS: Final = {".tflite": "tflite", ".lite": "tflite", ".circle": "circle"}
TFLITE_VERSION: Final = 3
"""The only schema version that LiteRT accepts; circle files often have 0."""

SCALARS: Final = {
    "bool": "?", "byte": "b", "ubyte": "B", "short": "h", "ushort": "H", "int": "i", "uint": "I",
    "long": "q", "ulong": "Q", "float": "f", "double": "d",
}  # fmt: skip
"""The scalar types of the schema, with their type code in ``struct`` and numpy."""

SIZES: Final = {code: struct.calcsize(f"<{code}") for code in SCALARS.values()}
"""The size of each scalar in bytes, by its type code."""


class Kind(IntEnum):
    """How a field is stored.

    VECTOR: a vector of scalars.  TABLES: a vector of tables.  A union, that is, a table of one of several
    types, takes two fields: UNION_TYPE, a byte that says which type, then UNION, the table.
    """

    SCALAR = auto()
    STRING = auto()
    VECTOR = auto()
    TABLE = auto()
    TABLES = auto()
    UNION_TYPE = auto()
    UNION = auto()


class Enumeration(NamedTuple):
    """An enum or union in one format: its member names by number, and their numbers by name."""

    name: str
    names: dict[int, str]
    numbers: dict[str, int]


class Field(NamedTuple):
    """One field of a table.

    ``slot``: its number in the table, from 0 on.  ``code``: the type code (see SCALARS) of the scalar, of a
    vector's elements, or "I" for an offset to anything else.  ``default``: the value of a scalar that the
    file lacks, an enum value by name.  ``enum``: the enum whose values the field has, or the union of the
    field; None for other fields.  ``table``: for a table or a vector of tables, the name of the table's type.
    ``is_data``: whether the field is the data of a buffer.
    """

    name: str
    kind: Kind
    slot: int
    code: str
    default: Any = None
    enum: Enumeration | None = None
    table: str = ""
    is_data: bool = False

    @property
    def size(self) -> int:
        """The bytes that the field takes in the table itself: those of a scalar, or 4 for an offset."""
        return SIZES[self.code] if self.kind in (Kind.SCALAR, Kind.UNION_TYPE) else 4


class Table(NamedTuple):
    """A table in one format.

    ``fields``: its fields in the order of their slots.  ``foreign``: the names of fields that only the other
    format has.
    """

    name: str
    format: str
    fields: tuple[Field, ...]
    foreign: frozenset[str]
    by_name: dict[str, Field]


@cache
def enumeration(name: str, fmt: str) -> Enumeration:
    """Return the enum or union ``name`` in the format ``fmt``."""
    rows = UNIONS[name] if name in UNIONS else ENUMS[name][1]  # (member, number in tflite, number in circle)
    pairs = ((row[0], row[1] if fmt == "tflite" else row[2]) for row in rows)
    numbers = {member: number for member, number in pairs if number is not None}
    return Enumeration(name, {number: member for member, number in numbers.items()}, numbers)


@cache
def table(name: str, fmt: str) -> Table:
    """Return the table ``name`` in the format ``fmt``."""
    fields: list[Field] = []  # a slot is the number of earlier fields that the format has
    foreign = set()
    for field_name, type_name, default, only_format in TABLES[name]:
        if only_format not in ("", fmt):
            foreign.add(field_name)
            continue
        if type_name in UNIONS:
            union = enumeration(type_name, fmt)
            fields.append(Field(field_name + "_type", Kind.UNION_TYPE, len(fields), "B", 0, union))
            fields.append(Field(field_name, Kind.UNION, len(fields), "I", None, union))
        else:
            is_data = (name, field_name) == ("Buffer", "data")
            fields.append(_field(field_name, type_name, default, len(fields), fmt, is_data))
    return Table(name, fmt, tuple(fields), frozenset(foreign), {f.name: f for f in fields})


def _field(name: str, type_name: str, default: Any, slot: int, fmt: str, is_data: bool) -> Field:
    """Return a field that is not a union.  ``type_name``: its type in the schema, in [ ] for a vector."""
    element_type = type_name.strip("[]")
    enum = enumeration(element_type, fmt) if element_type in ENUMS else None
    scalar = ENUMS[element_type][0] if element_type in ENUMS else element_type  # how an enum is stored
    code = SCALARS.get(scalar, "I")
    is_vector = type_name.startswith("[")
    if element_type in TABLES:
        return Field(name, Kind.TABLES if is_vector else Kind.TABLE, slot, "I", None, None, element_type)
    if element_type == "string":
        return Field(name, Kind.STRING, slot, "I")
    return Field(name, Kind.VECTOR if is_vector else Kind.SCALAR, slot, code, default, enum, "", is_data)


@cache
def options_field(options: str) -> str | None:
    """Return the field of Operator that holds the options table ``options``; None if no union has it."""
    for union, name in (("BuiltinOptions", "builtin_options"), ("BuiltinOptions2", "builtin_options_2")):
        if any(row[0] == options for row in UNIONS[union]):
            return name
    return None


def number_of(enum: str, fmt: str, value: str | int) -> int | None:
    """Return the number of an enum value; None if the format ``fmt`` does not have it.

    ``value``: its name; a number is returned as it is.
    """
    return value if isinstance(value, int) else enumeration(enum, fmt).numbers.get(value)
