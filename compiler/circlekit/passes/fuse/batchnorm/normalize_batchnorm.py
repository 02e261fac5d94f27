# SPDX-License-Identifier: Apache-2.0
"""Write differences and quotients of a batch norm as sums and products."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from circlekit.ir.value import Array, Value
from circlekit.passes.support.linear_producer import channel_refusal, has_transpose_before, producer_refusal
from circlekit.rewrite.rewrite import Rewrite, Rules, condition


class _Normalized(Rewrite):
    """Arithmetic with a constant ``c`` behind a linear operator, which can absorb a sum or a product.

    ``shifts``: whether it is an offset.  ``any_axis``: whether the channels of transposed data may be along
    another axis than the last.
    """

    shifts: ClassVar[bool] = True
    any_axis: ClassVar[bool] = True

    @condition
    def follows_a_linear_operator(self, y: Value) -> str | None:
        return producer_refusal(y, self.shifts)

    @condition
    def is_per_channel(self, c: Array, y: Value) -> str | None:
        if self.any_axis and c.size == max(c.shape, default=1) and has_transpose_before(y):
            return None
        return channel_refusal(c, y)


class _Difference(_Normalized):
    """y - c  ==  y + (-c)."""

    before = """
        z = Sub(y, c: const f32)     {act: any = act}
    """
    after = """
        z = Add(y, d)                {act: act}
    """

    def constants(self, c: Array) -> dict[str, Array]:
        return {"d": -c}


class _Quotient(_Normalized):
    """y / c  ==  y * (1 / c)."""

    shifts = False

    before = """
        z = Div(y, c: const f32)     {act: any = act}
    """
    after = """
        z = Mul(y, d)                {act: act}
    """

    def constants(self, c: Array) -> dict[str, Array]:
        return {"d": np.asarray(1 / c)}


class _DifferenceFromConstant(_Normalized):
    """c - y  ==  y * (-1) + c; one operator more, so only where both can be absorbed at once."""

    any_axis = False

    before = """
        z = Sub(c: const f32, y)     {act: any = act}
    """
    after = """
        m = Mul(y, d)
        z = Add(m, c)                {act: act}
    """

    def constants(self) -> dict[str, Array]:
        return {"d": np.asarray(-1, np.float32)}


class NormalizeBatchNorm(Rules):
    """Behind a convolution or a fully connected layer, write x - c and x / c as sums and products.

    The fuse passes then absorb (x - mean) / sqrt(variance + epsilon) * gamma + beta with constant statistics,
    one operator after the other, in whatever order an exporter has written it.
    """

    name = "normalize_batchnorm"
    rules = (_Difference, _Quotient, _DifferenceFromConstant)
