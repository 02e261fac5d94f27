# SPDX-License-Identifier: Apache-2.0
"""Measure how an operator passes channels on.

A channel is an index of the last axis.  An operator passes channels on if this holds: multiplying a channel
of an operand by a positive factor multiplies one or more channels of the result by the same factor, and
changes no other channel of the result.
Examples: RELU, PRELU, pooling, padding with 0, concatenation, data movement; ADD if both operands get the
same factors; MUL if one operand gets factors.

No table says which operators do this.  An operator is run twice: on random numbers, and on the same numbers
with each channel multiplied by a factor of its own.  If this multiplies a channel of the result by one of the
factors, the factor tells from which operand channel the result channel comes.  This must hold for small and
for large numbers: a MAXIMUM with a constant, for example, passes on only the numbers above the constant.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from circlekit.errors import CirclekitError
from circlekit.interp.evaluate import evaluate
from circlekit.ir.dtypes import f32
from circlekit.ir.enums import Activation
from circlekit.ir.op import Op
from circlekit.ir.value import Array
from circlekit.quant.weights import is_float, present_operand

LARGEST_FACTOR = 64.0
"""The largest factor of a channel; the smallest is about 2."""

TOLERANCE = 1e-4
"""The allowed difference of new and scaled old results, relative to the largest element of the channel."""

MOST_CHANNELS = 8192
"""Operators with more channels are not measured, because their factors would be too close to each other."""

SIGNS = ((1, 1), (-1, -1), (-1, 1))
"""For each run, (sign of the first operand, sign of all others), by which their numbers are multiplied.

