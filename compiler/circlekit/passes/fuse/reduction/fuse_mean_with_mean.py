# SPDX-License-Identifier: Apache-2.0
"""Merge a mean of a mean."""

from __future__ import annotations

import numpy as np

from circlekit.ir.value import Array, Value
from circlekit.ops.dimensions import normalized_axis
from circlekit.rewrite.match import Match
from circlekit.rewrite.rewrite import Rewrite, Rules, condition


class _MeanOfMean(Rewrite):
    """mean(mean(x, a), b)  ==  mean(x, a and b), where keep_dims is $first, then $second."""

    before = """
        y = Mean(x: f32, first: const)      {keep_dims: $first}
        z = Mean(y, second: const)          {keep_dims: $second}
    """
    after = """
        z = Mean(x, axes)                   {keep_dims: $second}
    """

    @condition
    def known_rank(self, x: Value) -> str | None:
        return None if x.shape is not None else f"%{x.name}: expected a known rank"

    def constants(self, match: Match, x: Value, first: Array) -> dict[str, Array]:
        axes = sorted(_axes(first, x.rank or 0) | self.second_axes(match, x.rank or 0))
        return {"axes": np.asarray(axes, first.dtype)}

    def second_axes(self, match: Match, rank: int) -> set[int]:
        """The axes of ``x``, of that rank, that the second mean reduces."""
        return _axes(match.value("second").array(), rank)


class _Kept(_MeanOfMean, first="true", second="true"):
    pass


class _Dropped(_MeanOfMean, first="false", second="false"):
    """mean(mean(x, a), b)  ==  mean(x, a and b), where b counts the dimensions that the first mean leaves."""

    def second_axes(self, match: Match, rank: int) -> set[int]:
        reduced = _axes(match.value("first").array(), rank)
        left = [axis for axis in range(rank) if axis not in reduced]
        return {left[axis] for axis in _axes(match.value("second").array(), len(left))}


class _KeptThenDropped(_MeanOfMean, first="true", second="false"):
    """mean(mean(x, a), b)  ==  mean(x, a and b), where the second drops the axes that the first keeps."""

    @condition
    def drops_all(self, z: Value, x: Value, first: Array, second: Array) -> str | None:
        rank = x.rank or 0
        kept = sorted(_axes(first, rank) - _axes(second, rank))
        return f"%{z.name}: keeps the axes {kept}, along which %{x.name} is reduced" if kept else None


def _axes(array: Array, rank: int) -> set[int]:
    return {normalized_axis(int(axis), rank) for axis in array.reshape(-1)}


class FuseMeanWithMean(Rules):
    """mean(mean(x, a), b)  ==  mean(x, a and b)."""

    name = "fuse_mean_with_mean"
    rules = (_Kept, _Dropped, _KeptThenDropped)
