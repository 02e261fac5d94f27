# SPDX-License-Identifier: Apache-2.0
"""Targets: which operators a runtime has, in which forms, read from the tables in ``targets/tables``.

A table is JSON:

    {"name": "litert", "title": "LiteRT", "version": "2.3.0", "source": "measured by tools/probe_targets",
     "formats": ["tflite"], "extends": null,
     "operators": {"SUB": {"version": 5, "forms": {"f32,f32:f32": {"rank": 6}, "i8q,i8q:i8q": {}}}}}

``version`` is the highest operator version.  A form (see ``operator_form``) may carry constraints:

    rank            highest rank of an operand or result
    broadcast_rank  highest rank of operands whose shapes differ (0: all shapes must be equal)
    operands        lowest number of operands in the file, absent optional ones included
    ranks           operand or result -> the ranks that it may have
    least           operand or result -> the least size of each of its dimensions
    constant        names of operands that must be constant
    computed        names of operands that must not be constant
    symmetric       names of operands and results whose zero point must be 0
    same_scale      pairs of operands or results that must have the same scale and zero point
    same_channels   pairs of operands whose last dimensions must be equal: a convolution without groups
    scale           operand or result -> the scale (null: any) and zero point that it must have
    values          attribute -> the values that it may have; other attributes may have any
    source          where this is from, if not the source of the table

If ``version`` is null, every version runs; if ``forms`` is "any", every form.  ``extends`` names a table
whose operators the target has, too.  ``custom`` lists the custom codes that run.  ``delegated`` has the
layout of ``operators`` and holds what a delegate of the runtime executes.  ``"complete": true`` says that
everything else does not run: only a target with a complete table is used by default.

``run_bytes`` is the time that it takes to copy one run of contiguous elements, besides that for its bytes, as
the number of bytes that a TRANSPOSE moves meanwhile.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from circlekit.errors import UnsupportedError, did_you_mean
from circlekit.ir.enums import Named
from circlekit.ir.op import Op, OpaqueOp
from circlekit.ir.value import Value, format_shape
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
        """Return why the runtime cannot run ``op``, as a sentence; None if it can.

        Unknown dimensions and ranks count as supported: only the data of a run would show the contrary.
        """
        if isinstance(op, OpaqueOp) and op.custom_code is not None:
            return None if op.custom_code in self.custom else f"{self.title} has no custom {op.custom_code}"
        return _refusal_in(self.operators, op, self.title)

    def delegate_refusal(self, op: Op) -> str | None:
        """Return why the delegate does not take ``op``, as a sentence; None if it does.

        None also for a target without a delegate.
        """
        if not self.delegated:
            return None
        return self.refusal(op) or _refusal_in(self.delegated, op, f"the delegate of {self.title}")


def _refusal_in(operators: Mapping[str, Mapping[str, Any]], op: Op, title: str) -> str | None:
    """Return why ``op`` does not run where only ``operators`` run, as a sentence about ``title``."""
    entry = operators.get(op.code)
    if entry is None:
        return f"{title} has no {op.code}"
    forms = entry["forms"]
    if forms == "any":
        return None
    form = form_of(op)
    constraints = forms.get(form)
    if constraints is None:
        known = ", ".join(sorted(forms, key=lambda other: _distance(form, other))[:SHOWN_FORMS])
        return f"{title} has no {op.code} for {form}; it has {known}"
    version = op.version or op.required_version()
    if entry["version"] is not None and version > entry["version"]:
        return f"{title} has {op.code} up to version {entry['version']}, got version {version}"
    obstacle = next(obstacles(op, constraints), None)
    return None if obstacle is None else f"{title} has {op.code} for {form} only with {obstacle}"


def _distance(form: str, other: str) -> int:
    """Return in how many operand and result types two forms differ."""
    a, b = form.replace(":", ",").split(","), other.replace(":", ",").split(",")
    return sum(x != y for x, y in zip(a, b, strict=False)) + abs(len(a) - len(b))


def obstacles(op: Op, constraints: Mapping[str, Any]) -> Iterator[str]:
    """Yield for each constraint that ``op`` breaks what is expected and, mostly, what it has instead."""
    if (rank := highest_rank(op)) > constraints.get("rank", rank):
        yield f"ranks up to {constraints['rank']}, got rank {rank}"
    if (rank := broadcast_rank(op)) > (highest := constraints.get("broadcast_rank", rank)):
        yield f"operands of equal shapes, or of ranks up to {highest}, got rank {rank}"
    if (count := len(op.inputs)) < (least := constraints.get("operands", count)):
        yield f"{least} operands, got {count}"
    for name, ranks in constraints.get("ranks", {}).items():
        for value in values_named(op, name):
            if value.rank is not None and value.rank not in ranks:
                yield f"{name} of rank {' or '.join(map(str, ranks))}, got {value.rank}"
    for name, sizes in constraints.get("least", {}).items():
        for value in values_named(op, name):
            if any(d is not None and d < size for d, size in zip(value.shape or (), sizes, strict=False)):
                yield f"{name} of at least {sizes}, got {format_shape(value.shape)}"
    for name in constraints.get("constant", ()):
        if not all(value.is_const for value in values_named(op, name)):
            yield f"a constant {name}"
    for name in constraints.get("computed", ()):
        if any(value.is_const for value in values_named(op, name)):
            yield f"{name} that is not constant"
    for name in constraints.get("symmetric", ()):
        for _, zero_point in scales_of(op, name):
            if any(zero_point):
                yield f"zero point 0 of {name}, got {list(zero_point)}"
    for first, second in constraints.get("same_scale", ()):
        if len({*scales_of(op, first), *scales_of(op, second)}) > 1:
            yield f"the same scale and zero point of {first} and {second}"
    for first, second in constraints.get("same_channels", ()):
        if len(counts := channels_of(op, first, second)) > 1:
            yield f"as many channels in {first} as in {second}, got {' and '.join(map(str, counts))}"
    for name, (scale, zero_point) in constraints.get("scale", {}).items():
        found = scales_of(op, name)
        if any(zeros != (zero_point,) or scale not in (None, *scales[:1]) for scales, zeros in found):
            wanted = "any scale" if scale is None else f"scale {scale}"
            yield f"{wanted} and zero point {zero_point} of {name}"
    for name, allowed in constraints.get("values", {}).items():
        if (got := plain_attribute(op, name)) not in allowed:
            yield f"{name} of {', '.join(map(str, allowed))}, got {got}"


def plain_attribute(op: Op, name: str) -> Any:
    """Return an attribute as the tables write it: members of enumerations by their names."""
    value = getattr(op, name)
    return value.name if isinstance(value, Named) else value


def named_values(op: Op) -> Iterator[tuple[str, Value]]:
    """Yield operands and results with their names; all members of a list have the same name."""
    yield from op.operand_items()
    for index, value in enumerate(op.results):
        yield op.result_names[min(index, len(op.result_names) - 1)], value


def values_named(op: Op, name: str) -> list[Value]:
    """Return the operand or result ``name``: none if it is absent, several if it is a list."""
    return [value for other, value in named_values(op) if other == name]


def scales_of(op: Op, name: str) -> list[tuple[tuple[float, ...], tuple[int, ...]]]:
    """Return scales and zero points of the operands or results called ``name`` that are quantized."""
    found = (value.quantization for value in values_named(op, name))
    return [(tuple(q.scale.tolist()), tuple(q.zero_point.tolist())) for q in found if q and q.scale.size]


def channels_of(op: Op, *names: str) -> list[int]:
    """Return the different last dimensions, as far as known, of the operands or results ``names``."""
    shapes = (value.shape for name in names for value in values_named(op, name))
    return list(dict.fromkeys(shape[-1] for shape in shapes if shape and shape[-1] is not None))


def highest_rank(op: Op) -> int:
    """Return the highest rank of an operand or result, as far as ranks are known; 0 if none is."""
    return max((value.rank or 0 for _, value in named_values(op)), default=0)


def broadcast_rank(op: Op) -> int:
    """Return the highest rank of the operands that broadcast, if the shapes of two differ; else 0."""
    names = op.layout_operands if len(op.layout_operands) > 1 else ()
    operands = [value for name, value in op.operand_items() if name in names]
    if len({value.shape for value in operands}) <= 1:
        return 0
    return max(value.rank or 0 for value in operands)


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