With a single pair of signs, a RELU might make all of a channel 0.  Compared with the first pair, the second
changes the sign of sums, and the third changes the sign of products.
"""


def magnitudes(op: Op) -> list[float]:
    """Return the standard deviations of the random numbers on which ``op`` is run: 0.01, 10, and so on.

    The last is at least 10 times the largest constant, if that is finite.  Each is 1000 times the one before.
    So a constant between two magnitudes is above TOLERANCE times the larger one, and its effect is noticed.
    """
    constants = [v.data for v in op.inputs if v is not None and v.data is not None and is_float(v)]
    largest = max([1.0, *(float(np.abs(data).max(initial=0)) for data in constants)])
    found = [0.01, 10.0]
    while found[-1] < 10 * largest < math.inf:
        found.append(found[-1] * 1000)
    return found


@dataclass
class Flow:
    """Which channels of one operand reach which channels of one result.

    ``operand``, ``result``: the index of the operand, and of the result.
    ``channels``: for each channel of the result, the channel of the operand from which it comes; -1 if it
    comes from none.
    ``is_alone``: True, as in MUL: scaling this operand alone scales the result.  False, as in ADD: to scale a
    channel of the result, all operand channels from which it comes must be scaled.

    Example: a CONCATENATION of 2 and 3 channels has two flows, with the ``channels`` [0, 1, -1, -1, -1] and
    [-1, -1, 0, 1, 2].
    """

    operand: int
    result: int
    channels: Array
    is_alone: bool = False


def channel_flows(op: Op) -> list[Flow] | None:
    """Return how ``op`` passes channels on; None if ``op`` does not, or cannot be measured.

    An operator with a computed operand or result that is empty or a scalar is not measured.
    A fused RELU6 is measured as a RELU, because its upper bound does not scale; the caller must allow for it.
    """
    ends = [v for v in (*op.inputs, *op.results) if v is not None and not v.is_const]
    if any(not v.shape or 0 in v.shape for v in ends) or not op.pure or op.called_graphs():
        return None
    out = op.output.shape
    # a constant of one of these shapes, such as an addend, can be scaled by channel like a computed operand
    moving = [
        i
        for i, v in enumerate(op.inputs)
        if is_float(v) and (not v.is_const or v.shape == out or v.rank == 1)
    ]
    floats = (*(present_operand(op, i) for i in moving), *op.results)
    if not moving or any(v.known_shape[-1] is None or v.dtype is not f32 for v in floats):
        return None  # an unknown number of channels cannot be measured
    found: list[Flow] | None = None
    for magnitude in magnitudes(op):
        try:
            with np.errstate(over="ignore", invalid="ignore"):  # infinite results give no flows
                flows = _Probe(op, moving, magnitude).flows()
        except CirclekitError:
            return None
        if not flows or (found is not None and not _are_equal(found, flows)):
            return None
        found = found or flows
    return found


def _are_equal(first: Sequence[Flow], second: Sequence[Flow]) -> bool:
    """Return whether the flows that were measured with numbers of two magnitudes are the same."""
    return len(first) == len(second) and all(
        (a.operand, a.result, a.is_alone) == (b.operand, b.result, b.is_alone)
        and np.array_equal(a.channels, b.channels)
        for a, b in zip(first, second, strict=True)
    )


class _Probe:
    """Runs ``op`` on random numbers, then again with scaled channels.

    ``moving``: the indices of the operands that get random numbers; the other operands are constants, or 0.
    ``magnitude``: the standard deviation of the random numbers.
    ``arrays``: the operands.  ``plain``: the results without factors (see ``_results``).
    """

    def __init__(self, op: Op, moving: Sequence[int], magnitude: float) -> None:
        self.op, self.moving = op, moving
        rng = np.random.default_rng(0)
        self.arrays: list[Array | None] = []
        for index, value in enumerate(op.inputs):
            if value is None:
                self.arrays.append(None)
                continue
            shape = tuple(d or 1 for d in value.known_shape)
            if index in moving:
                self.arrays.append(rng.normal(0, magnitude, shape).astype(np.float32))
            else:
                data = value.data if value.is_const else np.zeros(shape, value.dtype.numpy)
                self.arrays.append(data)
        self.plain = self._results({})

    def flows(self) -> list[Flow] | None:
        """Return the flows, or None if there are none."""
        sizes = [rows.shape[1] if rows.size else 0 for rows in self.plain]
        if [v.known_shape[-1] for v in self.op.results] != sizes or 0 in sizes:
            return None  # the number of channels is unknown or 0
        if len(self.moving) == 1:
            return self.distinct()
        # three kinds of operators: as CONCATENATION, as ADD, as MUL
        return self.distinct() or self.alike() or self.alone()

    def _results(self, factors: dict[int, Array]) -> list[Array]:
        """Run ``op`` with each pair of SIGNS; return each result as a matrix [rows, channels] of all runs.

        With a single random operand, the third pair would repeat the second, so it is left out.
        ``factors``: by index of the operand, the factor of each channel; other operands are not scaled.
        """
        runs = [self._run(factors, *signs) for signs in SIGNS[: len(self.moving) + 1]]
        return [
            np.concatenate([array.reshape(-1, array.shape[-1]).astype(np.float64) for array in arrays])
            for arrays in zip(*runs, strict=True)
        ]

    def _run(self, factors: dict[int, Array], first: int, others: int) -> list[Array]:
        """Return the results of one run.

        ``factors``: see ``_results``.  ``first``, ``others``: the signs of the first random operand and of
        the others.
        """
        arrays = list(self.arrays)
        for i, numbers in enumerate(self.arrays):
            if numbers is not None and i in self.moving:
                sign = first if i == self.moving[0] else others
                arrays[i] = np.asarray(numbers * factors.get(i, 1) * sign, np.float32)
        act = getattr(self.op, "act", None)
        if act is not Activation.RELU6:
            return evaluate(self.op, arrays)
        # run the operator with a fused RELU instead, see ``channel_flows``
        attributes = self.op.attribute_values
        self.op.attribute_values = attributes | {"act": Activation.RELU}
        try:
            return evaluate(self.op, arrays)
        finally:
            self.op.attribute_values = attributes

    def _sizes(self) -> list[int]:
        """Return the number of channels of each operand in ``moving``."""
        return [self.arrays[i].shape[-1] for i in self.moving]  # type: ignore[union-attr]  # they are present

    def distinct(self) -> list[Flow] | None:
        """Scale each channel of each operand by its own factor; return the flows, None if there are none."""
        sizes = self._sizes()
        starts = np.concatenate([[0], np.cumsum(sizes)])
        channel_factors = _distinct_factors(int(starts[-1]))
        factors = {i: channel_factors[a:b] for i, a, b in zip(self.moving, starts, starts[1:], strict=False)}
        found = self._found(channel_factors, factors)
        if found is None:
            return None
        # ``origin`` counts the channels of all operands in a row; operand i has those from a to b - 1
        return [
            Flow(i, r, np.where((origin >= a) & (origin < b), origin - a, -1))
            for r, origin in enumerate(found)
            for i, a, b in zip(self.moving, starts, starts[1:], strict=False)
        ]

    def alike(self) -> list[Flow] | None:
        """Scale all operands by the same factors; return the flows, or None if there are none."""
        sizes = set(self._sizes())
        if len(sizes) != 1:
            return None
        channel_factors = _distinct_factors(sizes.pop())
        found = self._found(channel_factors, dict.fromkeys(self.moving, channel_factors))
        return [Flow(i, r, origin) for r, origin in enumerate(found or []) for i in self.moving] or None

    def alone(self) -> list[Flow] | None:
        """Scale one operand at a time; return the flows of all operands, or None if there are none."""
        flows = []
        for index, size in zip(self.moving, self._sizes(), strict=True):
            channel_factors = _distinct_factors(size)
            found = self._found(channel_factors, {index: channel_factors})
            flows += [Flow(index, r, origin, True) for r, origin in enumerate(found or [])]
        return flows or None

    def _found(self, channel_factors: Array, factors: dict[int, Array]) -> list[Array] | None:
        """Return for each result the factor of each channel, as an index into ``channel_factors``.

        ``factors``: by index of the operand, see ``_results``.  A channel that is always 0 has the index -1.
        In each result, all elements must be finite, and each channel must be always 0 or scaled by one of
        ``channel_factors``; at least one channel must be scaled.  Otherwise return None.  Also return None
        for more than MOST_CHANNELS factors.
        """
        if not 0 < channel_factors.size <= MOST_CHANNELS:
            return None
        found = []
        for before, after in zip(self.plain, self._results(factors), strict=True):
            largest = np.abs(before).argmax(axis=0)[None]  # the row of the largest element of each channel
            tops, scaled = (np.take_along_axis(rows, largest, 0)[0] for rows in (before, after))
            is_empty = tops == 0  # such as channels that a PAD adds
            if is_empty.all() or not np.isfinite(after).all() or after[:, is_empty].any():
                return None
            factor = scaled / np.where(is_empty, 1, tops)
            nearest = np.abs(channel_factors[:, None] - factor).argmin(axis=0)
            missed = np.abs(after - before * channel_factors[nearest]).max(axis=0)
            if np.any(missed > TOLERANCE * channel_factors[nearest] * np.abs(tops)):
                return None
            nearest[is_empty] = -1
            found.append(nearest)
        return found


def _distinct_factors(count: int) -> Array:
    """Return ``count`` different factors from about 2 to LARGEST_FACTOR, with random spaces between them."""
    jitter = np.random.default_rng(count).uniform(0, 0.3, count)
    places = (np.arange(count) + jitter) / max(count, 2)
    return np.asarray((2 * (LARGEST_FACTOR / 2) ** places).astype(np.float32))
