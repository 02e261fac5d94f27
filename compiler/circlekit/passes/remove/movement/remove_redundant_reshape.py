# SPDX-License-Identifier: Apache-2.0
"""Merge two Reshapes in a row."""

from __future__ import annotations

from circlekit.ir.value import Value
from circlekit.passes.support.conditions import same_quantization
from circlekit.rewrite.rewrite import Rewrite, Rules, condition


class _Reshaped(Rewrite):
    """reshape($move(x), b)  ==  reshape(x, b); the first operator stays if it has other users."""

    quantized = True
    shared = ("y",)

    before = """
        y = $move(x$operands)       $attributes
        z = Reshape(y, shape?)
    """
    after = """
        z = Reshape(x, shape)       {like z}
    """

    @condition
    def one_quantization(self, x: Value, y: Value, z: Value) -> str | None:
        return same_quantization(x, y, z)


class RemoveRedundantReshape(Rules):
    """Merge a Reshape with the Reshape, Squeeze or ExpandDims before it."""

    name = "remove_redundant_reshape"
    rules = (
        _Reshaped.member(move="Reshape", operands=", first?", attributes="{new_shape: any}"),
        _Reshaped.member(move="Squeeze", operands="", attributes="{squeeze_dims: any}"),
        _Reshaped.member(move="ExpandDims", operands=", dim", attributes=""),
    )
