# SPDX-License-Identifier: Apache-2.0
"""Constraints that tell the models that a runtime runs from those that it does not run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import combinations
from typing import Any, NamedTuple

from circlekit.ir.dtypes import DType
from circlekit.ir.enums import Named
from circlekit.ir.op import Op
from circlekit.targets.target import (
    broadcast_rank,
    channels_of,
    highest_rank,
    named_values,
    obstacles,
    plain_attribute,
    scales_of,
    values_named,
)

LUCK = 0.3
"""A value of an attribute is refused if models with it run less often than others by this factor: a runtime
that ignores an activation gives the right values where there is nothing to clip."""


FIXED_SCALE_SAMPLES = 4
"""Models that run, all with the same scale of a result, before it counts as the only one."""


class Observation(NamedTuple):
    """``harms``: the runtime takes the model, and crashes or gives wrong values."""

    op: Op
    runs: bool
    harms: bool = False


def learn(observed: Sequence[Observation]) -> dict[str, Any]:
    """Return the fewest constraints that every model that runs satisfies, and that explain the failures.

    See ``circlekit.targets.target`` for their form.
    """
    return _fewest(suspects(observed), [o.op for o in observed if not o.runs])


def suspects(observed: Sequence[Observation]) -> dict[str, Any]:
    """Return all constraints that every model that runs satisfies, and some failure breaks."""
    passed = [o.op for o in observed if o.runs]
    failed = [o.op for o in observed if not o.runs]
    if not passed or not failed:
        return {}
    found: dict[str, Any] = {}
    for name, measure in (("rank", highest_rank), ("broadcast_rank", broadcast_rank)):
        highest = max(measure(op) for op in passed)
        if any(measure(op) > highest for op in failed):
            found[name] = highest
    fewest = min(len(op.inputs) for op in passed)
    if any(len(op.inputs) < fewest for op in failed):
        found["operands"] = fewest
    names = sorted({name for op in (*passed, *failed) for name, _ in named_values(op)})
    operands = [name for name in names if name not in passed[0].result_names]

    def separating(holds: Callable[[Op, Any], bool], items: Iterable[Any], luck: float = 0.0) -> list[Any]:
        """Return the items that hold for what runs, up to luck, and not for all that does not."""

        def is_needed(item: Any) -> bool:
            good = sum(not holds(op, item) for op in passed)
            bad = sum(not holds(op, item) for op in failed)
            return bad > 0 and good <= luck * bad

        return [item for item in items if is_needed(item)]

    found["constant"] = separating(_is_const, operands)
    found["computed"] = separating(_is_computed, operands)
    found["symmetric"] = separating(_is_symmetric, names)
    found["same_scale"] = [list(pair) for pair in separating(_is_alike, combinations(names, 2))]
    found["same_channels"] = [list(pair) for pair in separating(_fits, combinations(operands, 2), LUCK)]
    found["ranks"] = {n: ranks for n in operands if (ranks := _ranks(passed, failed, n))}
    found["scale"] = {n: scale for n in names if (scale := _fixed_scale(passed, failed, n)) is not None}
    found["values"] = _values(passed, failed)
    return {name: content for name, content in found.items() if content not in ([], {})}


def _fewest(constraints: dict[str, Any], failed: Sequence[Op]) -> dict[str, Any]:
    """Return ``constraints`` without those that no failure needs: chance leaves some after few samples."""
    explained = [op for op in failed if next(obstacles(op, constraints), None) is not None]
    for kind in (
        "computed",
        "ranks",
        "operands",
        "same_channels",
        "same_scale",
        "scale",
        "constant",
        "values",
        "broadcast_rank",
        "rank",
        "symmetric",
    ):
        content = constraints.get(kind)
        items = list(content) if isinstance(content, list | dict) else [None] * (content is not None)
        for item in items:
            fewer = {**constraints, kind: _without(constraints[kind], item)}
            if fewer[kind] in (None, [], {}):
                del fewer[kind]
            if all(next(obstacles(op, fewer), None) is not None for op in explained):
                constraints = fewer
    return constraints


def _without(content: Any, item: Any) -> Any:
    if isinstance(content, dict):
        return {name: value for name, value in content.items() if name != item}
    return [other for other in content if other != item] if isinstance(content, list) else None


def _is_const(op: Op, name: str) -> bool:
    return all(value.is_const for value in values_named(op, name))


def _is_computed(op: Op, name: str) -> bool:
    return not any(value.is_const for value in values_named(op, name))


def _is_symmetric(op: Op, name: str) -> bool:
    return not any(any(zero_point) for _, zero_point in scales_of(op, name))


def _is_alike(op: Op, names: tuple[str, str]) -> bool:
    """Return whether two operands or results have the same scales and zero points."""
    return len({*scales_of(op, names[0]), *scales_of(op, names[1])}) <= 1


def _ranks(passed: Sequence[Op], failed: Sequence[Op], name: str) -> list[int]:
    """Return the ranks from the lowest to the highest in models that run, if failures have others."""
    good = {v.rank for op in passed for v in values_named(op, name) if v.rank is not None}
    bad = {v.rank for op in failed for v in values_named(op, name) if v.rank is not None}
    every = range(min(good, default=0), max(good, default=0) + 1)
    return list(every) if bad - set(every) else []


def _fits(op: Op, names: tuple[str, str]) -> bool:
    """Return whether two operands have equal last dimensions."""
    return len(channels_of(op, *names)) <= 1


def _fixed_scale(passed: Sequence[Op], failed: Sequence[Op], name: str) -> list[float] | None:
    """Return scale and zero point that a result must have, if all models that run have the same."""
    scales = {scale for op in passed for scale in scales_of(op, name)}
    if name not in passed[0].result_names or len(scales) != 1 or len(passed) < FIXED_SCALE_SAMPLES:
        return None
    if all({*scales_of(op, name)} <= scales for op in failed):
        return None
    ((scale, zero_point),) = scales
    return [*scale, *zero_point] if len(scale) == 1 else None


def _values(passed: Sequence[Op], failed: Sequence[Op]) -> Mapping[str, list[Any]]:
    """Return values of attributes: of enumerations and booleans those that run; of numbers the default."""
    found: dict[str, list[Any]] = {}
    for item in passed[0].attributes:
        if isinstance(item.default, DType) or item.is_graph or not isinstance(item.default, Named | int):
            continue
        good = Counter(plain_attribute(op, item.name) for op in passed)
        bad = Counter(plain_attribute(op, item.name) for op in failed)
        least = LUCK * len(passed) / len(failed)
        allowed = {value for value in good if good[value] > least * bad[value]}
        if bad.keys() - allowed and (isinstance(item.default, Named | bool) or allowed == {item.default}):
            found[item.name] = sorted(allowed)
    return found
