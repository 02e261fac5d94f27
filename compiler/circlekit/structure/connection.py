# SPDX-License-Identifier: Apache-2.0
"""Connection files: how the parts of a divided model are connected, by the names of values.

Values with the same name in different files are the same value.
Source of the formats .conn.json and .conn.ini: ONE's circle-partitioner and its library crew.  An example of
.conn.ini, in which i1, i2, ... are inputs, o1, o2, ... outputs, and m1, m2, ... the parts::

    [source]
    file=net.circle
    i1=x
    o1=y

    [models]
    m1=net.00001_cpu.circle

    [net.00001_cpu.circle]
    file=net.00001_cpu.circle
    i1=x
    o1=y
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from circlekit.errors import FormatError, UnsupportedError
from circlekit.io.file_map import map_file
from circlekit.io.parse_json import parse_json
from circlekit.structure.part_table import read_ini
from circlekit.structure.partition import Partition


@dataclass
class ConnectedModel:
    """The divided model or a part: its file name, and its inputs and outputs by name, in their order."""

    file: str
    inputs: list[str]
    outputs: list[str]


@dataclass
class Connection:
    """The content of a connection file: the divided model (``source``) and its ``parts``."""

    source: ConnectedModel
    parts: list[ConnectedModel]

    def to_json(self) -> str:
        """Return the text of a .conn.json file."""
        lines = ["{", '  "source" : {', *_json_lines(self.source, "    "), "  },", '  "parts" : [']
        for index, part in enumerate(self.parts, 1):
            lines += ["    {", *_json_lines(part, "      "), "    }," if index < len(self.parts) else "    }"]
        return "\n".join([*lines, "  ]", "}", ""])

    def to_ini(self) -> str:
        """Return the text of a .conn.ini file.

        Raise UnsupportedError for a name with line breaks, with white space at an end, or not in UTF-8.  Also
        raise it if two parts have the same file name, or if the file of a part is named ``source`` or
        ``models``.
        """
        self._check_names()
        models = [f"m{number}={part.file}" for number, part in enumerate(self.parts, 1)]
        lines = ["[source]", *_ini_lines(self.source), "", "[models]", *models, ""]
        for part in self.parts:
            lines += [f"[{part.file}]", *_ini_lines(part), ""]
        return "\n".join([*lines, ""])

    def _check_names(self) -> None:
        """Raise UnsupportedError if a .conn.ini file cannot express a name (see ``to_ini``)."""
        models = [self.source, *self.parts]
        for name in (name for model in models for name in (model.file, *model.inputs, *model.outputs)):
            if not _fits_in_line(name):
                why = "it has a line break, has white space at an end, or is not in UTF-8"
                raise UnsupportedError(f"a .conn.ini file cannot express the name {name[:200]!r}: {why}")
        sections = ["source", "models", *(part.file for part in self.parts)]
        name, count = Counter(sections).most_common(1)[0]
        if count > 1:
            sentence = "a .conn.ini file has the sections source, models and the file name of each part"
            raise UnsupportedError(f"{sentence}: expected different names, got {name[:200]!r} twice")


def connection(divided: Partition, source: str, files: list[str]) -> Connection:
    """Return the content of the connection file for the parts of ``divided``.

    ``source``: the file name of the divided model.  ``files``: the file name of each part.
    """
    parts = [
        ConnectedModel(
            file, [v.name for v in part.model.main.inputs], [v.name for v in part.model.main.outputs]
        )
        for file, part in zip(files, divided.parts, strict=True)
    ]
    return Connection(ConnectedModel(source, divided.inputs, divided.outputs), parts)


def _json_lines(part: ConnectedModel, indent: str) -> list[str]:
    """Return the lines of the JSON object of ``part``, in ONE's layout, without its braces."""
    lists = [" ".join(["[", ", ".join(map(json.dumps, names)), "]"]) for names in (part.inputs, part.outputs)]
    return [
        f'{indent}"file" : {json.dumps(part.file)},',
        f'{indent}"inputs" : {lists[0]},',
        f'{indent}"outputs" : {lists[1]}',
    ]


def _fits_in_line(name: str) -> bool:
    """Return whether a line of a .conn.ini file can express ``name``."""
    is_utf8 = name.encode(errors="replace").decode() == name
    return is_utf8 and name == name.strip() and len(name.splitlines()) <= 1


def _ini_lines(part: ConnectedModel) -> list[str]:
    """Return the lines of the section of ``part``."""
    inputs = [f"i{number}={name}" for number, name in enumerate(part.inputs, 1)]
    outputs = [f"o{number}={name}" for number, name in enumerate(part.outputs, 1)]
    return [f"file={part.file}", *inputs, *outputs]


def read_connection(path: str | Path) -> Connection:
    """Return the content of a connection file: JSON if its name ends with ``.json``, otherwise ini.

    Raise FileError if the file cannot be read, FormatError if it is not a connection file, and LimitError if
    ``path`` is a pipe with more bytes than the memory limit.
    """
    return _from_json(path) if Path(path).suffix == ".json" else _from_ini(path)


def _from_json(path: str | Path) -> Connection:
    """Read a .conn.json file: an object with ``source`` and a list ``parts``."""
    expected = "expected a connection file, in which source and each of parts have file, inputs and outputs"
    try:
        tree = parse_json(bytes(map_file(path)))
        parts = [ConnectedModel(**part) for part in (tree["source"], *tree["parts"])]
        are_texts = all(isinstance(name, str) for p in parts for name in (p.file, *p.inputs, *p.outputs))
    except (TypeError, KeyError):  # other fields, or values of other types
        are_texts = False
    except ValueError as error:
        raise FormatError(f"{path}: {expected}: {error}") from None
    if not are_texts or not all(isinstance(names, list) for p in parts for names in (p.inputs, p.outputs)):
        raise FormatError(f"{path}: {expected}")
    return Connection(parts[0], parts[1:])


def _from_ini(path: str | Path) -> Connection:
    """Read a .conn.ini file: [source], [models] with m1, m2, ..., and a section for each of these models."""
    sections = read_ini(path)
    names = _numbered(sections.get("models", {}), "m")
    for section in ("source", *names):
        if "file" not in sections.get(section, {}):
            raise FormatError(f"{path}: expected a connection file with a section [{section}] and its file=")
    parts = [
        ConnectedModel(items["file"], _numbered(items, "i"), _numbered(items, "o"))
        for items in (sections["source"], *(sections[name] for name in names))
    ]
    return Connection(parts[0], parts[1:])


def _numbered(items: dict[str, str], letter: str) -> list[str]:
    """Return the values of the keys m1, m2, ... if ``letter`` is m, up to the first missing key."""
    found: list[str] = []
    while (value := items.get(f"{letter}{len(found) + 1}")) is not None:
        found.append(value)
    return found
