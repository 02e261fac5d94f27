# SPDX-License-Identifier: Apache-2.0
"""Targets: runtimes and the forms of operators that they run, read from the tables in ``targets/tables``.

A table is a JSON file:

    {"name": "litert", "title": "LiteRT", "version": "2.3.0", "source": "measured by tools/probe_targets",
     "formats": ["tflite"], "extends": null,
     "operators": {"SUB": {"version": 5, "forms": {"f32,f32:f32": {"rank": 6}, "i8q,i8q:i8q": {}}}}}

The entry of an operator gives the highest ``version`` that runs (null: every version) and the ``forms`` that
run ("any": every form).  A form is the dtypes and kinds of quantization of operands and results, such as
``f32,f32:f32`` (see ``operator_form``).  The object of a form has its constraints (see ``constraints``).  An
entry and the object of a form may name their own ``source``.  The entry may also have the keys ``ignores``,
the attributes that the runtime ignores (see ``ignored_attributes``), and ``constraints``, those of every form
if ``forms`` is "any".

Other keys of a table:

    extends       the name of another table: its operators are added to those of this table, and its other
                  keys apply if this table lacks them
    custom        the custom operators that run
    delegated     the operators that a delegate of the runtime, such as XNNPACK, runs, in the layout of
                  ``operators``.  An entry may also have the key ``strict``: for each kind of constraint
                  named there, a list of forms, or "any"; see ``Target.delegate_refusal``
    delegated_custom  the custom operators that the delegate runs
    unpacks       operator -> forms.  If its operand is constant, the delegate computes such an operator when
                  the model is loaded, and then takes the result for a constant
    complete      true if operators that are not in the table do not run; only such a target may be a default
    input_dtypes  the dtypes that an input of the model may have; null: any
    checks_scales true if no model loads in which the scales of a tensor do not fit its shape or zero points
    run_bytes     the overhead of TRANSPOSE for each run of contiguous elements that it copies, as the number
                  of bytes that it could copy in this time
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from circlekit.errors import UnsupportedError, check_name, did_you_mean, shown
from circlekit.ir.op import REGISTRY, Op, OpaqueOp
from circlekit.ir.value import Value
from circlekit.targets.constraints import obstacles
from circlekit.targets.operator_form import form_of
from circlekit.targets.scale_check import scales_misfit

TABLES = Path(__file__).with_name("tables")

SHOWN_FORMS = 4
"""The largest number of forms that a refusal names."""

DEFAULT_TARGETS = {"tflite": "litert", "circle": "luci"}
"""The target of each format if the user names none."""


@dataclass(frozen=True, eq=False)
class Target:
    """A runtime, as its table describes it; for the fields see the docstring of this module.

    ``operators``, ``delegated``: the entries of operators, by their name in the schema.
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
    input_dtypes: frozenset[str] | None = None
    checks_scales: bool = False
    unpacks: Mapping[str, Sequence[str]] = field(default_factory=dict)
    delegated_custom: frozenset[str] = frozenset()

    def refusal(self, op: Op) -> str | None:
        """Return why the runtime cannot run ``op``, as a sentence; None if the runtime or its delegate can.

        Unknown dimensions and ranks are no reason, because they are only known in a run.  The exceptions are
        ``checks_scales`` and the constraints ``known`` and ``broadcast_rank`` (see ``constraints``).
        """
        shortfall = self._shortfall(op)
        return None if shortfall is None else shortfall.refusal

    def wanted_change(self, op: Op) -> str:
        """Return what to write instead of ``op``, as the end of a sentence; "" if the target can run it."""
        shortfall = self._shortfall(op)
        return "" if shortfall is None else shortfall.change

    def ignored(self, op: Op) -> Mapping[str, Any]:
        """Return the attributes of ``op`` that the runtime ignores, with the values that it uses instead."""
        found: Mapping[str, Any] = self.operators.get(op.code, {}).get("ignores", {})
        return found

    def _shortfall(self, op: Op) -> _Shortfall | None:
        """Return what the runtime and its delegate lack to run ``op``; None if one of them can run it."""
        if self.checks_scales and (misfit := scales_misfit(op)) is not None:
            expected = "scales that fit its shape and zero points"
            sentence = f"{self.title} loads a tensor only with {expected}, got {misfit}"
            return _Shortfall(sentence, "tensors with scales that fit their shapes and zero points")
        if isinstance(op, OpaqueOp) and op.custom_code is not None:
            known = self.custom | self.delegated_custom
            return None if op.custom_code in known else _lacking(f"custom {op.custom_code}", self.title)
        if self.delegated and self.delegate_refusal(op) is None:
            return self._unpacked_output(op)
        return self._strict_shortfall(op) or _shortfall_in(self.operators, op, self.title)

    def _strict_shortfall(self, op: Op) -> _Shortfall | None:
        """Return why the delegate takes ``op`` and then fails; None if it does not do this."""
        entry = self.delegated.get(op.code, {})
        if "strict" not in entry or isinstance(op, OpaqueOp):
            return None
        form = form_of(op)
        strict = {kind for kind, forms in entry["strict"].items() if forms == "any" or form in forms}
        constraints = entry["forms"].get(form, {})
        others = {kind: content for kind, content in constraints.items() if kind not in strict}
        if next(obstacles(op, others), None) is not None:
            return None
        return _limit(op, constraints, f"{self.title} runs")

    def delegate_refusal(self, op: Op) -> str | None:
        """Return why the delegate does not run ``op``, as a sentence; None if it does or there is none.

        The runtime runs such an operator itself.  There is one exception: the operator violates constraints
        of the kinds that its entry calls ``strict``, and no others.  Then the runtime ends in an error, or
        the delegate computes wrong numbers.
        """
        if not self.delegated or (isinstance(op, OpaqueOp) and op.custom_code in self.delegated_custom):
            return None
        if self._is_unpacked(op.results[0] if op.results else None):
            refusals = (self.delegate_refusal(reader) for reader in op.results[0].users)
            reason = next(filter(None, refusals), None)
            return reason and f"{op.code} is needed by an operator that is not delegated: {reason}"
        unpacked = {name for name, value in op.operand_items() if self._is_unpacked(value)}
        shortfall = _shortfall_in(self.delegated, op, f"the delegate of {self.title}", unpacked)
        return None if shortfall is None else shortfall.refusal

    def _unpacked_output(self, op: Op) -> _Shortfall | None:
        """Return why the delegate, which takes ``op``, does not compute an output of the graph; else None.

        XNNPACK leaves such an output unset, or fails.
        """
        output = next((v for v in op.results if op.graph is not None and op.graph.is_output(v)), None)
        if output is None or not self._is_unpacked(output):
            return None
        fault = f"unpacks the output %{output.name} from a constant, and leaves it unset"
        change = "outputs that are not unpacked from constants"
        return _Shortfall(f"the delegate of {self.title} {fault}", change)

    def _is_unpacked(self, value: Value | None) -> bool:
        """Return whether the delegate computes ``value`` from a constant when the model is loaded."""
        op = None if value is None else value.producer
        if op is None or isinstance(op, OpaqueOp) or form_of(op) not in self.unpacks.get(op.code, ()):
            return False
        return all(v is not None and (v.is_const or self._is_unpacked(v)) for v in op.inputs)


