# SPDX-License-Identifier: Apache-2.0
"""Factors and offsets of channels behind a sum, as those of its sides."""

from __future__ import annotations

from circlekit.ir.value import Array, Value, format_shape
from circlekit.passes.support.linear_producer import not_from_product, not_per_channel
from circlekit.rewrite.rewrite import Rewrite, Rules, condition


class _Sum(Rewrite):
    """(a + b) * c  ==  a * c + b * c."""

    before = """
        y = Add(a, b)
        z = Mul(y, c: const f32)               {act: any = act}
    """
    after = """
        m = Mul(a, d)
        n = Mul(b, d)
        z = Add(m, n)                          {act: act}
    """

    @condition
    def follows_products(self, a: Value, b: Value) -> str | None:
        return not_from_product(a, shifts=False) or not_from_product(b, shifts=False)

    @condition
    def is_per_channel(self, c: Array, y: Value) -> str | None:
        return not_per_channel(c, y)

    @condition
    def one_shape(self, a: Value, b: Value, y: Value) -> str | None:
        if y.shape is not None and a.shape == b.shape == y.shape:
            return None
        return f"%{y.name}: is the sum of {format_shape(a.shape)} and {format_shape(b.shape)}, not of equals"

    def constants(self, c: Array) -> dict[str, Array]:
        return {"d": c.reshape(-1)}


class _SumOffset(_Sum):
    """(a + b) + c  ==  (a + c) + b."""

    before = """
        y = Add(a, b)
        z = Add(y, c: const f32)               {act: any = act}
    """
    after = """
        m = Add(a, d)
        z = Add(m, b)                          {act: act}
    """

    @condition
    def follows_products(self, a: Value, b: Value) -> str | None:
        if b.is_const:
            return f"%{b.name}: is constant, too"
        return not_from_product(a, shifts=True)


class ForwardBatchNormOverAdd(Rules):
    """(a + b) * c  ==  a * c + b * c, and (a + b) + c  ==  (a + c) + b, by channel.

    A product only where convolutions or fully connected layers make both sides, which can take it: the end
    of a residual block.  An offset where one is enough.
    """

    name = "forward_batchnorm_over_add"
    rules = (_Sum, _SumOffset)
