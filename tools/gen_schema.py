# SPDX-License-Identifier: Apache-2.0
"""Make ``compiler/circlekit/io/tables.py`` from ``schema/circle.fbs``.

    python tools/gen_schema.py           write it
    python tools/gen_schema.py --check   exit 1 when it is out of date

Reads the part of the flatbuffers schema language that circle.fbs uses (its head explains the attributes);
anything else is an error with its line.
"""

from __future__ import annotations

import argparse
import re
import sys
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SCHEMA = ROOT / "schema" / "circle.fbs"
TABLES = ROOT / "compiler" / "circlekit" / "io" / "tables.py"

SCALARS = {"bool", "byte", "ubyte", "short", "ushort", "int", "uint", "long", "ulong", "float", "double"}
FORMATS = ("tflite", "circle")
Attributes = dict[str, str]


class SchemaError(Exception):
    """Something in the schema that is invalid, or that this tool does not support."""


@dataclass
class Entry:
    """A field, an enum value or a union member: its name, its type, what follows ``=``, its attributes."""

    name: str
    type: str
    value: str | None
    attributes: Attributes

    def number_in(self, fmt: str, number: int) -> int | None:
        """Return ``number``, or the other one that ``fmt`` has instead; None if ``fmt`` lacks the entry."""
        other = "circle" if fmt == "tflite" else "tflite"
        own = self.attributes.get(fmt)
        if own:
            return int(own)
        return None if self.attributes.get(other) == "" else number


@dataclass
class Schema:
    enums: dict[str, tuple[str, list[Entry]]] = field(default_factory=dict)
    unions: dict[str, list[Entry]] = field(default_factory=dict)
    tables: dict[str, list[Entry]] = field(default_factory=dict)


HEAD = re.compile(r"(enum|union|table)\s+(\w+)\s*(?::\s*(\w+)\s*)?\{(\})?$")
FIELD = re.compile(r"(\w+)\s*:\s*(\[?\w+\]?)\s*(?:=\s*([\w.+-]+)\s*)?(?:\(([^)]*)\)\s*)?;$")
VALUE = re.compile(r"(\w+)\s*(?:=\s*(-?\d+)\s*)?(?:\(([^)]*)\)\s*)?,$")
SKIPPED = re.compile(r'(namespace\s+\w+|attribute\s+"\w+"|root_type\s+\w+);$')


def parse(text: str) -> Schema:
    """The declarations of a schema text, checked against each other."""
    schema, kind, name = Schema(), "", ""
    for number, raw in enumerate(text.splitlines(), 1):
        line = raw.partition("//")[0].strip()
        if not line or SKIPPED.match(line):
            continue
        head = HEAD.match(line)
        if head and not kind:
            kind, name = head[1], head[2]
            if kind == "enum":
                schema.enums[name] = (head[3], [])
            else:
                (schema.unions if kind == "union" else schema.tables)[name] = []
            kind = "" if head[4] else kind
        elif line == "}" and kind:
            kind = ""
        else:
            _add(schema, kind, name, line, number)
    _check(schema)
    return schema


def _add(schema: Schema, kind: str, name: str, line: str, number: int) -> None:
    match = {"table": FIELD, "enum": VALUE, "union": VALUE}.get(kind, HEAD).match(line)
    if match is None or not kind:
        raise SchemaError(f"{SCHEMA.name}:{number}: cannot read {line!r}")
    if kind == "table":
        schema.tables[name].append(Entry(match[1], match[2], match[3], _attributes(match[4])))
        return
    entries = schema.enums[name][1] if kind == "enum" else schema.unions[name]
    entries.append(Entry(match[1], "", match[2], _attributes(match[3])))


def _attributes(text: str | None) -> Attributes:
    pairs = (item.partition(":") for item in (text or "").split(",") if item.strip())
    return {key.strip(): value.strip() for key, _, value in pairs}


def _check(schema: Schema) -> None:
    known = SCALARS | {"string"} | schema.enums.keys() | schema.unions.keys() | schema.tables.keys()
    for table, fields in schema.tables.items():
        for entry in fields:
            if entry.type.strip("[]") not in known:
                raise SchemaError(f"{table}.{entry.name}: no type {entry.type}")
            if entry.type in ("[string]", *(f"[{u}]" for u in schema.unions)):
                raise SchemaError(f"{table}.{entry.name}: the codec has no vectors of {entry.type}")
    for table in schema.tables:
        _depth(schema, table, ())


