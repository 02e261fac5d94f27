# SPDX-License-Identifier: Apache-2.0
"""Find which channels scale together: where numbers of one channel, times s > 0, give results times s.

A channel is an index of the last axis.  Instead of a table of operators, each operator is measured: its
operands get random numbers, then each channel is multiplied by a factor of its own, and the factors are found
again in the results.  RELU, PRELU, pooling, padding with 0, concatenation and movement of data pass channels
on; an ADD does if both operands are scaled alike, a MUL for one operand at a time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from circlekit.errors import CirclekitError
from circlekit.interp.evaluate import evaluate
from circlekit.ir.dtypes import f32
from circlekit.ir.enums import Activation
from circlekit.ir.op import Op
from circlekit.ir.value import Array

LARGEST_FACTOR = 64.0
"""The largest factor of a channel; the smallest is about 2."""

TOLERANCE = 1e-4
"""How far results may be from the scaled ones, as a part of the largest of the channel."""

MOST_CHANNELS = 8192
"""Operators with more channels are not measured, because factors would be too near to each other."""


@dataclass
class Flow:
    """From operands to one result: for each result channel a channel of ``operand``, or -1.

    ``is_alone``: the operand is scaled while the others stay.
    """

    operand: int
    result: int
    channels: Array
    is_alone: bool = False


def channel_flows(op: Op, seed: int = 0) -> list[Flow] | None:
    """Return how channels pass through ``op``; None if they do not, or if that cannot be measured.

    A fused RELU6 counts as RELU.
    """
    shapes = [v.shape for v in op.inputs if v is not None] + [v.shape for v in op.results]
    if any(s is None or not s for s in shapes) or not op.pure or op.called_graphs():
        return None
    out = op.output.shape
    moving = [
        i
        for i, v in enumerate(op.inputs)
        if v is not None and v.dtype is f32 and (not v.is_const or v.shape == out or len(v.shape or ()) == 1)
    ]
    if not moving or any(v.dtype is not f32 for v in op.results):
        return None
    try:
        probe = _Probe(op, moving, seed)
        return probe.distinct() or probe.alike() or probe.alone()
    except CirclekitError:
        return None


class _Probe:
    """Runs ``op`` on random numbers whose channels are scaled; ``moving``: the operands that get them.

    Their negatives are tried, too: a channel of zeros must be one for every input.
    """

    def __init__(self, op: Op, moving: Sequence[int], seed: int) -> None:
        self.op, self.moving = op, moving
        rng = np.random.default_rng(seed)
        self.arrays: list[Array | None] = []
        for index, value in enumerate(op.inputs):
            shape = tuple(d or 1 for d in value.shape or ()) if value is not None else ()
            if value is None:
                self.arrays.append(None)
            elif index in moving:
                self.arrays.append(rng.normal(0, 10, shape).astype(np.float32))
            else:
                data = value.data if value.is_const else np.zeros(shape, value.dtype.numpy)
                self.arrays.append(data)
        self.plain = self._results({})

    def _results(self, factors: dict[int, Array]) -> list[Array]:
        """Return each result as rows of channels, for the random numbers and for their negatives."""
        halves = [self._run(factors, sign) for sign in (1, -1)]
        return [
            np.concatenate([array.reshape(-1, array.shape[-1]).astype(np.float64) for array in pair])
            for pair in zip(*halves, strict=True)
        ]

    def _run(self, factors: dict[int, Array], sign: int) -> list[Array]:
        arrays = [
            np.asarray(a * factors.get(i, 1) * sign, np.float32) if a is not None and i in self.moving else a
            for i, a in enumerate(self.arrays)
        ]
        act = getattr(self.op, "act", None)
        if act is not Activation.RELU6:
            return evaluate(self.op, arrays)
        self.op.attribute_values["act"] = Activation.RELU
        try:
            return evaluate(self.op, arrays)
        finally:
            self.op.attribute_values["act"] = act

    def _sizes(self) -> list[int]:
        return [self.arrays[i].shape[-1] for i in self.moving]  # type: ignore[union-attr]  # moving ones are there

    def distinct(self) -> list[Flow] | None:
        """Every channel of every operand has its own factor."""
        sizes = self._sizes()
        starts = np.concatenate([[0], np.cumsum(sizes)])
        channel_factors = _distinct_factors(int(starts[-1]))
        factors = {i: channel_factors[a:b] for i, a, b in zip(self.moving, starts, starts[1:], strict=False)}
        found = self._found(channel_factors, factors)
        if found is None:
            return None
        return [
            Flow(i, r, np.where((origin >= a) & (origin < b), origin - a, -1))
            for r, origin in enumerate(found)
            for i, a, b in zip(self.moving, starts, starts[1:], strict=False)
        ]

    def alike(self) -> list[Flow] | None:
        """All operands have the same factors."""
        sizes = set(self._sizes())
        if len(self.moving) < 2 or len(sizes) != 1:
            return None
        channel_factors = _distinct_factors(sizes.pop())
        found = self._found(channel_factors, dict.fromkeys(self.moving, channel_factors))
        return [Flow(i, r, origin) for r, origin in enumerate(found or []) for i in self.moving] or None

    def alone(self) -> list[Flow] | None:
        """One operand is scaled, the others stay."""
        flows = []
        for index, size in zip(self.moving, self._sizes(), strict=True):
            channel_factors = _distinct_factors(size)
            found = self._found(channel_factors, {index: channel_factors}) if len(self.moving) > 1 else None
            flows += [Flow(index, r, origin, True) for r, origin in enumerate(found or [])]
        return flows or None

    def _found(self, channel_factors: Array, factors: dict[int, Array]) -> list[Array] | None:
        """Return for each result the factors of its channels, as indices; None if one has not one factor."""
        if not 0 < channel_factors.size <= MOST_CHANNELS:
            return None
        found = []
        for before, after in zip(self.plain, self._results(factors), strict=True):
            largest = np.abs(before).argmax(axis=0)[None]
            tops, scaled = (np.take_along_axis(rows, largest, 0)[0] for rows in (before, after))
            is_empty = tops == 0  # such as channels that a PAD adds
            if is_empty.all() or not np.isfinite(after).all() or after[:, is_empty].any():
                return None
            factor = np.where(is_empty, channel_factors[0], scaled / np.where(is_empty, 1, tops))
            nearest = np.abs(channel_factors[:, None] - factor).argmin(axis=0)
            missed = np.abs(after - before * channel_factors[nearest]).max(axis=0)
            if np.any(missed > TOLERANCE * channel_factors[nearest] * np.abs(tops)):
                return None
            nearest[is_empty] = -1
            found.append(nearest)
        return found


def _distinct_factors(count: int) -> Array:
    """Return ``count`` different factors from about 2 to LARGEST_FACTOR; no product is one of them."""
    jitter = np.random.default_rng(count).uniform(0, 0.3, count)
    places = (np.arange(count) + jitter) / max(count, 2)
    return np.asarray((2 * (LARGEST_FACTOR / 2) ** places).astype(np.float32))
