# SPDX-License-Identifier: Apache-2.0
"""Targets: which operators a runtime has, in which forms, read from the tables in ``targets/tables``.

A table is JSON:

    {"name": "litert", "title": "LiteRT", "version": "2.3.0", "source": "measured by tools/probe_targets",
     "formats": ["tflite"], "extends": null,
     "operators": {"SUB": {"version": 5, "forms": {"f32,f32:f32": {"rank": 6}, "i8q,i8q:i8q": {}}}}}

``version`` is the highest operator version.  A form (see ``operator_form``) may carry constraints (see
``constraints``), and a ``source``: where it is from, if not the source of the table.

``ignores``, beside ``forms``: see ``ignored_attributes``.

If ``version`` is null, every version runs; if ``forms`` is "any", every form.  ``extends`` names a table
whose operators the target has, too.  ``custom`` lists the custom codes that run.  ``delegated`` has the
layout of ``operators`` and holds what a delegate of the runtime executes.  ``"complete": true`` says that
everything else does not run: only a target with a complete table is used by default.

``run_bytes`` is the time that it takes to copy one run of contiguous elements, besides that for its bytes, as
the number of bytes that a TRANSPOSE moves meanwhile.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from circlekit.errors import UnsupportedError, did_you_mean
from circlekit.ir.op import Op, OpaqueOp
from circlekit.targets.constraints import obstacles
from circlekit.targets.operator_form import form_of

TABLES = Path(__file__).with_name("tables")

SHOWN_FORMS = 4
"""Number of forms that a refusal names."""

DEFAULT_TARGETS = {"tflite": "litert", "circle": "luci"}
"""By format: the runtime that files are made for if the user names none."""


@dataclass(frozen=True, eq=False)
class Target:
    """A runtime, as its table describes it.

    ``operators`` and ``delegated``: version and forms by the schema's name of an operator.
    """

    name: str
    title: str
    version: str
    source: str
    formats: frozenset[str]
    operators: Mapping[str, Mapping[str, Any]]
    custom: frozenset[str] = frozenset()
    delegated: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    is_complete: bool = False
    run_bytes: int = 0

    def refusal(self, op: Op) -> str | None:
        """Return why the runtime cannot run ``op``, as a sentence; None if it, or its delegate, can.

        Unknown dimensions and ranks count as supported: only the data of a run would show the contrary.  The
        constraint ``known`` in a table says where they are not.
        """
        shortfall = self._shortfall(op)
        return None if shortfall is None else shortfall.refusal

    def wanted_change(self, op: Op) -> str:
        """Return what an exporter has to write instead of ``op``, as the end of a sentence; "" if it runs."""
        shortfall = self._shortfall(op)
        return "" if shortfall is None else shortfall.change

    def ignored(self, op: Op) -> Mapping[str, Any]:
        """Return the attributes of operators like ``op`` that the runtime ignores, as what it takes them."""
        found: Mapping[str, Any] = self.operators.get(op.code, {}).get("ignores", {})
        return found

    def _shortfall(self, op: Op) -> _Shortfall | None:
        if isinstance(op, OpaqueOp) and op.custom_code is not None:
            return None if op.custom_code in self.custom else _lacking(f"custom {op.custom_code}", self.title)
        if self.delegated and self.delegate_refusal(op) is None:
            return None
        return _shortfall_in(self.operators, op, self.title)

    def delegate_refusal(self, op: Op) -> str | None:
        """Return why the delegate does not take ``op``, as a sentence; None if it does.

        None also for a target without a delegate.
        """
        if not self.delegated:
            return None
        shortfall = _shortfall_in(self.delegated, op, f"the delegate of {self.title}")
        return None if shortfall is None else shortfall.refusal


class _Shortfall(NamedTuple):
    """Why an operator does not run, as a sentence, and the change that ``Target.wanted_change`` returns."""

    refusal: str
    change: str


def _lacking(operator: str, title: str) -> _Shortfall:
    return _Shortfall(f"{title} has no {operator}", f"operators that {title} has")


def _shortfall_in(operators: Mapping[str, Mapping[str, Any]], op: Op, title: str) -> _Shortfall | None:
    """Return why ``op`` does not run where only ``operators`` do, about ``title``; None if it runs."""
    entry = operators.get(op.code)
    if entry is None:
        return _lacking(op.code, title)
    forms = entry["forms"]
    if forms == "any":
        return None
    form = form_of(op)
    constraints = forms.get(form)
    if constraints is None:
        known = sorted(forms, key=lambda other: _distance(form, other))[:SHOWN_FORMS]
        sentence = f"{title} has no {op.code} for {form}; it has {', '.join(known)}"
        return _Shortfall(sentence, f"{op.code} for {' or '.join(known)}")
    version = op.version or op.required_version()
    if entry["version"] is not None and version > entry["version"]:
        sentence = f"{title} has {op.code} up to version {entry['version']}, got version {version}"
        return _Shortfall(sentence, f"a {op.code} that needs no version above {entry['version']}")
    obstacle = next(obstacles(op, constraints), None)
    if obstacle is None:
        return None
    expected = "; or ".join(part.partition(", got ")[0] for part in obstacle.split("; or "))
    return _Shortfall(f"{title} has {op.code} for {form} only with {obstacle}", f"{op.code} with {expected}")


def _distance(form: str, other: str) -> int:
    """Return in how many operand and result types two forms differ."""
    a, b = form.replace(":", ",").split(","), other.replace(":", ",").split(",")
    return sum(x != y for x, y in zip(a, b, strict=False)) + abs(len(a) - len(b))


@cache
def find_target(name: str) -> Target:
    """Return the target ``name``; raise UnsupportedError, with a similar name, if there is none."""
    path = TABLES / f"{name.replace('-', '_')}.json"
    known = target_names()
    if name not in known:
        raise UnsupportedError(
            f"no target is named {name}{did_you_mean(name, known)}; there are {', '.join(known)}"
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
        table.get("delegated", {}),
        table.get("complete", False),
        table.get("run_bytes", 0),
    )


@cache
def target_names() -> tuple[str, ...]:
    """Return the names of all targets, sorted."""
    return tuple(sorted(path.stem.replace("_", "-") for path in TABLES.glob("*.json")))
