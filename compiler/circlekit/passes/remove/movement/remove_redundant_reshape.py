# SPDX-License-Identifier: Apache-2.0
"""Two Reshapes in a row."""

from __future__ import annotations

from circlekit.ir.value import Value
from circlekit.passes.support.conditions import same_quantization
from circlekit.rewrite.rewrite import Rewrite, Rules, condition


class AfterReshape(Rewrite):
    """reshape(reshape(x, a), b)  ==  reshape(x, b); where others read the first too, it stays for them."""

    quantized = True
    shared = ("y",)

    before = """
        y = Reshape(x, first?)      {new_shape: any}
        z = Reshape(y, shape?)
    """
    after = """
        z = Reshape(x, shape)       {like z}
    """

    @condition
    def plain_or_alike(self, x: Value, y: Value, z: Value) -> str | None:
        return same_quantization(x, y, z)


class AfterSqueeze(AfterReshape):
    """reshape(squeeze(x), b)  ==  reshape(x, b)."""

    before = """
        y = Squeeze(x)              {squeeze_dims: any}
        z = Reshape(y, shape?)
    """


class AfterExpandDims(AfterReshape):
    """reshape(expand_dims(x), b)  ==  reshape(x, b)."""

    before = """
        y = ExpandDims(x, dim)
        z = Reshape(y, shape?)
    """


class RemoveRedundantReshape(Rules):
    """A Reshape of what was only reshaped before."""

    name = "remove_redundant_reshape"
    rules = (AfterReshape, AfterSqueeze, AfterExpandDims)
