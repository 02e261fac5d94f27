# SPDX-License-Identifier: Apache-2.0
"""Find thresholds: the numbers of an input at which the model begins to compute something else.

A threshold comes from a constant that an operator compares with (MINIMUM, LESS, ...), or from an end of the
range to which an operator clips (RELU6, QUANTIZE, a CAST to fewer bits, ...).  It is found only if all that
lies between the input and the operator is movement of data, clips, sums, and products with constants.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from circlekit.equivalence.integer_uses import following_values, holds_data
from circlekit.equivalence.real_numbers import real_numbers
from circlekit.ir.enums import Activation
from circlekit.ir.graph import Graph
from circlekit.ir.op import Op
from circlekit.ir.value import Value
from circlekit.ops.arithmetic.activation import Clamped
from circlekit.ops.arithmetic.cast import FakeQuant
from circlekit.ops.fused_activation import ACTIVATION_BOUNDS

LARGEST_FLOAT = 1e5
"""Larger thresholds of floats are left out: they stand for infinity, or only show how errors grow."""

LARGEST_INTEGER = 2.0**64

MAX_THRESHOLDS = 16
"""The largest number of thresholds of an input; the first that are found count."""

COMPARISONS = (
    "MAXIMUM", "MINIMUM", "LESS", "LESS_EQUAL", "GREATER", "GREATER_EQUAL", "EQUAL", "NOT_EQUAL",
)  # fmt: skip

CLIPS = (
    "MAXIMUM", "MINIMUM", "RELU", "RELU6", "RELU_N1_TO_1", "RELU_0_TO_1", "LEAKY_RELU", "PRELU", "FAKE_QUANT",
    "QUANTIZE", "DEQUANTIZE", "CAST",
)  # fmt: skip
"""Operators whose result is about equal to an operand, at least for some numbers."""

RELATIVE_DISTANCE = 0.13
"""The distance of a Threshold, divided by the sum of the magnitudes of the numbers that it is computed from.

