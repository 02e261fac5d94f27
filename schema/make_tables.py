# SPDX-License-Identifier: Apache-2.0
"""Make ``compiler/circlekit/io/tables.py`` from ``schema/circle.fbs``.

    python schema/make_tables.py           write it
    python schema/make_tables.py --check   exit 1 when it is out of date

It reads the part of the flatbuffers schema language that circle.fbs uses.  Other declarations are errors, but
names of types and attributes are not checked.  The head of circle.fbs explains the attributes.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
SCHEMA = ROOT / "schema" / "circle.fbs"
TABLES = ROOT / "compiler" / "circlekit" / "io" / "tables.py"

FORMATS = ("tflite", "circle")
INTEGERS = ("byte", "ubyte", "short", "ushort", "int", "uint", "long", "ulong")

COMMENT = re.compile(r"//.*")
DECLARATION = re.compile(r"(enum|union|table)\s+(\w+)\s*(?::\s*(\w+)\s*)?\{(.*?)\}\s*", re.S)
OTHER = re.compile(r'(?:namespace\s+\w+|attribute\s+"\w+"|root_type\s+\w+);\s*')
ENTRY = re.compile(r"(\w+)\s*(?::\s*(\[?\w+\]?)\s*)?(?:=\s*([\w.+-]+)\s*)?(?:\(([^)]*)\)\s*)?[;,]\s*")

HEADER = '''\
# SPDX-License-Identifier: Apache-2.0
"""The schema as data, made by schema/make_tables.py from schema/circle.fbs.  Edit that file, not this one."""

from typing import Final

Row = tuple[str, int | None, int | None]
"""Name, its number in .tflite, its number in .circle; None where the format does not have it."""

FieldRow = tuple[str, str, str | int | float | bool | None, str]
"""Name, type, default (an enum value by name), the only format that has the field ("": both have it)."""
'''


class Entry(NamedTuple):
    """A field, an enum value or a union member.  ``value``: what follows ``=``, or ""."""

    name: str
    type: str
    value: str
    attributes: dict[str, str]

    def number_in(self, fmt: str, number: int) -> int | None:
        """Return the entry's number in the format ``fmt``; None if ``fmt`` lacks the entry.

        It is ``number``, unless an attribute gives another one for ``fmt``.
        """
        own = self.attributes.get(fmt)
        if own:
            return int(own)
        other = self.attributes.get("circle" if fmt == "tflite" else "tflite")
        return None if other == "" else number


class Declaration(NamedTuple):
    """A declaration.  ``kind``: enum, union or table.  ``underlying``: the integer type of an enum, or ""."""

    kind: str
    name: str
    underlying: str
    entries: list[Entry]


def items(
    pattern: re.Pattern[str], text: str, skipped: re.Pattern[str] | None = None
) -> Iterator[re.Match[str]]:
    """Yield the matches of ``pattern``.

    They and the matches of ``skipped`` must cover ``text``; if they do not, end the program with a message.
    """
    text = text.strip()
    at = 0
    while at < len(text):
        match = pattern.match(text, at)
        other = match or (skipped and skipped.match(text, at))
        if not other:
            raise SystemExit(f"{SCHEMA.name}: cannot read {text[at : at + 60]!r}")
        at = other.end()
        if match:
            yield match


def attributes(text: str | None) -> dict[str, str]:
    """Return {name: value} for the attributes of an entry; the value is "" if the attribute has none."""
    pairs = (item.partition(":") for item in (text or "").split(",") if item.strip())
    return {key.strip(): value.strip() for key, _, value in pairs}


def parse(text: str) -> list[Declaration]:
    """Return the declarations of a schema text."""
    return [
        Declaration(
            match[1], match[2], match[3] or "",
            [Entry(e[1], e[2] or "", e[3] or "", attributes(e[4])) for e in items(ENTRY, match[4])],
        )
        for match in items(DECLARATION, COMMENT.sub("", text), OTHER)
    ]  # fmt: skip


def rows(declaration: Declaration, enums: dict[str, str]) -> Iterator[str]:
    """Yield the row of each entry; ``enums``: {name of an enum: name of its value 0}."""
    last = dict.fromkeys(FORMATS, 0)
    for entry in declaration.entries:
        if declaration.kind == "table":
            only = next((f for f in FORMATS if entry.attributes.get(f) == ""), "")
            yield f'("{entry.name}", "{entry.type}", {default_of(entry, enums)}, "{only}"),'
            continue
        numbers = []
        for fmt in FORMATS:
            following = last[fmt] + 1 if declaration.kind == "union" else 0
            number = entry.number_in(fmt, int(entry.value or following))
            last[fmt] = number or last[fmt]
            numbers.append(number)
        yield f'("{entry.name}", {numbers[0]}, {numbers[1]}),'


def default_of(entry: Entry, enums: dict[str, str]) -> str:
    """Return the default of a field, as Python text; ``enums``: see ``rows``."""
    if entry.type in enums:
        return repr(entry.value or enums[entry.type])
    if entry.type == "bool":
        return str(entry.value == "true")
    if entry.type in ("float", "double"):
        return str(float(entry.value or 0))
    return str(int(entry.value or 0)) if entry.type in INTEGERS else "None"


def generate(declarations: list[Declaration]) -> str:
    """Return the text of tables.py."""
    every = (d for d in declarations if d.kind == "enum")
    enums = {d.name: next(e.name for e in d.entries if e.value == "0") for d in every}
    out = [HEADER, "# fmt: off"]
    for kind, head in (
        ("enum", "ENUMS: Final[dict[str, tuple[str, tuple[Row, ...]]]] = {"),
        ("union", "UNIONS: Final[dict[str, tuple[Row, ...]]] = {"),
        ("table", "TABLES: Final[dict[str, tuple[FieldRow, ...]]] = {"),
    ):
        out.append(head)
        for item in (d for d in declarations if d.kind == kind):
            begin, end = "(", "),"
            if kind == "enum":
                begin, end = f'("{item.underlying}", (', ")),"
            lines = [f"        {row}" for row in rows(item, enums)]
            empty = [f'    "{item.name}": (),']
            out += [f'    "{item.name}": {begin}', *lines, f"    {end}"] if lines else empty
        out += ["}", ""]
    return "\n".join(out)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--check", action="store_true", help="write nothing, exit 1 when out of date")
    text = generate(parse(SCHEMA.read_text(encoding="utf-8")))
    if not parser.parse_args().check:
        TABLES.write_text(text, encoding="utf-8")
    elif TABLES.read_text(encoding="utf-8") != text:
        print(f"{TABLES.relative_to(ROOT)} is out of date: run python schema/make_tables.py", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
