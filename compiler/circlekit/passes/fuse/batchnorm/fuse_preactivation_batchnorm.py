# SPDX-License-Identifier: Apache-2.0
"""Fold a batch norm that stands between a convolution and a RELU, as in ResNet V2."""

from __future__ import annotations

import numpy as np

from circlekit.ir.value import Array
from circlekit.ops.dimensions import normalized_axis
from circlekit.passes.support.channels import fold_bias, per_channel
from circlekit.rewrite.rewrite import Rewrite, Rules, condition


class IntoConvBefore(Rewrite):
    """relu(conv(x, w) * gamma + beta)  ==  relu(conv(x, w * gamma) + beta), with a separate RELU."""

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
    """The same with a max pool behind the convolution; no factor may be negative."""

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
        if (gamma >= 0).all():
            return None
        return "expected no negative factor, which would turn the maxima into minima"


class IntoConvBehind(Rewrite):
    """conv(relu(x * gamma + beta), w)  ==  conv(relu(x + beta / gamma), w * gamma) for gamma > 0."""

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
        if (gamma > 0).all():
            return None
        return "expected only positive factors: others do not commute with RELU"

    def constants(self, w: Array, gamma: Array, beta: Array, C: int) -> dict[str, Array]:
        g = per_channel(gamma, C)
        with np.errstate(over="ignore"):
            return {"w2": w * g, "shift": per_channel(beta, C) / g}


class IntoConvBehindMean(IntoConvBehind):
    """The same with a mean over the image between the RELU and the convolution."""

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

    @condition
    def keeps_channels(self, axes: Array) -> str | None:
        reduced = {normalized_axis(int(a), 4) for a in axes.reshape(-1)}
        return "expected a mean over the image, got one over the channels too" if 3 in reduced else None


class FusePreActivationBatchNorm(Rules):
    """Fold the factors and offsets between a convolution, a RELU and a convolution into one of the two."""

    name = "fuse_preactivation_batchnorm"
    rules = (IntoConvBefore, ThroughMaxPool, IntoConvBehind, IntoConvBehindMean)
