# SPDX-License-Identifier: Apache-2.0
"""Targets: which operators a runtime has, in which forms, read from the tables in ``targets/tables``.

A table is JSON:

    {"name": "litert", "title": "LiteRT", "version": "2.3.0", "source": "measured by tools/probe_targets",
     "formats": ["tflite"], "extends": null,
     "operators": {"SUB": {"version": 5, "forms": {"f32,f32:f32": {"rank": 6}, "i8q,i8q:i8q": {}}}}}

``version`` is the highest operator version.  A form (see ``operator_form``) may carry constraints:

    rank       highest rank of an operand or result
    constant   names of operands that must be constant
    computed   names of operands that must not be constant
    symmetric  names of operands and results whose zero point must be 0
    values     attribute -> the values that it may have; other attributes may have any
    source     where this is from, if not the source of the table

An operator of ``"forms": "any"`` runs in every form.  ``custom`` lists the custom codes that run.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from circlekit.errors import UnsupportedError, near_miss
from circlekit.ir.enums import Named
from circlekit.ir.op import Op, OpaqueOp
from circlekit.ir.value import Value
from circlekit.targets.operator_form import form_of

TABLES = Path(__file__).with_name("tables")

SHOWN_FORMS = 4
"""Number of forms that a refusal names."""

DEFAULT_TARGETS = {"tflite": "litert", "circle": "luci"}
"""By format: the runtime that files are made for if the user names none."""


@dataclass(frozen=True)
class Target:
    """A runtime.  ``operators``: by schema name, what it has (see the module)."""

    name: str
    title: str
    version: str
    source: str
    formats: frozenset[str]
    operators: Mapping[str, Mapping[str, Any]]
    custom: frozenset[str] = frozenset()

    def refusal(self, op: Op) -> str | None:
        """Return why the runtime cannot run ``op``, as a sentence; None if it can.

        Unknown dimensions and ranks count as supported: only the data of a run would show the contrary.
        """
        if isinstance(op, OpaqueOp) and op.custom_code is not None:
            return None if op.custom_code in self.custom else f"{self.title} has no custom {op.custom_code}"
        entry = self.operators.get(op.code)
        if entry is None:
            return f"{self.title} has no {op.code}"
        forms = entry["forms"]
        if forms == "any":
            return None
        form = form_of(op)
        constraints = forms.get(form)
        if constraints is None:
            known = ", ".join(sorted(forms, key=lambda other: _distance(form, other))[:SHOWN_FORMS])
            return f"{self.title} has no {op.code} for {form}; it has {known}"
        version = op.version or op.required_version()
        if entry["version"] is not None and version > entry["version"]:
            return f"{self.title} has {op.code} up to version {entry['version']}, got version {version}"
        obstacle = next(_obstacles(op, constraints), None)
        return None if obstacle is None else f"{self.title} has {op.code} for {form} only with {obstacle}"


def _distance(form: str, other: str) -> int:
    """Return in how many operand and result types two forms differ."""
    a, b = form.replace(":", ",").split(","), other.replace(":", ",").split(",")
    return sum(x != y for x, y in zip(a, b, strict=False)) + abs(len(a) - len(b))


def _obstacles(op: Op, constraints: Mapping[str, Any]) -> Iterator[str]:
    """Yield each constraint that ``op`` breaks, as what it expects and what it got."""
    named = _named_values(op)
    highest = constraints.get("rank")
    if highest is not None:
        for name, value in named.items():
            if value.rank is not None and value.rank > highest:
                yield f"ranks up to {highest}, got {name} of rank {value.rank}"
    for name in constraints.get("constant", ()):
        if name in named and not named[name].is_const:
            yield f"a constant {name}"
    for name in constraints.get("computed", ()):
        if name in named and named[name].is_const:
            yield f"{name} that is not constant"
    for name in constraints.get("symmetric", ()):
        quantization = named[name].quantization if name in named else None
        if quantization is not None and quantization.zero_point.any():
            yield f"zero point 0 of {name}, got {quantization.zero_point.tolist()}"
    for name, allowed in constraints.get("values", {}).items():
        value = getattr(op, name)
        text = value.name if isinstance(value, Named) else value
        if text not in allowed:
            yield f"{name} of {', '.join(map(str, allowed))}, got {text}"


def _named_values(op: Op) -> dict[str, Value]:
    """Return operands and results of ``op`` by the names in its declaration; those of lists numbered."""
    operands = {name: value for name, value in op.operand_items() if value is not None}
    results = zip(op.result_names, op.results, strict=False)
    return {**operands, **dict(results)}


@cache
def find_target(name: str) -> Target:
    """Return the target ``name``; raise UnsupportedError with the near name if there is none."""
    path = TABLES / f"{name.replace('-', '_')}.json"
    known = target_names()
    if name not in known:
        raise UnsupportedError(
            f"no target is named {name}{near_miss(name, known)}; there are {', '.join(known)}"
        )
    table = json.loads(path.read_text(encoding="utf-8"))
    base = find_target(table["extends"]).operators if table.get("extends") else {}
    return Target(
        table["name"],
        table["title"],
        table["version"],
        table["source"],
        frozenset(table["formats"]),
        {**base, **table["operators"]},
        frozenset(table.get("custom", ())),
    )


@cache
def target_names() -> tuple[str, ...]:
    """Return the names of all targets, sorted."""
    return tuple(sorted(path.stem.replace("_", "-") for path in TABLES.glob("*.json")))