class _Shortfall(NamedTuple):
    """Why an operator does not run.

    ``refusal``: the reason, as a sentence.  ``change``: what to write instead, as the end of a sentence.
    """

    refusal: str
    change: str


def _lacking(operator: str, title: str) -> _Shortfall:
    """Return the shortfall of a runtime, named ``title``, that does not have ``operator`` at all."""
    return _Shortfall(f"{title} has no {operator}", f"operators that {title} has")


def _shortfall_in(
    operators: Mapping[str, Mapping[str, Any]], op: Op, title: str, unpacked: Collection[str] = ()
) -> _Shortfall | None:
    """Return why a runtime with these ``operators`` cannot run ``op``; None if it can.

    ``title``: the name of the runtime in the sentence.  ``unpacked``: the names of operands that count as
    constant.
    """
    entry = operators.get(op.code)
    if entry is None:
        return _lacking(op.code, title)
    if isinstance(op, OpaqueOp) and op.code in REGISTRY:
        reason = op.extra.get("misfit", "its operands or options are unusual")
        sentence = f"{title} perhaps cannot run this {op.code}, which does not fit its declaration: {reason}"
        return _Shortfall(sentence, f"a usual {op.code}")
    forms = entry["forms"]
    if forms == "any":
        # a custom or otherwise undeclared operator has no names for its operands
        return None if isinstance(op, OpaqueOp) else _limit(op, entry.get("constraints", {}), f"{title} has")
    form = form_of(op)
    constraints = forms.get(form)
    if constraints is None:
        known = sorted(forms, key=lambda other: _distance(form, other))[:SHOWN_FORMS]
        sentence = f"{title} has no {op.code} for {form}; it has {', '.join(known)}"
        return _Shortfall(sentence, f"{op.code} for {' or '.join(known)}")
    if unpacked and "constant" in constraints:
        others = [name for name in constraints["constant"] if name not in unpacked]
        constraints = {**constraints, "constant": others}
    version = op.version or op.required_version()
    if entry["version"] is not None and version > entry["version"]:
        sentence = f"{title} has {op.code} up to version {entry['version']}, got version {version}"
        return _Shortfall(sentence, f"{op.code} that needs no version above {entry['version']}")
    return _limit(op, constraints, f"{title} has")


