# SPDX-License-Identifier: Apache-2.0
"""Part files (.part): the backend, such as cpu or npu, that runs each operator of a model.

Source of the format: ONE's circle-partitioner.  An example, in which convolutions run on the NPU::

    [partition]
    backends=cpu,npu
    default=cpu
    comply=opcode

    [OPCODE]
    CONV_2D=npu
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from circlekit.errors import FormatError
from circlekit.io.file_map import map_file
from circlekit.ir.op import Op

COMPLY = ("opcode", "opname")
"""The values of ``comply``.

With "opcode", the section [OPCODE] gives the backend of an operator by its name in the schema.  With
"opname", the section [OPNAME] gives the backend by the name of a result.
"""


@dataclass
class PartTable:
    """A backend for each operator.

    ``backends``: the names of all backends.  ``default``: the backend of operators that the table does not
    assign.
    ``opcodes``: {name of an operator in the schema, or custom code: backend}.
    ``opnames``: {name of a result: backend of the operator that produces it}.
    ``comply``: which of the two tables is used: "opcode" or "opname".
    """

    backends: Sequence[str]
    default: str
    opcodes: dict[str, str] = field(default_factory=dict)
    opnames: dict[str, str] = field(default_factory=dict)
    comply: str = "opcode"

    def check(self) -> None:
        """Raise FormatError if the table is invalid.

        ``backends`` must be a list that is not empty.  It must contain ``default`` and all backends that the
        tables assign.  ``comply`` must be one of COMPLY.
        Some messages are in ONE's words.
        """
        if self.comply not in COMPLY:
            raise FormatError(f"expected comply {' or '.join(COMPLY)}, got {self.comply!r}")
        if not self.backends:
            raise FormatError("There is no 'backends' information")
        if isinstance(self.backends, str) or not isinstance(self.backends, Sequence):
            raise FormatError(f"expected a list of backends, got {self.backends!r}")
        if not all(isinstance(backend, str) for backend in self.backends):
            raise FormatError(f"expected names of backends, got {self.backends!r}")
        if not self.default:
            raise FormatError("There is no 'default' backend information")
        if self.default not in self.backends:
            raise FormatError(f"'default' backend is not one of 'backends' item: {self.default}")
        for kind, table in (("OPCODE", self.opcodes), ("OPNAME", self.opnames)):
            if not isinstance(table, Mapping):
                raise FormatError(f"expected a dict of names and backends for {kind}, got {table!r}")
            for name, backend in table.items():
                if backend not in self.backends:
                    raise FormatError(f"{kind} {name} is not assigned to one of 'backends' items: {backend}")

    def backend_of(self, op: Op) -> str:
        """Return the backend that the table assigns to ``op``, or else the default."""
        if self.comply == "opname":
            names, table = [v.name for v in op.results], self.opnames
        else:  # the custom code counts before the name CUSTOM
            names, table = [getattr(op, "custom_code", None) or op.code, op.code], self.opcodes
        return next((table[name] for name in names if name in table), self.default)


def read_part_file(path: str | Path, backends: Sequence[str] = (), default: str | None = None) -> PartTable:
    """Return the table in a .part file.

    ``backends``: all backends.  ``default``: the backend of operators that the file does not name.  Each of
    the two, if not empty, replaces the entry of the file.
    The section that ``comply`` chooses may have the key ``_``: its backend replaces the default of the
    section [partition].
    Raise FormatError if the file is not a part file, and the errors of ``read_ini``.  The names of the
    backends are not checked here, but by ``PartTable.check``.
    """
    sections = read_ini(path)
    partition = sections.get("partition", {})
    for key in ("backends", "default"):
        if key not in partition:
            raise FormatError(f"{path}: '{key}' is required in section [partition]")
    comply = partition.get("comply", COMPLY[0])
    if comply not in COMPLY:
        raise FormatError(f"{path}: expected comply=opcode or comply=opname, got {comply}")
    table = PartTable(backends or backend_names(partition["backends"]), partition["default"], comply=comply)
    for section, assigned in (("OPCODE", table.opcodes), ("OPNAME", table.opnames)):
        assigned.update(sections.get(section, {}))
        named = assigned.pop("_", table.default)
        table.default = named if section.lower() == comply else table.default
    table.default = default or table.default
    return table


def backend_names(text: str) -> list[str]:
    """Return the names between the commas of ``text``, without spaces around them and without empty ones."""
    return [name for word in text.split(",") if (name := word.strip())]


def read_ini(path: str | Path) -> dict[str, dict[str, str]]:
    """Return the items of each section of an ini file: {section: {key: value}}.

    Keys keep their case.  They cannot contain ``=`` or begin with ``[``, ``#`` or ``;``.  If a section has a
    key twice, the first item counts.  Lines that begin with ``#`` or ``;`` are comments.  A backslash before
    ``;`` in a key is removed, as in ONE's files.
    Raise FileError if the file cannot be read, and LimitError if ``path`` is a pipe with more bytes than the
    memory limit.  Raise FormatError if the file is not UTF-8, or has a line that is none of these: an empty
    line, a comment, a section, ``key=value`` within a section.
    """
    try:
        lines = bytes(map_file(path)).decode().splitlines()
    except UnicodeDecodeError:
        raise FormatError(f"{path}: expected a text file in UTF-8") from None
    sections: dict[str, dict[str, str]] = {}
    items: dict[str, str] | None = None
    for number, line in enumerate(map(str.strip, lines), 1):
        if not line or line[0] in "#;":
            continue
        if line[0] == "[":
            name = line[1:-1] if line[-1] == "]" else line[1:].partition("]")[0]  # a name may contain "]"
            items = sections.setdefault(name, {})
            continue
        key, sign, value = line.partition("=")
        if items is None or not sign:
            expected = "a section" if items is None else "key=value"
            raise FormatError(f"{path}: line {number}: expected {expected}, got {line[:60]!r}")
        items.setdefault(key.strip().replace("\\;", ";"), value.strip())
    return sections
