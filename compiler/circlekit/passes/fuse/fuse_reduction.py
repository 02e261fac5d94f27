# SPDX-License-Identifier: Apache-2.0
"""Merge a reduction with a Transpose or a reduction before it, or with a reshape or factor after it."""

from __future__ import annotations

from math import prod

import numpy as np

from circlekit.ir.dtypes import f32
from circlekit.ir.value import Array, Value, format_shape
from circlekit.ops.arithmetic.division import Div
from circlekit.ops.constant_operands import int_list
from circlekit.ops.reduction.reduce import Mean, ReduceProd, Reduction, Sum, reduced_axes
from circlekit.passes.support.conditions import determined_shape, provably_equal
from circlekit.rewrite.match import Match
from circlekit.rewrite.rewrite import Rewrite, Rules, condition

COMPOSABLE = "Mean|Sum|ReduceMax|ReduceMin|ReduceAny|ReduceAll"
"""Reductions that may be done in two steps; ReduceProd may not, because other numbers could overflow."""


class FuseMeanWithMean(Rewrite):
    """reduce(reduce(x, first), second)  ==  reduce(x, the axes of both), for a mean and other reductions."""

    name = "fuse_mean_with_mean"

    before = f"""
        y = {COMPOSABLE}(x, first: const)      {{keep_dims: any = keep1}}
        z = {COMPOSABLE}(y, second: const)     {{keep_dims: any = keep2}}
    """
    after = f"z = {COMPOSABLE}(x, axes)  {{like z, keep_dims: keep2}}"

    @condition
    def are_alike(self, match: Match, x: Value) -> str | None:
        """Both reductions are of one kind, and sums and means are of f32, which does not wrap around."""
        y, z = match.ops["y"], match.ops["z"]
        if type(y) is not type(z):
            return f"%{y.output.name}: comes from {type(y).__name__}, expected {type(z).__name__}"
        if isinstance(z, Mean | Sum) and x.dtype is not f32:
            return f"%{x.name}: is {x.dtype.short}, expected f32"
        return None

    @condition
    def treats_all_axes_alike(self, match: Match, keep1: bool, keep2: bool) -> str | None:
        """The two reductions together keep all their axes, with size 1, or drop all.

        A single reduction cannot keep some of its axes and drop others.
        """
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
        """Return the axes of ``x`` that each reduction removes.

        ``second`` has axes of the first result, whose rank may be lower than that of ``x``.
        """
        rank = match.value("x").known_rank
        first = _axes(match.value("first").array(), rank)
        left = [axis for axis in range(rank) if axis not in first or match.attributes["keep1"]]
        return first, {left[axis] for axis in _axes(match.value("second").array(), len(left))}


def _axes(array: Array, rank: int) -> set[int]:
    """Return the axes in ``array``, each from 0 to ``rank`` - 1."""
    return set(reduced_axes(int_list(array), rank))


class FuseSumToMean(Rewrite):
    """sum(x) / n  ==  mean(x), and sum(x) * (1 / n)  ==  mean(x), if each sum has n elements.

    This is the mean of models that come from StableHLO, which has no operator for it.
    """

    name = "fuse_sum_to_mean"

    before = """
        s = Sum(x: f32, axis: const)            {keep_dims: any = keep_dims}
        z = Mul|Div(s, number: const f32[*, 1])
    """
    after = "z = Mean(x, axis)  {keep_dims: keep_dims}"

    @condition
    def divides_by_the_count(self, match: Match, x: Value, axis: Array, number: Array) -> str | None:
        """The number is n exactly, or 1 / n up to one step of float32."""
        sizes = [x.known_shape[a] for a in reduced_axes(int_list(axis), x.known_rank)]
        count = prod(size or 0 for size in sizes)  # 0 if a size is unknown
        if not count:
            return f"%{x.name}: expected known sizes above 0 along the axes, got {format_shape(x.shape)}"
        divides, found = isinstance(match.ops["z"], Div), number.reshape(-1)[0]
        expected = np.float32(count if divides else 1 / count)
        if abs(found - expected) <= (0 if divides else np.spacing(expected)):  # false for NaN
            return None
        how = "a division by" if divides else "a multiplication by 1 /"
        return f"%{match.value('number').name}: expected {how} {count}, the size of a sum, got {found!s}"


