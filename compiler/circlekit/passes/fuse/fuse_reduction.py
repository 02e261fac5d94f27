# SPDX-License-Identifier: Apache-2.0
"""Merge reductions with a reduction, Reshape, Squeeze or Transpose beside them."""

from __future__ import annotations

import numpy as np

from circlekit.ir.value import Array, Value, format_shape
from circlekit.ops.dimensions import normalized_axis
from circlekit.passes.support.conditions import provably_equal
from circlekit.rewrite.match import Match
from circlekit.rewrite.rewrite import Rewrite, Rules, condition


class _MeanOfMean(Rewrite):
    """mean(mean(x, a), b)  ==  mean(x, a and b), where keep_dims is $first, then $second."""

    before = """
        y = Mean(x: f32, first: const)      {keep_dims: $first}
        z = Mean(y, second: const)          {keep_dims: $second}
    """
    after = "z = Mean(x, axes)  {keep_dims: $second}"

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


class _BothDropped(_MeanOfMean, first="false", second="false"):
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
    rules = (_Kept, _BothDropped, _KeptThenDropped)


REDUCTIONS = "Mean|Sum|ReduceProd|ReduceMax|ReduceMin|ReduceAny|ReduceAll"


class _Dropped(Rewrite):
    """$move(mean(x, keep_dims), the shape without the reduced dimensions)  ==  mean(x)."""

    before = f"""
        y = {REDUCTIONS}(x, axis: const)     {{keep_dims: true}}
        z = $move(y$operands)                {{$attribute: any}}
    """
    after = f"z = {REDUCTIONS}(x, axis)  {{like y, keep_dims: false}}"

    @condition
    def drops_exactly_these(self, x: Value, z: Value, axis: Array) -> str | None:
        if x.shape is None:
            return f"%{x.name}: expected a known rank"
        reduced = {normalized_axis(int(a), len(x.shape)) for a in axis.reshape(-1)}
        left = tuple(d for i, d in enumerate(x.shape) if i not in reduced)
        if provably_equal(left, z.shape):
            return None
        return f"%{z.name}: expected the shape {format_shape(left)}, got {format_shape(z.shape)}"


class FuseReshapeWithMean(Rules):
    """Set keep_dims to false where a Reshape or Squeeze drops the dimensions that a reduction keeps."""

    name = "fuse_reshape_with_mean"
    rules = (
        _Dropped.member(move="Reshape", operands=", shape?", attribute="new_shape"),
        _Dropped.member(move="Squeeze", operands="", attribute="squeeze_dims"),
    )


class FuseTransposeWithMean(Rewrite):
    """mean(transpose(x), axes)  ==  mean(x, the axes that these were before)."""

    name = "fuse_transpose_with_mean"
    undoes = frozenset({"convert_nchw_to_nhwc"})

    before = f"""
        t = Transpose(x, perm: const)
        z = {REDUCTIONS}(t, axis: const)     {{keep_dims: false}}
    """
    after = f"z = {REDUCTIONS}(x, axis2)  {{like z, keep_dims: false}}"

    @condition
    def keeps_the_order(self, z: Value, perm: Array, axis: Array) -> str | None:
        rank = perm.size
        reduced = {normalized_axis(int(a), rank) for a in axis.reshape(-1)}
        left = [normalized_axis(int(a), rank) for i, a in enumerate(perm) if i not in reduced]
        return None if left == sorted(left) else f"%{z.name}: leaves the axes {left} in another order"

    def constants(self, perm: Array, axis: Array) -> dict[str, Array]:
        return {"axis2": np.asarray(perm % perm.size, axis.dtype)[axis]}
