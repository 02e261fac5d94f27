# SPDX-License-Identifier: Apache-2.0
"""Fold per-channel sums and products before a convolution or fully connected layer into its constants."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from circlekit.ir.enums import Padding
from circlekit.ir.value import Array, Value, format_shape
from circlekit.ops.arithmetic.binary import Sub
from circlekit.ops.arithmetic.division import Div
from circlekit.ops.convolution.conv import DepthwiseConv2D
from circlekit.passes.support.conditions import keeps_shape
from circlekit.passes.support.linear_producer import (
    fold_bias,
    per_channel,
    transposed_constant,
)
from circlekit.rewrite.match import Match
from circlekit.rewrite.rewrite import Rewrite, Rules, condition


class BeforeLinear(Rewrite):
    """Arithmetic with a constant ``c`` before a linear operator; it must not broadcast its operand ``x``."""

    @condition
    def does_not_broadcast_x(self, match: Match) -> str | None:
        return keeps_shape(match.value("x"), match.value("c"))


class _TransposedInput(BeforeLinear):
    """The same through a Transpose, as where images are stored with channels first."""

    @condition
    def one_per_channel(self, match: Match, c: Array, perm: Array) -> str | None:
        """The constant varies only along the axis that the Transpose moves to the end."""
        if c.ndim <= perm.size == 4 and transposed_constant(c, perm).shape[:3] == (1, 1, 1):
            return None
        name, shape = match.value("c").name, format_shape(c.shape)
        return f"%{name}: expected one number per channel behind the Transpose, got shape {shape}"


CONV = {"layer": "Conv2D", "call": "conv", "filter": "[O, _, _, I]"}
DEPTHWISE = {"layer": "DepthwiseConv2D", "call": "dwconv", "filter": "[1, _, _, O]"}


def _for_filter(values: Array, w: Array) -> Array:
    """``values`` per input channel for each index of the last axis of ``w``, with a channel multiplier."""
    return values.repeat(w.shape[3] // max(values.size, 1))


# -- sums and differences ----------------------------------------------------------------------


class _AddConv(BeforeLinear):
    """$call(x + c, w) + b  ==  $call(x, w) + (b + sum(w * c)); with a difference, minus that sum."""

    spread: ClassVar[tuple[str, ...]] = ("a",)

    before = """
        a = Add|Sub(x: f32[_, _, _, I], c: const f32[*, I|1])
        z = $layer(a, w: const f32$filter, b?: const f32[*, O])    {padding: any = padding}
    """
    after = "z = $layer(x, w, b2)  {like z, padding: padding}"

    @condition
    def has_no_border(self, w: Array, z: Value, padding: Padding) -> str | None:
        """No window may reach into the padding, whose zeros do not get the offset."""
        if padding is Padding.VALID or w.shape[1:3] == (1, 1):
            return None
        return f"%{z.name}: expected VALID padding, got SAME, whose border of zeros does not get the offset"

    def constants(self, match: Match, w: Array, c: Array, I: int, b: Array | None) -> dict[str, Array]:
        offset = per_channel(c, I).astype(np.float64)
        if isinstance(match.ops["a"], Sub):
            offset = -offset
        axes = (0, 1, 2) if isinstance(match.ops["z"], DepthwiseConv2D) else (1, 2, 3)
        sums = (w.astype(np.float64) * _for_filter(offset, w)).sum(axes)
        return {"b2": fold_bias(b, None, sums.astype(w.dtype))}


class _AddTransposeConv(_AddConv, _TransposedInput):
    """conv(transpose(x + c), w)  ==  conv(transpose(x), w) + sum(w * c)."""

    spread = ()

    before = """
        a = Add|Sub(x: f32, c: const f32)
        t = Transpose(a, perm: const)
        z = Conv2D(t, w: const f32[O, _, _, I], b?: const f32[*, O])    {padding: any = padding}
    """
    after = """
        y = Transpose(x, perm)
        z = Conv2D(y, w, b2)            {like z, padding: padding}
    """

    def constants(self, match: Match, w: Array, c: Array, I: int, b: Array | None) -> dict[str, Array]:
        return super().constants(match, w, transposed_constant(c, match.value("perm").array()), I, b)


class FuseAddToConvBias(Rules):
    """conv(x + c, w) + b  ==  conv(x, w) + (b + sum(w * c)), and the same for x - c; without padding."""

    name = "fuse_add_to_conv_bias"
    rules = (_AddConv.member(**CONV), _AddConv.member(**DEPTHWISE), _AddTransposeConv)


class FuseAddToFullyConnectedBias(BeforeLinear):
    """fc(x + c, w, b)  ==  fc(x, w, fc(c, w, b)); fold_constants computes the inner layer."""

    name = "fuse_add_to_fullyconnected_bias"
    spread = ("a",)

    before = """
        a = Add(x: f32, c: const f32[*, I|1])
        z = FullyConnected(a, w: const f32[O, I], b?: const f32[*, O])     {weights_format: DEFAULT}
    """
    after = """
        s = FullyConnected(row, w, b)   {keep_num_dims: true}
        z = FullyConnected(x, w, s)     {like z}
    """

    def constants(self, c: Array, I: int) -> dict[str, Array]:
        return {"row": per_channel(c, I)}


# -- products and quotients --------------------------------------------------------------------


class _MulConv(BeforeLinear):
    """$call(x * c, w)  ==  $call(x, w * c), and the same for x / c; zeros of the padding stay zeros."""

    spread: ClassVar[tuple[str, ...]] = ("m",)

    before = """
        m = Mul|Div(x: f32[_, _, _, I], c: const f32[*, I|1])
        z = $layer(m, w: const f32$filter, b?)
    """
    after = "z = $layer(x, w2, b)  {like z}"

    def constants(self, match: Match, w: Array, c: Array, I: int) -> dict[str, Array]:
        factor = per_channel(c, I)
        if isinstance(match.ops["m"], Div):
            factor = 1 / factor
        return {"w2": w * _for_filter(factor, w)}


class _MulTransposeConv(_MulConv, _TransposedInput):
    """conv(transpose(x * c), w)  ==  conv(transpose(x), w * c)."""

    spread = ()

    before = """
        m = Mul|Div(x: f32, c: const f32)
        t = Transpose(m, perm: const)
        z = Conv2D(t, w: const f32[O, _, _, I], b?)
    """
    after = """
        y = Transpose(x, perm)
        z = Conv2D(y, w2, b)            {like z}
    """

    def constants(self, match: Match, w: Array, c: Array, I: int) -> dict[str, Array]:
        return super().constants(match, w, transposed_constant(c, match.value("perm").array()), I)


class FuseMulToConvWeights(Rules):
    """conv(x * c, w)  ==  conv(x, w * c), and the same for x / c, as where images are normalized."""

    name = "fuse_mul_to_conv_weights"
    rules = (_MulConv.member(**CONV), _MulConv.member(**DEPTHWISE), _MulTransposeConv)


class FuseMulToFullyConnectedWeights(BeforeLinear):
    """fc(x * c, w)  ==  fc(x, w * c)."""

    name = "fuse_mul_to_fullyconnected_weights"
    spread = ("m",)

    before = """
        m = Mul(x: f32, c: const f32[*, I|1])
        z = FullyConnected(m, w: const f32[O, I], b?: const f32[*, O])     {weights_format: DEFAULT}
    """
    after = "z = FullyConnected(x, w2, b)  {like z}"

    def constants(self, w: Array, c: Array, I: int) -> dict[str, Array]:
        return {"w2": w * per_channel(c, I)}
