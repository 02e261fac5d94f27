# SPDX-License-Identifier: Apache-2.0
"""Check an operator against constraints: a JSON object in the table of a target, with the keys below.

In this list, "a -> b" is an object that gives b for each name a.

    rank            the highest rank that an operand or result may have
    broadcast_rank  the highest rank that operands of different shapes may have (0: shapes must be equal)
    operands        [least, greatest] number of operands, where absent ones count; null: no bound
    ranks           operand or result -> the ranks that it may have
    least           operand or result -> [size, ...]: for each axis, the least size that it may have
    elements        operand -> the greatest number of elements that it may have
    row_multiple    operand -> a number that must divide the product of all dimensions except the first
    nonempty        names of operands and results that must have elements
    known           names of operands whose shapes must be known before a run
    scalar_rank     pairs [a, b] of operands: the rank of a must not be above the rank of b.  This applies
                    only if the operator has a fused activation and a is a quantized constant of one element
    constant        names of operands that must be constant
    computed        names of operands that must not be constant
    consecutive     names of operands that list axes: at most one axis, or constant consecutive axes
    numbers         operand -> the numbers that its elements may be, if it is constant
    lowest          operand -> the lowest number that its elements may be, if it is constant
    symmetric       names of operands and results whose zero point must be 0
    scaled          names of operands that must have a scale
    same_scale      pairs of operands or results that must have the same scale and zero point
    scale_count     pairs of operands that must have the same number of scales
    same_shape      pairs of operands or results that must have the same shape
    dims            lists [name, axis, size] of dimensions that must have this size
    same_dims       lists [name, axis, name, axis] of dimensions that must be equal
    scale           operand or result -> the scale (null: any) and zero point that it must have.  A third
                    number is the largest relative difference from this scale; default: 0
    scale_ratio     lists [names, name, least, greatest]: bounds of the product of the scales of ``names``,
                    divided by the scale of ``name``.  In place of a scale, ``names`` may name an attribute,
                    whose absolute value counts
    sum_scale       lists [names, bias, result, tolerance]: the scale of the bias may differ from the product
                    of the scales of ``names`` by at most tolerance * the scale of the result.  A bias
                    without a scale, or with several, has scale 0.  This applies only if each of the others
                    has one scale
    no_power_of_2   lists of operands and results, of which at least one must have a scale that is not a
                    power of 2
    values          attribute -> the values that it may have
    range           attribute -> [least, greatest]; null: no bound
    at_most         pairs of sizes, of which the first must not be above the second; a size is an attribute
                    or [name, axis]
    any_of          lists of alternatives: the operator must satisfy one alternative of each list; an
                    alternative is again an object with these keys
    source          where the constraints come from; this is not a constraint

If the model does not say what a constraint is about (an unknown dimension, an absent operand), the operator
satisfies the constraint.  There are three exceptions.  ``known`` demands known shapes.  ``consecutive``
demands that several axes are constant.  For ``broadcast_rank``, an unknown shape, or a shape with an unknown
dimension, differs from a known shape.  A single unknown dimension is enough to satisfy ``elements``,
``row_multiple`` and ``same_shape``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import product
from typing import Any

import numpy as np

from circlekit.ir.op import Op
from circlekit.ops.numerics.lookup_tables import checked_log2
from circlekit.targets.operator_properties import highest_rank, plain_attribute, scales_of, values_named
from circlekit.targets.shape_constraints import SHAPE_KINDS

Constraints = Mapping[str, Any]


def obstacles(op: Op, constraints: Constraints) -> Iterator[str]:
    """Yield a text "EXPECTED, got ACTUAL" for each constraint that ``op`` violates.

    For some constraints the text has no "got" part.  Callers put the text behind "only with".
    """
    for kind, content in constraints.items():
        if kind != "source":
            yield from KINDS[kind](op, content)


# -- constants ---------------------------------------------------------------------------------


def _constant(op: Op, names: Sequence[str]) -> Iterator[str]:
    for name in names:
        if not all(value.is_const for value in values_named(op, name)):
            yield f"a constant {name}"


def _computed(op: Op, names: Sequence[str]) -> Iterator[str]:
    for name in names:
        if any(value.is_const for value in values_named(op, name)):
            yield f"{name} that is not constant"


def _consecutive(op: Op, names: Sequence[str]) -> Iterator[str]:
    rank = max(highest_rank(op), 1)
    for name, value in ((n, value) for n in names for value in values_named(op, n)):
        if value.is_const:  # axes may be negative
            axes = sorted({int(axis) % rank for axis in value.array().ravel()})
            if axes and axes[-1] - axes[0] >= len(axes):
                yield f"consecutive {name}, got {', '.join(map(str, axes))}"
        elif value.is_static and value.numel > 1:
            yield f"consecutive {name}, got unknown ones"


def _numbers(op: Op, allowed: Mapping[str, Sequence[int]]) -> Iterator[str]:
    for name, numbers in allowed.items():
        for value in values_named(op, name):
            found = dict.fromkeys(value.array().ravel().tolist() if value.is_plain else ())
            if wrong := [number for number in found if number not in numbers]:
                yield f"{name} of {', '.join(map(str, numbers))}, got {', '.join(map(str, wrong))}"


def _lowest(op: Op, allowed: Mapping[str, int]) -> Iterator[str]:
    for name, lowest in allowed.items():
        for value in values_named(op, name):
            if value.is_plain and value.array().min(initial=lowest) < lowest:
                yield f"{name} of numbers from {lowest} on, got {value.array().min()}"


# -- quantization ------------------------------------------------------------------------------


def _symmetric(op: Op, names: Sequence[str]) -> Iterator[str]:
    for name in names:
        for _, zero_point in scales_of(op, name):
            if any(zero_point):
                yield f"zero point 0 of {name}, got {list(zero_point)}"


def _scaled(op: Op, names: Sequence[str]) -> Iterator[str]:
    for name in names:
        if values_named(op, name) and not scales_of(op, name):
            yield f"a scale of {name}, got none"


def _scale_count(op: Op, pairs: Sequence[Sequence[str]]) -> Iterator[str]:
    for first, second in pairs:
        counts = dict.fromkeys(len(scales) for name in (first, second) for scales, _ in scales_of(op, name))
        if len(counts) > 1:
            yield f"as many scales of {first} as of {second}, got {' and '.join(map(str, counts))}"


def _same_scale(op: Op, pairs: Sequence[Sequence[str]]) -> Iterator[str]:
    for first, second in pairs:
        if len({*scales_of(op, first), *scales_of(op, second)}) > 1:
            yield f"the same scale and zero point of {first} and {second}"


def _scale(op: Op, allowed: Mapping[str, Sequence[Any]]) -> Iterator[str]:
    for name, (scale, zero_point, *rest) in allowed.items():
        tolerance = rest[0] if rest else 0
        fits = all(
            zeros == (zero_point,) and (scale is None or abs(scales[0] - scale) <= tolerance * scale)
            for scales, zeros in scales_of(op, name)
        )
        if not fits:
            wanted = "any scale" if scale is None else f"scale {scale}"
            yield f"{wanted} and zero point {zero_point} of {name}"


def _scale_ratio(op: Op, limits: Sequence[tuple[Sequence[str], str, float, float]]) -> Iterator[str]:
    attributes = {item.name for item in op.attributes}
    for names, divisor, least, greatest in limits:
        factors = [
            [abs(getattr(op, name))] if name in attributes else _all_scales(op, name) for name in names
        ]
        divisors = _all_scales(op, divisor)
        # with a scale per channel, there is a ratio for each combination
        ratios = [math.prod(chosen) / scale for chosen in product(*factors) for scale in divisors if scale]
        if wrong := [ratio for ratio in ratios if not least <= ratio <= greatest]:
            what = f"{' times '.join(names)} over {divisor}"
            yield f"a ratio of scales, {what}, from {least:g} to {greatest:g}, got {wrong[0]:g}"


def _sum_scale(op: Op, limits: Sequence[tuple[Sequence[str], str, str, float]]) -> Iterator[str]:
    for names, bias, result, tolerance in limits:
        *factors, whole = (_all_scales(op, name) for name in (*names, result))
        if not values_named(op, bias) or any(len(scales) != 1 for scales in (*factors, whole)):
            continue
        wanted, found = math.prod(scales[0] for scales in factors), _all_scales(op, bias)
        if abs(wanted - (found[0] if len(found) == 1 else 0.0)) > tolerance * whole[0]:
            got = ", ".join(f"{scale:g}" for scale in found) or "none"
            yield f"{bias} of scale {wanted:g}, the product of {' and '.join(names)}, got {got}"


def _no_power_of_2(op: Op, lists: Sequence[Sequence[str]]) -> Iterator[str]:
    for names in lists:
        scales = [scale for name in names for scale in _all_scales(op, name)]
        if all(scale and checked_log2(np.float32(scale)) is not None for scale in scales):
            yield f"a scale of {', '.join(names)} that is not a power of 2"


def _all_scales(op: Op, name: str) -> list[float]:
    """Return every scale of the operands or results with this name, in one list."""
    return [scale for scales, _ in scales_of(op, name) for scale in scales]


# -- attributes, alternatives ------------------------------------------------------------------


def _values(op: Op, allowed: Mapping[str, Sequence[Any]]) -> Iterator[str]:
    for name, values in allowed.items():
        if (got := plain_attribute(op, name)) not in values:
            yield f"{name} of {', '.join(map(str, values))}, got {got}"


def _range(op: Op, allowed: Mapping[str, tuple[float | None, float | None]]) -> Iterator[str]:
    for name, (least, greatest) in allowed.items():
        got = plain_attribute(op, name)
        if least is not None and got < least:
            yield f"{name} of at least {least:g}, got {got}"
        if greatest is not None and got > greatest:
            yield f"{name} of at most {greatest:g}, got {got}"


Size = str | tuple[str, int]
"""A size: an attribute by name, or a dimension as [name of an operand or result, axis]."""


def _at_most(op: Op, pairs: Sequence[tuple[Size, Size]]) -> Iterator[str]:
    for first, second in pairs:
        small, large = _size(op, first), _size(op, second)
        if small is not None and large is not None and small > large:
            yield f"{_size_text(first)} of at most {_size_text(second)}, {large}, got {small}"


def _size(op: Op, size: Size) -> int | None:
    """Return the value of ``size``; None if it is an unknown dimension, or if there is no such axis."""
    if isinstance(size, str):
        return int(getattr(op, size))
    name, axis = size
    shape = next((value.shape for value in values_named(op, name)), None) or ()
    return shape[axis] if -len(shape) <= axis < len(shape) else None


def _size_text(size: Size) -> str:
    return size if isinstance(size, str) else f"axis {size[1]} of {size[0]}"


def _any_of(op: Op, choices: Sequence[Sequence[Constraints]]) -> Iterator[str]:
    for choice in choices:
        found = [next(obstacles(op, constraints), None) for constraints in choice]  # None: satisfied
        if None not in found:
            yield "; or ".join(dict.fromkeys(filter(None, found)))


KINDS: dict[str, Callable[[Op, Any], Iterator[str]]] = {
    **SHAPE_KINDS,
    "constant": _constant,
    "computed": _computed,
    "consecutive": _consecutive,
    "numbers": _numbers,
    "lowest": _lowest,
    "symmetric": _symmetric,
    "scaled": _scaled,
    "same_scale": _same_scale,
    "scale_count": _scale_count,
    "scale": _scale,
    "scale_ratio": _scale_ratio,
    "sum_scale": _sum_scale,
    "no_power_of_2": _no_power_of_2,
    "values": _values,
    "range": _range,
    "at_most": _at_most,
    "any_of": _any_of,
}
"""For each key of constraints, a function (operator, content of the key) that yields the violations."""
