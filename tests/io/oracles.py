# SPDX-License-Identifier: Apache-2.0
"""Independent readers of both formats, generated from their schemas, as oracles for circlekit's reader.

What a reader can read is found by looking at its classes; only ALIASES, DERIVED and HELPERS are listed by
hand.  The numbers of enum values are the reader's own, except for names that the reader lacks.  The keys of
the trees made here are the reader's names of fields, such as ``BuiltinOptions``.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import tflite
from ai_edge_litert import schema_py_generated
from circle_schema.v0_10 import circle
from flatbuffers.table import Table

from circlekit.io.schema import Tree, enumeration
from circlekit.io.tables import ENUMS, TABLES, UNIONS

ALIASES = {"AdjointLhs": "AdjX", "AdjointRhs": "AdjY"}
"""Circle's own names for fields that both formats have."""

DERIVED = {("tflite", "OperatorCode", "BuiltinCode")}
"""(package, table, field): a field that the package computes from two stored ones."""

HELPERS = ("Length", "AsNumpy", "IsNone")
"""The ends of the names of methods that say more about a field, as ``ShapeLength`` about ``Shape``."""

UNREADABLE = object()
"""A member of a union that is newer than the package."""

TYPES = {(name, field[0]): field[1] for name, fields in TABLES.items() for field in fields}
DEFAULTS = {(name, field[0]): field[2] for name, fields in TABLES.items() for field in fields}


def camel(name: str) -> str:
    """Return the readers' name of a field, such as BuiltinOptions2 for ``builtin_options_2``."""
    return "".join(part[:1].upper() + part[1:] for part in name.split("_"))


@dataclass(frozen=True)
class Oracle:
    """One package that reads a format."""

    name: str
    format: str
    module: Any

    @cached_property
    def names(self) -> dict[str, Any]:
        """Classes and functions of the package, whether in one module or in one per table."""
        found = dict(vars(self.module))
        for item in pkgutil.iter_modules(getattr(self.module, "__path__", ())):
            found |= vars(importlib.import_module(f"{self.module.__name__}.{item.name}"))
        return found

    @cached_property
    def enums(self) -> dict[str, dict[str, int]]:
        """The numbers of every enum and union."""
        out = {}
        for name in (*ENUMS, *UNIONS):
            values = vars(self.names.get(name, object)).items()
            out[name] = {key: value for key, value in values if isinstance(value, int)}
        return out

    def read(self, data: bytes) -> Tree:
        """Return everything that the package can read from a file."""
        return self.tree(self.names["Model"].GetRootAs(data))

    def fields(self, table: str) -> list[str]:
        """Return the fields of a table that the package can read."""
        members = vars(self.names[table])
        helpers = {name + end for name in members for end in HELPERS}
        return [
            name
            for name, member in members.items()
            if inspect.isfunction(member)
            and name not in {"Init", *helpers}
            and (self.name, table, name) not in DERIVED
        ]

    def tree(self, reader: Any) -> Tree:
        """One table, as {field: value}."""
        return {name: self.value(reader, name) for name in self.fields(type(reader).__name__)}

    def value(self, reader: Any, name: str) -> Any:
        """Return the field ``name`` of a table; the method that reads an element of a vector takes ``j``."""
        method = getattr(reader, name)
        if "j" not in inspect.signature(method).parameters:
            return self.plain(reader, name, method())
        if getattr(reader, name + "IsNone")():
            return None
        count = getattr(reader, name + "Length")()
        if hasattr(reader, name + "AsNumpy"):
            return getattr(reader, name + "AsNumpy")() if count else np.zeros(0)
        return [self.plain(reader, name, method(i)) for i in range(count)]

    def plain(self, reader: Any, name: str, value: Any) -> Any:
        if isinstance(value, Table):
            return self.union(reader, name, value)
        return self.tree(value) if hasattr(value, "_tab") else value

    def union(self, reader: Any, name: str, table: Table) -> Any:
        """Return the table in a union; the field before it gives its type."""
        union = TYPES[type(reader).__name__, next(k for t, k in TYPES if camel(k) == name)]
        number = getattr(reader, name + "Type")()
        member = next((k for k, v in self.enums[union].items() if v == number), None)
        if member is None:
            return UNREADABLE
        inner = self.names[member]()
        inner.Init(table.Bytes, table.Pos)
        return {"": member, **self.tree(inner)}


CIRCLE = Oracle("circle-schema", "circle", circle)
LITERT = Oracle("ai-edge-litert", "tflite", schema_py_generated)
TFLITE = Oracle("tflite", "tflite", tflite)
ORACLES = [CIRCLE, LITERT, TFLITE]


def differences(oracle: Oracle, table: str, ours: Tree, theirs: Tree, path: str = "") -> list[str]:
    """Return where our decoded tree and the oracle's differ, for every field that the oracle reads."""
    fields = {camel(field[0]): field[0] for field in TABLES[table]}
    out: list[str] = []
    for name, value in theirs.items():
        if not name:
            continue
        alias = ALIASES.get(name, name)
        union = alias.removesuffix("Type")
        if alias not in fields and union in fields:
            member = (ours.get(fields[union]) or {}).get("") or ours.get(fields[union] + "_type", "NONE")
            if oracle.enums[TYPES[table, fields[union]]].get(member, value) != value:
                out.append(f"{path}.{alias}: {member} is not {value}")
        elif alias not in fields:
            out.append(f"{path}.{alias}: a field that we do not have")
        else:
            field = fields[alias]
            mine = ours.get(field, DEFAULTS[table, field])
            out += _compare(oracle, TYPES[table, field], mine, value, f"{path}.{field}")
    return out


def _compare(oracle: Oracle, kind: str, ours: Any, theirs: Any, path: str) -> list[str]:
    """Return the differences of one field of type ``kind``."""
    if theirs is UNREADABLE:
        return []
    if ours is None or theirs is None:
        return [] if ours is theirs else [f"{path}: {ours!r} is not {theirs!r}"]
    if isinstance(theirs, list):
        if len(ours) != len(theirs):
            return [f"{path}: {len(ours)} elements, not {len(theirs)}"]
        pairs = enumerate(zip(ours, theirs, strict=True))
        return [d for i, (a, b) in pairs for d in _compare(oracle, kind.strip("[]"), a, b, f"{path}[{i}]")]
    if isinstance(theirs, dict):
        if ours.get("") != theirs.get(""):
            return [f"{path}: {ours.get('')} is not {theirs.get('')}"]
        return differences(oracle, theirs.get("") or kind, ours, theirs, path)
    enum = kind.strip("[]")
    if enum in oracle.enums:
        numbers = {**enumeration(enum, oracle.format).numbers, **oracle.enums[enum]}
        ours = [numbers.get(v, v) for v in ours] if isinstance(ours, list) else numbers.get(ours, ours)
    if isinstance(theirs, np.ndarray):
        same = len(ours) == len(theirs) and bool(
            np.array_equal(ours, theirs, equal_nan=theirs.dtype.kind == "f")
        )
    elif isinstance(theirs, bytes):
        same = ours.encode("utf-8", "surrogateescape") == theirs
    else:
        same = ours == theirs
    return [] if same else [f"{path}: {ours!r} is not {theirs!r}"]
