# SPDX-License-Identifier: Apache-2.0
"""Learn constraints: which models of a form a runtime runs, and which not.

A form is the dtypes and the kinds of quantization of operands and results (``targets.operator_form``).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import combinations, permutations, product
from typing import Any, NamedTuple

from circlekit.ir.dtypes import DType
from circlekit.ir.enums import Named
from circlekit.ir.op import Op
from circlekit.targets.constraints import obstacles
from circlekit.targets.operator_properties import (
    broadcast_rank,
    highest_rank,
    named_values,
    plain_attribute,
    scales_of,
    values_named,
)
from circlekit.targets.target import TABLES, find_target

LUCK = 0.7
"""Some models break a constraint and run, by luck.  For example, a runtime that ignores an activation gives
the right values where there is nothing to clip.  A constraint is kept only if, for each harmed model that
breaks it, at most this many models break it by luck."""

LUCK_OF = {"row_multiple": 4.0}
"""LUCK of some kinds of constraints.  A model that breaks ``row_multiple`` often runs: all rows that it reads
may begin at the beginning of a byte."""

LUCK_COST = 1.0
"""The constraint that explains the most failures is chosen.  Each model that breaks it by luck counts as this
many failures less."""

HIGHEST_RANK = 8
"""The highest rank of samples, and of operands in LiteRT."""

FIXED_SCALE_SAMPLES = 4
"""If at least this many models run, all with the same scale of a result, only this scale is allowed."""

BYTE_ELEMENTS = 2
"""Elements of int4 in a byte; some kernels misread rows that begin in the middle of a byte."""

OF_OPERANDS, OF_SCALES = ("constant", "nonempty"), ("symmetric", "same_scale", "scale_ratio", "scalar_rank")
"""Kinds of constraints on named operands.  OF_OPERANDS say nothing about a form without these operands, and
OF_SCALES say nothing about a form in which these operands have no scales."""

NOT_LEARNED = ("source", "known")
"""Entries of a form that do not constrain single models."""

Constraints = dict[str, Any]
"""{kind: content}, see ``targets.constraints``.  A single one: one kind, about one name, pair or list."""


class Observation(NamedTuple):
    """A model of an operator.  ``harms``: the runtime takes it, but crashes, fails or gives wrong values."""

    op: Op
    runs: bool
    harms: bool = False


def known_constraints(target: str, code: str) -> list[Constraints]:
    """Return the single constraints of an operator in the table of a target, each once; [] without a table.

    Constraints on several things at once, which ``candidates`` does not propose, were read from sources: for
    XNNPACK, ``Visit*Node`` in tflite/delegates/xnnpack/xnnpack_delegate.cc; for onert, ShapeValidator.cc.
    """
    if not (TABLES / f"{target.replace('-', '_')}.json").exists():
        return []
    table = find_target(target)
    forms = (table.delegated or table.operators).get(code, {"forms": "any"})["forms"]
    every = (parts_of(form) for form in (forms.values() if forms != "any" else ()))
    return list({str(part): part for parts in every for part in parts}.values())


def learn(
    observed: Sequence[Observation],
    published: Iterable[Constraints] = (),
    suspects: Iterable[Constraints] = (),
) -> Constraints:
    """Return few constraints that explain the failures; {} if no model runs.  See LUCK.

    ``published``: known constraints, tried first; they are kept unless models that run contradict them.
    Published ones on the values of attributes are always kept: a runtime may ignore an attribute where that
    changes no number.  ``suspects``: constraints that are tried last.
    """
    passed = [o.op for o in observed if o.runs]
    failed = [o for o in observed if not o.runs]
    if not passed:
        return {}
    useful: list[tuple[Constraints, set[int], int]] = []
    chosen: Constraints = {}
    left = set(range(len(failed)))
    known = [part for constraint in published for part in parts_of(constraint) if _applies(part, passed)]
    for constraint in (*known, *candidates(passed, [o.op for o in failed]), *suspects):
        broken = {i for i, o in enumerate(failed) if is_broken(o.op, constraint)}
        lucky = sum(is_broken(op, constraint) for op in passed)
        (kind,) = constraint
        is_published = any(constraint is part for part in known)
        is_certain = is_published and kind == "values"
        if not is_certain and lucky > LUCK_OF.get(kind, LUCK) * sum(failed[i].harms for i in broken):
            continue
        if is_published:
            left -= broken
            chosen = _merged(chosen, constraint)
        elif broken:
            useful.append((constraint, broken, lucky))
    while useful and left:
        constraint, broken, _ = max(useful, key=lambda item: len(item[1] & left) - LUCK_COST * item[2])
        if not broken & left:
            break
        left -= broken
        chosen = _merged(chosen, constraint)
        useful = [item for item in useful if item[1] & left and item[0] is not constraint]
    return {kind: chosen[kind] for kind in sorted(chosen)}


def parts_of(constraints: Constraints) -> Iterator[Constraints]:
    """Yield single constraints: one for each kind, and for each name that a kind is about."""
    for kind, content in constraints.items():
        if kind in NOT_LEARNED:
            continue
        if isinstance(content, dict):
            yield from ({kind: {name: part}} for name, part in content.items())
        elif isinstance(content, list) and kind != "operands":
            yield from ({kind: [part]} for part in content)
        else:
            yield {kind: content}


def _applies(constraint: Constraints, passed: Sequence[Op]) -> bool:
    """Return whether some operator has what OF_OPERANDS and OF_SCALES name; True for other constraints."""
    ((kind, content),) = constraint.items()
    if kind not in (*OF_OPERANDS, *OF_SCALES):
        return True
    (part,) = content
    name = part if isinstance(part, str) else part[1]
    found = scales_of if kind in OF_SCALES else values_named
    return any(found(op, name) for op in passed)


def is_broken(op: Op, constraints: Mapping[str, Any]) -> bool:
    return next(obstacles(op, constraints), None) is not None


def _merged(first: Constraints, second: Constraints) -> Constraints:
    """Return ``first`` and the single constraint ``second`` together."""
    ((kind, content),) = second.items()
    old = first.get(kind)
    if isinstance(content, dict):
        return {**first, kind: {**(old or {}), **content}}
    if isinstance(content, list) and kind != "operands":
        return {**first, kind: [*(old or []), *content]}
    return {**first, kind: content if old is None or kind == "operands" else min(old, content)}


def candidates(passed: Sequence[Op], failed: Sequence[Op]) -> Iterator[Constraints]:
    """Yield single constraints, the most usual first; ``passed`` may break some, which ``learn`` leaves out.

    Numbers and ranks beyond those of ``passed`` are allowed up to the first one in ``failed``.
    """
    every = [*passed, *failed]
    results = passed[0].result_names
    names = sorted({name for op in every for name, _ in named_values(op)})
    operands = [name for name in names if name not in results]
    yield from ({"symmetric": [name]} for name in names)
    for kind, measure in (("rank", highest_rank), ("broadcast_rank", broadcast_rank)):
        bad = {measure(op) for op in failed}
        limits = {_limits([rank], bad)[1] for rank in {measure(op) for op in passed}}
        yield from ({kind: rank} for rank in sorted((r for r in limits if r is not None), reverse=True))
    yield from _values(passed, failed)
    yield from ({"constant": [name]} for name in operands)
    for name in names:
        scales = {scale for op in passed for scale in scales_of(op, name)}
        if name in results and len(scales) == 1 and len(passed) >= FIXED_SCALE_SAMPLES:
            ((scale, zeros),) = scales
            if len(scale) == 1:
                yield {"scale": {name: [*scale, *zeros]}}
    for first, second in combinations(names, 2):
        yield {"same_scale": [[first, second]]}
    yield from ({"elements": {name: 1}} for name in operands)
    least, most = _limits([len(op.inputs) for op in passed], [len(op.inputs) for op in failed])
    yield from ({"operands": bounds} for bounds in ([least, None], [None, most]))
    for name in names:
        if good := _ranks(passed, name):
            least, most = _limits(good, _ranks(failed, name))
            yield {"ranks": {name: list(range(least or 0, (HIGHEST_RANK if most is None else most) + 1))}}
    for first, second in permutations(operands, 2):
        yield from _lengths(passed, failed, first, second)
    for first, second in combinations(operands, 2):
        yield {"same_dims": [[first, -1, second, -1]]}
    yield from ({"computed": [name]} for name in operands)
    yield from ({"nonempty": [name]} for name in names)
    packed = {n for op in every for n, v in op.operand_items() if v.dtype is DType.INT4}
    yield from ({"row_multiple": {name: BYTE_ELEMENTS}} for name in sorted(packed))
    for first, second in permutations(names, 2):
        yield {"same_shape": [[first, second]]}


def _limits(good: Iterable[int], bad: Iterable[int]) -> tuple[int | None, int | None]:
    """Return (least, most): how far ``good`` extends on both sides before a number in ``bad``.

    None: there is no such number on that side.
    """
    good, bad = set(good), set(bad)
    below, above = [n for n in bad if n < min(good)], [n for n in bad if n > max(good)]
    return max(below) + 1 if below else None, min(above) - 1 if above else None


def _ranks(ops: Sequence[Op], name: str) -> set[int]:
    return {v.rank for op in ops for v in values_named(op, name) if v.rank is not None}


def _members(default: Named | bool) -> set[Any]:
    """Return all values of the type of ``default``: both booleans, or the names of an enumeration."""
    return {False, True} if isinstance(default, bool) else {member.name for member in type(default)}


def _lengths(passed: Sequence[Op], failed: Sequence[Op], name: str, vector: str) -> Iterator[Constraints]:
    """For each rank of ``name``, yield the only length of ``vector`` that runs, if other lengths fail."""
    good, bad = (
        {pair for op in ops for pair in _rank_and_length(op, name, vector)} for ops in (passed, failed)
    )
    if len(good) == len({rank for rank, _ in good}) and {r for r, _ in good} & {r for r, _ in bad - good}:
        alternatives = [{"ranks": {name: [r]}, "dims": [[vector, 0, length]]} for r, length in sorted(good)]
        yield {"any_of": [alternatives]} if len(good) > 1 else {"dims": alternatives[0]["dims"]}


def _rank_and_length(op: Op, name: str, vector: str) -> Iterator[tuple[int, int]]:
    for value, other in product(values_named(op, name), values_named(op, vector)):
        if value.rank is not None and other.rank == 1 and other.is_static:
            yield value.rank, other.static_shape[0]


def _values(passed: Sequence[Op], failed: Sequence[Op]) -> Iterator[Constraints]:
    """Yield the allowed values of each enumeration and boolean: the models with other values mostly fail.

    A value that no model has is allowed.  For a number, yield its default if no other number is allowed.
    """
    for item in passed[0].attributes:
        if isinstance(item.default, DType) or item.is_graph or not isinstance(item.default, Named | int):
            continue
        good = Counter(plain_attribute(op, item.name) for op in passed)
        bad = Counter(plain_attribute(op, item.name) for op in failed)
        allowed = {v for v in good if good[v] > LUCK * bad[v] * len(passed) / max(len(failed), 1)}
        if isinstance(item.default, Named | bool):
            allowed |= _members(item.default) - good.keys() - bad.keys()
        if isinstance(item.default, Named | bool) or allowed == {item.default}:
            yield {"values": {item.name: sorted(allowed)}}
