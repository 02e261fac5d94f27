# SPDX-License-Identifier: Apache-2.0
"""A mean of means."""

from __future__ import annotations

import numpy as np

from circlekit.ir.value import Array, Value, format_shape
from circlekit.ops.dimensions import normalized_axis
from circlekit.rewrite.match import Match
from circlekit.rewrite.rewrite import Rewrite, Rules, condition


class MeanOfMean(Rewrite):
    """mean(mean(x, a), b)  ==  mean(x, a and b), both with the dimensions kept."""

    before = """
        y = Mean(x: f32, first: const)      {keep_dims: true}
        z = Mean(y, second: const)          {keep_dims: true}
    """
    after = """
        z = Mean(x, axes)                   {keep_dims: true}
    """

    @condition
    def known_rank(self, x: Value) -> str | None:
        return (
            None if x.shape is not None else f"%{x.name}: has shape {format_shape(x.shape)}, a rank is wanted"
        )

    def constants(self, match: Match, x: Value, first: Array) -> dict[str, Array]:
        axes = sorted(_axes(first, x.rank or 0) | self.later(match, x.rank or 0))
        return {"axes": np.asarray(axes, first.dtype)}

    def later(self, match: Match, rank: int) -> set[int]:
        """The axes of x that the second mean is over."""
        return _axes(match.value("second").array(), rank)


class MeanOfDroppedMean(MeanOfMean):
    """The same with the dimensions dropped both times: the second counts those that are left."""

    before = """
        y = Mean(x: f32, first: const)      {keep_dims: false}
        z = Mean(y, second: const)          {keep_dims: false}
    """
    after = """
        z = Mean(x, axes)                   {keep_dims: false}
    """

    def later(self, match: Match, rank: int) -> set[int]:
        gone = _axes(match.value("first").array(), rank)
        left = [axis for axis in range(rank) if axis not in gone]
        return {left[axis] for axis in _axes(match.value("second").array(), len(left))}


class MeanOfKeptMean(MeanOfMean):
    """The first keeps the dimensions, the second drops its own: what the first alone reduced stays, as 1."""

    before = """
        y = Mean(x: f32, first: const)      {keep_dims: true}
        z = Mean(y, second: const)          {keep_dims: false}
    """
    after = """
        z = Mean(x, axes)                   {keep_dims: false}
    """

    @condition
    def drops_all(self, z: Value, x: Value, first: Array, second: Array) -> str | None:
        rank = x.rank or 0
        kept = sorted(_axes(first, rank) - _axes(second, rank))
        return f"%{z.name}: keeps the axes {kept}, which %{x.name} is reduced along" if kept else None


def _axes(array: Array, rank: int) -> set[int]:
    return {normalized_axis(int(axis), rank) for axis in array.reshape(-1)}


class FuseMeanWithMean(Rules):
    """mean(mean(x, a), b)  ==  mean(x, a and b)."""

    name = "fuse_mean_with_mean"
    rules = (MeanOfMean, MeanOfDroppedMean, MeanOfKeptMean)
