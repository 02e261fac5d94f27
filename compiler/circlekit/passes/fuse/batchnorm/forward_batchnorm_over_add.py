# SPDX-License-Identifier: Apache-2.0
"""Move a factor or an offset per channel before a sum."""

from __future__ import annotations

from circlekit.ir.value import Array, Value, format_shape
from circlekit.passes.support.linear_producer import channel_refusal, producer_refusal
from circlekit.rewrite.rewrite import Rewrite, Rules, condition


class _Product(Rewrite):
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
    def follows_linear_operators(self, a: Value, b: Value) -> str | None:
        return producer_refusal(a, shifts=False) or producer_refusal(b, shifts=False)

    @condition
    def is_per_channel(self, c: Array, y: Value) -> str | None:
        return channel_refusal(c, y)

    @condition
    def one_shape(self, a: Value, b: Value, y: Value) -> str | None:
        if y.shape is not None and a.shape == b.shape == y.shape:
            return None
        shapes = f"{format_shape(a.shape)} and {format_shape(b.shape)}"
        return f"%{y.name}: expected a sum of two values of its shape, got {shapes}"

    def constants(self, c: Array) -> dict[str, Array]:
        return {"d": c.reshape(-1)}


class _Offset(_Product):
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
    def follows_linear_operators(self, a: Value, b: Value) -> str | None:
        if b.is_const:
            return f"%{b.name}: is constant as well, fold_constants adds it to the offset"
        return producer_refusal(a, shifts=True)


class ForwardBatchNormOverAdd(Rules):
    """(a + b) * c  ==  a * c + b * c, and (a + b) + c  ==  (a + c) + b, per channel.

    A product moves only where convolutions or fully connected layers, which can absorb it, make both
    operands, as at the end of a residual block; for an offset one of them is enough.
    """

    name = "forward_batchnorm_over_add"
    rules = (_Product, _Offset)
