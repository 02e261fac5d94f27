# SPDX-License-Identifier: Apache-2.0
"""Rewrite batch norms as sums and products that a layer can absorb, or fold them into a layer past a RELU."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from circlekit.ir.value import Array, Value
from circlekit.passes.support.linear_producer import (
    channel_refusal,
    fold_bias,
    has_transpose_before,
    per_channel,
    producer_refusal,
)
from circlekit.rewrite.rewrite import Rewrite, Rules, condition


class _Normalized(Rewrite):
    """Conditions: ``y`` comes from a linear operator; the constant ``c`` has one number, or one per channel.

    A linear operator is a convolution or a fully connected layer; other operators may stand between it and
    ``y``.  ``is_offset``: whether the linear operator has to absorb an offset.
    ``any_axis``: if a Transpose stands between the linear operator and ``y``, whether the numbers of ``c``
    may be along any axis.  Otherwise they must be along the last axis.
    """

    is_offset: ClassVar[bool] = True
    any_axis: ClassVar[bool] = True

    @condition
    def follows_a_linear_operator(self, y: Value) -> str | None:
        """A linear operator before ``y`` can absorb the constant."""
        return producer_refusal(y, self.is_offset)

    @condition
    def is_per_channel(self, c: Array, y: Value) -> str | None:
        """``c`` has one number, or one for each channel."""
        if self.any_axis and c.size == max(c.shape, default=1) and has_transpose_before(y):
            return None
        return channel_refusal(c, y)


class _Difference(_Normalized):
    """y - c  ==  y + (-c)."""

    before = "z = Sub(y, c: const f32)  {act: any = act}"
    after = "z = Add(y, d)  {act: act}"

    def constants(self, c: Array) -> dict[str, Array]:
        return {"d": -c}


class _Quotient(_Normalized):
    """y / c  ==  y * (1 / c)."""

    is_offset = False

    before = "z = Div(y, c: const f32)  {act: any = act}"
    after = "z = Mul(y, d)  {act: act}"

    def constants(self, c: Array) -> dict[str, Array]:
        return {"d": np.asarray(1 / c)}


class _DifferenceFromConstant(_Normalized):
    """c - y  ==  y * (-1) + c: one operator more, which pays only if a layer absorbs both."""

    any_axis = False  # the stricter condition, because an operator is added

    before = "z = Sub(c: const f32, y)  {act: any = act}"
    after = """
        m = Mul(y, d)
        z = Add(m, c)                {act: act}
    """

    def constants(self) -> dict[str, Array]:
        return {"d": np.asarray(-1, np.float32)}


class NormalizeBatchNorm(Rules):
    """y - c  ==  y + (-c), c - y  ==  y * (-1) + c, y / c  ==  y * (1 / c), if y comes from a layer.

    c is a constant of one number, or one per channel.  A batch norm is
    (x - mean) / sqrt(variance + epsilon) * gamma + beta with constant mean and variance.  Later passes fold
    only sums and products into a layer, one after the other.
    """

    name = "normalize_batchnorm"
    rules = (_Difference, _Quotient, _DifferenceFromConstant)


class IntoConvBefore(Rewrite):
    """relu(conv(x, w) * gamma + beta)  ==  relu(conv(x, w * gamma) + beta).

    The RELU, which was a fused activation, becomes an operator.
    """

    before = """
        c = Conv2D(x: f32, w: const f32[C, _, _, _], b?: const f32[*, C])
        m = Mul(c, gamma: const f32[*, C|1])
        z = Add(m, beta: const f32[*, C|1])         {act: RELU}
    """
    after = """
        d = Conv2D(x, w2, b2)                       {like c, act: NONE}
        z = Relu(d)
    """

    def constants(self, w: Array, gamma: Array, beta: Array, C: int, b: Array | None) -> dict[str, Array]:
        g = per_channel(gamma, C)
        return {"w2": w * g[:, None, None, None], "b2": fold_bias(b, g, per_channel(beta, C))}


class ThroughMaxPool(IntoConvBefore):
    """relu(pool(conv(x, w)) * gamma + beta)  ==  relu(pool(conv(x, w * gamma) + beta)), if gamma >= 0.

    ``pool`` is a max pool.
    """

    before = """
        c = Conv2D(x: f32, w: const f32[C, _, _, _], b?: const f32[*, C])
        p = MaxPool2D(c)
        m = Mul(p, gamma: const f32[*, C|1])
        z = Add(m, beta: const f32[*, C|1])         {act: RELU}
    """
    after = """
        d = Conv2D(x, w2, b2)                       {like c, act: NONE}
        q = MaxPool2D(d)                            {like p, act: NONE}
        z = Relu(q)
    """

    @condition
    def keeps_the_order(self, gamma: Array) -> str | None:
        """No factor is negative."""
        if (gamma >= 0).all():
            return None
        return "expected no negative factor, which would turn the maxima into minima"


class IntoConvAfter(Rewrite):
    """conv(relu(x * gamma + beta), w)  ==  conv(relu(x + beta / gamma), w * gamma), if gamma > 0."""

    before = """
        m = Mul(x: f32[_, _, _, C], gamma: const f32[*, C|1])
        r = Add(m, beta: const f32[*, C|1])         {act: RELU}
        z = Conv2D(r, w: const f32[_, _, _, C], b?)
    """
    after = """
        s = Add(x, shift)                           {like r}
        z = Conv2D(s, w2, b)                        {like z}
    """

    @condition
    def positive(self, gamma: Array) -> str | None:
        """All factors are positive."""
        if (gamma > 0).all():
            return None
        return "expected only positive factors: others do not commute with RELU"

    def constants(self, w: Array, gamma: Array, beta: Array, C: int) -> dict[str, Array]:
        g = per_channel(gamma, C)
        return {"w2": w * g, "shift": per_channel(beta, C) / g}


class IntoConvAfterMean(IntoConvAfter):
    """conv(mean(relu(x * gamma + beta)), w)  ==  conv(mean(relu(x + beta / gamma)), w * gamma), if gamma > 0.

    The mean is over other axes than the channels, such as those of the image.
    """

    before = """
        m = Mul(x: f32[_, _, _, C], gamma: const f32[*, C|1])
        r = Add(m, beta: const f32[*, C|1])         {act: RELU}
        p = Mean(r, axes: const)                    {keep_dims: true}
        z = Conv2D(p, w: const f32[_, _, _, C], b?)
    """
    after = """
        s = Add(x, shift)                           {like r}
        q = Mean(s, axes)                           {keep_dims: true}
        z = Conv2D(q, w2, b)                        {like z}
    """


class FusePreActivationBatchNorm(Rules):
    """Fold factors and offsets before a RELU into a convolution before or after it.

    A convolution before the RELU absorbs both.  A convolution after the RELU absorbs only the factors, which
    must be positive; the offsets, divided by the factors, stay.
    """

    name = "fuse_preactivation_batchnorm"
    rules = (IntoConvBefore, ThroughMaxPool, IntoConvAfter, IntoConvAfterMean)


class MakeBatchNormGammaPositive(Rewrite):
    """Replace each negative gamma in relu(x * gamma + beta) by 1e-10: its channel becomes about relu(beta).

    The pass ``fuse_preactivation_batchnorm`` can then move gamma past the RELU, for which gamma must be
    positive.  A gamma of 0 is not replaced, so it still prevents the move.
    """

    name = "make_batchnorm_gamma_positive"
    changes_values = True

    before = """
        m = Mul(x: f32[_, _, _, C], gamma: const f32[*, C])
        z = Add(m, beta: const f32[*, C])           {act: RELU}
    """
    after = """
        p = Mul(x, positive)
        z = Add(p, beta)                            {like z}
    """

    @condition
    def some_negative(self, gamma: Array) -> str | None:
        """At least one factor is negative."""
        return None if (gamma < 0).any() else "expected a negative factor"

    def constants(self, gamma: Array) -> dict[str, Array]:
        return {"positive": np.where(gamma < 0, np.float32(1e-10), gamma)}