With a simple fraction, such as 1/8, numbers at this distance would often be midway between two steps of a
QUANTIZE.  Rounding errors would then decide their results.
"""


class Threshold(NamedTuple):
    """A number of an input at which the model begins to compute something else.

    ``distance``: ``number`` - ``distance`` and ``number`` + ``distance`` are surely on different sides of the
    threshold, in spite of rounding errors.
    ``is_exact``: no constant is added, and no factor other than 1 or -1 applied, between the input and the
    operator; so ``number`` itself is on the same side before and after a correct rewrite.
    """

    number: float
    distance: float
    is_exact: bool


class Scaled(NamedTuple):
    """A value of the graph that is ``factor`` * x + ``shift`` for an input x, at least for some x.

    ``added``: the sum of the magnitudes of the terms of ``shift``, which is itself a sum.
    ``is_exact``: as in Threshold.
    """

    value: Value
    factor: float = 1.0
    shift: float = 0.0
    added: float = 0.0
    is_exact: bool = True

    def threshold(self, number: float) -> Threshold:
        """Return the x for which the value is ``number``; NaN if there is none."""
        if not self.factor:
            return Threshold(math.nan, 0.0, is_exact=False)
        distance = RELATIVE_DISTANCE * (abs(number) + self.added) / abs(self.factor)
        return Threshold((number - self.shift) / self.factor, distance, self.is_exact)


def thresholds(graph: Graph) -> dict[int, list[Threshold]]:
    """Return {``id`` of an input: its thresholds, sorted} for float and integer inputs that have thresholds.

    0 is left out, because the boundary sets of inputs (``seeded_inputs``) have it.  Also left out are
    thresholds whose distance reaches beyond LARGEST_FLOAT, or for integers LARGEST_INTEGER.
    """
    inputs = [value for value in graph.inputs if value.dtype.is_float or value.dtype.is_integer]
    largest = {True: LARGEST_FLOAT, False: LARGEST_INTEGER}
    found = {id(v): _first(_found(v), largest[v.dtype.is_float]) for v in inputs}
    return {key: sorted(kept) for key, kept in found.items() if kept}


def _first(found: Iterator[Threshold], largest: float) -> list[Threshold]:
    """Return the first MAX_THRESHOLDS, without 0, repetitions, and those that reach beyond ``largest``."""
    kept: dict[Threshold, None] = {}
    for threshold in found:
        if threshold.number and abs(threshold.number) + threshold.distance <= largest:  # not NaN
            kept[threshold] = None
            if len(kept) == MAX_THRESHOLDS:
                break
    return list(kept)


def _found(start: Value) -> Iterator[Threshold]:
    """Yield each threshold of the input ``start``; some may be found several times."""
    seen = {id(start)}
    pending = [Scaled(start)]
    while pending:
        operand = pending.pop(0)
        for op, position in operand.value.uses:
            yield from map(operand.threshold, _numbers_compared(op, position))
            for result in _scaled_results(op, position, operand):
                yield from map(result.threshold, _clip_ends(op, result.value))
                if id(result.value) not in seen:
                    seen.add(id(result.value))
                    pending.append(result)


def _numbers_compared(op: Op, position: int) -> list[float]:
    """Return the smallest and the largest constant with which ``op`` compares operand ``position``."""
    numbers = _other_constant(op, position) if op.code in COMPARISONS else None
    return [] if numbers is None else [float(numbers.min()), float(numbers.max())]


def _clip_ends(op: Op, result: Value) -> list[float]:
    """Return the ends of the ranges to which ``op`` clips its ``result``, as real numbers."""
    activation = getattr(op, "act", Activation.NONE)
    bounds = op.bounds if isinstance(op, Clamped) else ACTIVATION_BOUNDS.get(activation, (None, None))
    ends = [float(end) for end in bounds if end is not None]
    if isinstance(op, FakeQuant):
        ends += [op.min, op.max]
    if op.code in ("QUANTIZE", "CAST") and result.dtype.is_integer:
        ends += [_real(result, end) for end in result.dtype.limits]
    return ends


def _scaled_results(op: Op, position: int, operand: Scaled) -> list[Scaled]:
    """Return the values that equal operand ``position`` of ``op``, or a multiple of it plus a number.

    Of a constant with several elements, the first element counts.  In a sum with a value that is not a
    constant, this value counts as 0.
    """
    scaled = _factor_and_shift(op, position)
    if scaled is None:
        return []
    by, plus = scaled
    added = operand.added * abs(by) + abs(plus)
    is_exact = operand.is_exact and abs(by) == 1 and plus == 0
    form = operand.factor * by, operand.shift * by + plus, added, is_exact
    return [Scaled(value, *form) for value in following_values(op, position)]


def _factor_and_shift(op: Op, position: int) -> tuple[float, float] | None:
    """Return f and s if the result of ``op`` is f * operand + s, at least for some numbers; else None."""
    if op.code == "NEG":
        return -1.0, 0.0
    if op.code in CLIPS or op.code in ("IF", "CALL") or (op.data_movement and holds_data(op, position)):
        return 1.0, 0.0
    if op.code not in ("ADD", "SUB", "MUL", "DIV"):
        return None
    constant = _other_constant(op, position)
    number = None if constant is None else float(constant[0])
    if op.code in ("ADD", "SUB"):
        sign = -1.0 if op.code == "SUB" else 1.0
        return (sign, number or 0.0) if position else (1.0, sign * (number or 0.0))
    if not number or (op.code == "DIV" and position):
        return None
    return (number if op.code == "MUL" else 1 / number), 0.0


def _other_constant(op: Op, position: int) -> NDArray[np.float64] | None:
    """Return the elements of the operand of ``op`` that is not at ``position`` as a vector of real numbers.

    Return None if the operator does not have two operands, as in a damaged file, or if the other one is not a
    plain constant of real numbers, or has no elements.
    """
    value = op.inputs[1 - position] if len(op.inputs) == 2 else None
    if value is None or value.data is None or not value.is_plain:
        return None
    numbers = real_numbers(value, value.array()).reshape(-1)
    return numbers if numbers.size and numbers.dtype == np.float64 else None


def _real(value: Value, number: int) -> float:
    """Return the real number that the stored ``number`` of ``value`` stands for.

    For several scales, return ``number``.
    """
    return float(real_numbers(value, np.array(number)))
