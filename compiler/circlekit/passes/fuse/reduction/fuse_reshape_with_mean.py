# SPDX-License-Identifier: Apache-2.0
"""Merge a reduction that keeps the reduced dimensions with a Reshape or Squeeze that drops them."""

from __future__ import annotations

from circlekit.ir.value import Array, Value, format_shape
from circlekit.ops.dimensions import normalized_axis
from circlekit.passes.support.conditions import provably_equal
from circlekit.rewrite.rewrite import Rewrite, Rules, condition

REDUCTIONS = "Mean|Sum|ReduceProd|ReduceMax|ReduceMin|ReduceAny|ReduceAll"


class _Dropped(Rewrite):
    """$move(mean(x, keep_dims), the shape without the reduced dimensions)  ==  mean(x)."""

    before = f"""
        y = {REDUCTIONS}(x, axis: const)     {{keep_dims: true}}
        z = $move(y$operands)                {{$attribute: any}}
    """
    after = f"""
        z = {REDUCTIONS}(x, axis)            {{like y, keep_dims: false}}
    """

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