REDUCTIONS = "Mean|Sum|ReduceProd|ReduceMax|ReduceMin|ReduceAny|ReduceAll"
"""The reductions that a picture accepts; ``after`` has the one that matched."""


class _WithMove(Rewrite):
    """$move(reduce(x))  ==  reduce(x) with the other keep_dims, if $move drops or inserts the reduced axes.

    ``$keep1``, ``$keep2``: keep_dims before and after.
    """

    before = f"""
        y = {REDUCTIONS}(x, axis: const)     {{keep_dims: $keep1}}
        z = $move
    """
    after = f"z = {REDUCTIONS}(x, axis)  {{like y, keep_dims: $keep2}}"

    @condition
    def gives_the_same_shape(self, match: Match, x: Value, z: Value, axis: Array) -> str | None:
        op, reduced, dims = match.ops["y"], _axes(axis, x.known_rank), enumerate(x.known_shape)
        assert isinstance(op, Reduction)
        keeps = not op.keep_dims  # keep_dims of the new reduction
        expected = tuple(1 if i in reduced else d for i, d in dims if keeps or i not in reduced)
        if provably_equal(expected, z.shape):
            return None
        if expected == z.shape:
            return determined_shape(z)
        return f"%{z.name}: expected the shape {format_shape(expected)}, got {format_shape(z.shape)}"


class _RestoredAfterRoot(_WithMove):
    """reshape(root(reduce(x) + eps))  ==  root(reduce(x) + eps) with keep_dims, as in a normalization."""

    before = f"""
        y = {REDUCTIONS}(x, axis: const)     {{keep_dims: false}}
        a = Add(y, eps: const f32[*, 1])
        r = Rsqrt|Sqrt(a)
        z = Reshape(r, shape?)              {{new_shape: any}}
    """
    after = f"""
        w = {REDUCTIONS}(x, axis)            {{like y, keep_dims: true}}
        b = Add(w, eps)
        z = Rsqrt|Sqrt(b)                   {{like r}}
    """


class FuseReshapeWithMean(Rules):
    """Let a reduction keep or drop its dimensions if the next operator inserts or drops them.

    If a Reshape or Squeeze drops the dimensions that the reduction keeps, keep_dims becomes false.  If a
    Reshape or ExpandDims inserts those that the reduction drops, it becomes true.  Before such a Reshape,
    there may be the epsilon and the root of a normalization.
    """

    name = "fuse_reshape_with_mean"
    rules = (
        _WithMove.member(keep1="true", keep2="false", move="Reshape(y, shape?)  {new_shape: any}"),
        _WithMove.member(keep1="true", keep2="false", move="Squeeze(y)  {squeeze_dims: any}"),
        _WithMove.member(keep1="false", keep2="true", move="Reshape(y, shape?)  {new_shape: any}"),
        _WithMove.member(keep1="false", keep2="true", move="ExpandDims(y, dim: const)"),
        _RestoredAfterRoot,
    )


class FuseTransposeWithMean(Rewrite):
    """reduce(transpose(x), axes)  ==  reduce(x, the corresponding axes), for a mean and other reductions.

    ``keep_dims`` must be false, and the axes that are left must keep their order.  For a product, the reduced
    axes must keep their order, too, because another order of the factors could change what overflows.
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
    def keeps_the_order(self, match: Match, z: Value, perm: Array, axis: Array) -> str | None:
        reduced, axes = _axes(axis, perm.size), (perm % perm.size).tolist()
        left = [a for i, a in enumerate(axes) if i not in reduced]
        if left != sorted(left):
            return f"%{z.name}: expected remaining axes in order, got {left}"
        factors = [a for i, a in enumerate(axes) if i in reduced]
        if isinstance(match.ops["z"], ReduceProd) and factors != sorted(factors):
            return f"%{z.name}: expected the reduced axes of a product in order, got {factors}"
        return None

    def constants(self, perm: Array, axis: Array) -> dict[str, Array]:
        return {"axis2": np.asarray(perm % perm.size, axis.dtype)[axis]}
