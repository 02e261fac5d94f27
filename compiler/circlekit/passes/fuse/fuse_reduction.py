# SPDX-License-Identifier: Apache-2.0
"""Merge a reduction with a Transpose or a mean before it, or a Reshape or Squeeze after it."""

from __future__ import annotations

import numpy as np

from circlekit.ir.value import Array, Value, format_shape
from circlekit.ops.constant_operands import int_list
from circlekit.ops.dimensions import normalized_axis
from circlekit.ops.reduction.reduce import reduced_axes
from circlekit.passes.support.conditions import provably_equal
from circlekit.rewrite.match import Match
from circlekit.rewrite.rewrite import Rewrite, Rules, condition


class FuseMeanWithMean(Rewrite):
    """mean(mean(x, first), second)  ==  mean(x, the axes of both)."""

    name = "fuse_mean_with_mean"

    before = """
        y = Mean(x: f32, first: const)      {keep_dims: any = keep1}
        z = Mean(y, second: const)          {keep_dims: any = keep2}
    """
    after = "z = Mean(x, axes)  {keep_dims: keep2}"

    @condition
    def treats_all_axes_alike(self, match: Match, keep1: bool, keep2: bool) -> str | None:
        """A single mean keeps all reduced axes, with size 1, or drops all; both together must do the same."""
        x, y, z = map(match.value, "xyz")
        first, second = self.axes(match)
        if keep2 and not keep1:
            return f"%{y.name}: keep_dims is False, expected True"
        if keep1 and not keep2 and first - second:
            return f"%{z.name}: keeps the axes {sorted(first - second)}, along which %{x.name} is reduced"
        return None

    def constants(self, match: Match, first: Array) -> dict[str, Array]:
        return {"axes": np.asarray(sorted(set.union(*self.axes(match))), first.dtype)}

    def axes(self, match: Match) -> tuple[set[int], set[int]]:
        """Return the axes of ``x`` that each mean reduces.

        ``second`` has axes of the first mean's result, whose rank may be lower than that of ``x``.
        """
        rank = match.value("x").known_rank
        first = _axes(match.value("first").array(), rank)
        left = [axis for axis in range(rank) if axis not in first or match.attributes["keep1"]]
        return first, {left[axis] for axis in _axes(match.value("second").array(), len(left))}


def _axes(array: Array, rank: int) -> set[int]:
    """Return the axes in ``array``, each from 0 to ``rank`` - 1."""
    return set(reduced_axes(int_list(array), rank))


REDUCTIONS = "Mean|Sum|ReduceProd|ReduceMax|ReduceMin|ReduceAny|ReduceAll"
"""The reductions that a picture accepts; ``after`` has the one that matched."""


class _Dropped(Rewrite):
    """$move(reduce(x) with keep_dims)  ==  reduce(x), if $move drops the dimensions that keep_dims keeps."""

    before = f"""
        y = {REDUCTIONS}(x, axis: const)     {{keep_dims: true}}
        z = $move(y$operands)                {{$attribute: any}}
    """
    after = f"z = {REDUCTIONS}(x, axis)  {{like y, keep_dims: false}}"

    @condition
    def drops_exactly_these(self, x: Value, z: Value, axis: Array) -> str | None:
        reduced = _axes(axis, x.known_rank)
        left = tuple(d for i, d in enumerate(x.known_shape) if i not in reduced)
        if provably_equal(left, z.shape):
            return None
        return f"%{z.name}: expected the shape {format_shape(left)}, got {format_shape(z.shape)}"


class FuseReshapeWithMean(Rules):
    """Set keep_dims to false if a Reshape or Squeeze drops the dimensions that a reduction keeps."""

    name = "fuse_reshape_with_mean"
    rules = (
        _Dropped.member(move="Reshape", operands=", shape?", attribute="new_shape"),
        _Dropped.member(move="Squeeze", operands="", attribute="squeeze_dims"),
    )


class FuseTransposeWithMean(Rewrite):
    """reduce(transpose(x), axes)  ==  reduce(x, the corresponding axes), for a mean and other reductions.

    ``keep_dims`` must be false, and the axes that are left must keep their order.
    """

    name = "fuse_transpose_with_mean"
    # a user who asks for convert_nchw_to_nhwc wants the Transposes that it makes
    undoes = frozenset({"convert_nchw_to_nhwc"})

    before = f"""
        t = Transpose(x, perm: const)
        z = {REDUCTIONS}(t, axis: const)     {{keep_dims: false}}
    """
    after = f"z = {REDUCTIONS}(x, axis2)  {{like z, keep_dims: false}}"

    @condition
    def keeps_the_order(self, z: Value, perm: Array, axis: Array) -> str | None:
        reduced = _axes(axis, perm.size)
        left = [normalized_axis(int(a), perm.size) for i, a in enumerate(perm) if i not in reduced]
        return None if left == sorted(left) else f"%{z.name}: expected remaining axes in order, got {left}"

    def constants(self, perm: Array, axis: Array) -> dict[str, Array]:
        return {"axis2": np.asarray(perm % perm.size, axis.dtype)[axis]}
