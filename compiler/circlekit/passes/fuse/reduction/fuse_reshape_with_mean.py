# SPDX-License-Identifier: Apache-2.0
"""Reductions that keep the reduced dimensions, only for a Reshape to drop them."""

from __future__ import annotations

from circlekit.ir.value import Array, Value, format_shape
from circlekit.ops.dimensions import normalized_axis
from circlekit.passes.support.conditions import surely_equal
from circlekit.rewrite.rewrite import Rewrite, Rules, condition

KINDS = "Mean|Sum|ReduceProd|ReduceMax|ReduceMin|ReduceAny|ReduceAll"


class DroppedByReshape(Rewrite):
    """reshape(mean(x, keep_dims), the shape without these dimensions)  ==  mean(x)."""

    before = f"""
        y = {KINDS}(x, axis: const)     {{keep_dims: true}}
        z = Reshape(y, shape?)          {{new_shape: any}}
    """
    after = f"""
        z = {KINDS}(x, axis)            {{like y, keep_dims: false}}
    """

    @condition
    def certain_shape(self, x: Value, z: Value, axis: Array) -> str | None:
        if x.shape is None:
            return f"%{x.name}: has an unknown rank"
        gone = {normalized_axis(int(a), len(x.shape)) for a in axis.reshape(-1)}
        left = tuple(d for i, d in enumerate(x.shape) if i not in gone)
        if surely_equal(left, z.shape):
            return None
        return f"%{z.name}: has shape {format_shape(z.shape)}, the rewrite gives {format_shape(left)}"


class DroppedBySqueeze(DroppedByReshape):
    """squeeze(mean(x, keep_dims), these dimensions)  ==  mean(x)."""

    before = f"""
        y = {KINDS}(x, axis: const)     {{keep_dims: true}}
        z = Squeeze(y)                  {{squeeze_dims: any}}
    """


class FuseReshapeWithMean(Rules):
    """A MEAN, SUM, or other reduction whose result loses exactly the reduced dimensions."""

    name = "fuse_reshape_with_mean"
    rules = (DroppedByReshape, DroppedBySqueeze)