def _limit(op: Op, constraints: Mapping[str, Any], subject: str) -> _Shortfall | None:
    """Return which of the constraints of its form ``op`` violates; None if it satisfies all.

    ``subject``: the runtime and a verb, such as "LiteRT has".
    """
    obstacle = next(obstacles(op, constraints), None)
    if obstacle is None:
        return None
    # the obstacle, or each of its alternatives, is "EXPECTED, got ACTUAL"
    expected = "; or ".join(part.partition(", got ")[0] for part in obstacle.split("; or "))
    sentence = f"{subject} {op.code} for {form_of(op)} only with {obstacle}"
    return _Shortfall(sentence, f"{op.code} with {expected}")


def _distance(form: str, other: str) -> int:
    """Return the number of operands and results in which two forms, such as ``f32,f32:f32``, differ."""
    a, b = form.replace(":", ",").split(","), other.replace(":", ",").split(",")
    return sum(x != y for x, y in zip(a, b, strict=False)) + abs(len(a) - len(b))


def find_target(name: str) -> Target:
    """Return the target with this name.

    Raise UnsupportedError if there is no such target (the message names similar ones), ModelError if ``name``
    is not a string.
    """
    check_name("a target", name)
    known = target_names()
    if name not in known:
        meant = DEFAULT_TARGETS.get(name, name)  # for a format, suggest its default target
        raise UnsupportedError(
            f"no target is named {shown(name)}{did_you_mean(meant, known)}; there are {', '.join(known)}"
        )
    return _read_target(name)


@cache
def _read_target(name: str) -> Target:
    """Return the target with this name, which has a table."""
    table = _read_table(name)
    return Target(
        table["name"],
        table["title"],
        table["version"],
        table["source"],
        frozenset(table["formats"]),
        table["operators"],
        custom=frozenset(table.get("custom", ())),
        delegated=table.get("delegated", {}),
        is_complete=table.get("complete", False),
        run_bytes=table.get("run_bytes", 0),
        input_dtypes=None if table.get("input_dtypes") is None else frozenset(table["input_dtypes"]),
        checks_scales=table.get("checks_scales", False),
        unpacks=table.get("unpacks", {}),
        delegated_custom=frozenset(table.get("delegated_custom", ())),
    )


def _read_table(name: str) -> dict[str, Any]:
    """Return the table of the target with this name, together with the table that it extends."""
    path = TABLES / f"{name.replace('-', '_')}.json"
    table: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    if not table.get("extends"):
        return table
    base = _read_table(table["extends"])
    return {**base, **table, "operators": {**base["operators"], **table["operators"]}}


@cache
def target_names() -> tuple[str, ...]:
    """Return the names of all targets, sorted."""
    return tuple(sorted(path.stem.replace("_", "-") for path in TABLES.glob("*.json")))