def _depth(schema: Schema, table: str, path: tuple[str, ...]) -> int:
    """Return how deep tables nest; raise SchemaError for recursive tables, whose decoding might not end."""
    if table in path:
        raise SchemaError(f"recursive tables: {' > '.join((*path, table))}")
    below: list[str] = []
    for entry in schema.tables[table]:
        name = entry.type.strip("[]")
        below += [m.name for m in schema.unions[name]] if name in schema.unions else [name]
    return 1 + max((_depth(schema, t, (*path, table)) for t in below if t in schema.tables), default=0)


def default_of(schema: Schema, entry: Entry) -> str:
    """The default of a field, as Python text."""
    if entry.type in schema.enums:
        values = schema.enums[entry.type][1]
        zero = [v.name for v in values if v.value == "0"]
        return repr(entry.value or zero[0])
    if entry.type == "bool":
        return str(entry.value == "true")
    if entry.type in ("float", "double"):
        return str(float(entry.value or 0))
    return str(int(entry.value or 0)) if entry.type in SCALARS else "None"


def union_rows(members: list[Entry]) -> list[str]:
    """(table, its number in tflite, in circle) of every member."""
    last = dict.fromkeys(FORMATS, 0)
    rows = []
    for entry in members:
        numbers = []
        for fmt in FORMATS:
            number = entry.number_in(fmt, int(entry.value) if entry.value else last[fmt] + 1)
            last[fmt] = number or last[fmt]
            numbers.append(number)
        rows.append(f'("{entry.name}", {numbers[0]}, {numbers[1]}),')
    return rows


def enum_rows(values: list[Entry]) -> list[str]:
    """(name, its number in tflite, in circle) of every value."""
    numbers = [(e, int(e.value or 0)) for e in values]
    return [f'("{e.name}", {e.number_in("tflite", n)}, {e.number_in("circle", n)}),' for e, n in numbers]


def table_rows(schema: Schema, fields: list[Entry]) -> list[str]:
    """(field, type, default, format that alone has it or "") of every field."""
    rows = []
    for entry in fields:
        only = next((f for f in FORMATS if entry.attributes.get(f) == ""), "")
        rows.append(f'("{entry.name}", "{entry.type}", {default_of(schema, entry)}, "{only}"),')
    return rows


HEADER = '''\
# SPDX-License-Identifier: Apache-2.0
"""The schema as data.  Made by tools/gen_schema.py from schema/circle.fbs: change that, not this."""

from typing import Final

Row = tuple[str, int | None, int | None]
"""Name, its number in .tflite, its number in .circle; None where the format does not have it."""

FieldRow = tuple[str, str, str | int | float | bool | None, str]
"""Name, type, default (an enum value by name), the format that alone has the field or ""."""
'''


def generate(schema: Schema) -> str:
    """The text of tables.py."""
    out = [HEADER, "# fmt: off"]
    out.append("ENUMS: Final[dict[str, tuple[str, tuple[Row, ...]]]] = {")
    for name, (underlying, values) in schema.enums.items():
        out += [f'    "{name}": ("{underlying}", (', *(f"        {r}" for r in enum_rows(values)), "    )),"]
    out += ["}", "", "UNIONS: Final[dict[str, tuple[Row, ...]]] = {"]
    for name, members in schema.unions.items():
        out += [f'    "{name}": (', *(f"        {r}" for r in union_rows(members)), "    ),"]
    out += ["}", "", "TABLES: Final[dict[str, tuple[FieldRow, ...]]] = {"]
    for name, fields in schema.tables.items():
        rows = [f"        {r}" for r in table_rows(schema, fields)]
        out += [f'    "{name}": (', *rows, "    ),"] if rows else [f'    "{name}": (),']
    return "\n".join([*out, "}", ""])


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--check", action="store_true", help="write nothing, exit 1 when out of date")
    arguments = parser.parse_args(argv)
    text = generate(parse(SCHEMA.read_text(encoding="utf-8")))
    if not arguments.check:
        TABLES.write_text(text, encoding="utf-8")
        return 0
    if TABLES.is_file() and TABLES.read_text(encoding="utf-8") == text:
        return 0
    print(f"{TABLES.relative_to(ROOT)} is out of date: run python tools/gen_schema.py", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
