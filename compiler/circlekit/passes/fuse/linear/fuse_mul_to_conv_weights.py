# SPDX-License-Identifier: Apache-2.0
"""A factor per channel before a convolution, carried into its filter."""

from __future__ import annotations

from typing import ClassVar

from circlekit.ir.value import Array
from circlekit.passes.support.channels import behind, not_along_channels, per_channel
from circlekit.passes.support.conditions import keeps_shape
from circlekit.rewrite.match import Match
from circlekit.rewrite.rewrite import Rewrite, Rules, condition


class _Before(Rewrite):
    """conv(x * c, w)  ==  conv(x, w * c): a border of zeros stays one."""

    spread: ClassVar[tuple[str, ...]] = ("m",)

    before = """
        m = Mul(x: f32[_, _, _, I], c: const f32[*, I|1])
        z = Conv2D(m, w: const f32[O, _, _, I], b?)
    """
    after = """
        z = Conv2D(x, w2, b)            {like z}
    """

    @condition
    def does_not_widen(self, match: Match) -> str | None:
        return keeps_shape(match.value("x"), match.value("c"))

    def constants(self, w: Array, c: Array, I: int) -> dict[str, Array]:
        return {"w2": w * self.factor(per_channel(c, I))}

    def factor(self, c: Array) -> Array:
        return c


class _BeforeDepthwise(_Before):
    """The same, each channel being read by as many filters as the multiplier says."""

    before = """
        m = Mul(x: f32[_, _, _, I], c: const f32[*, I|1])
        z = DepthwiseConv2D(m, w: const f32[1, _, _, O], b?)
    """
    after = """
        z = DepthwiseConv2D(x, w2, b)   {like z}
    """

    def constants(self, w: Array, c: Array, I: int) -> dict[str, Array]:
        return {"w2": w * self.factor(per_channel(c, I)).repeat(w.shape[3] // I)}


class _Over(_Before):
    """conv(x / c, w)  ==  conv(x, w / c)."""

    before = _Before.before.replace("Mul", "Div")

    def factor(self, c: Array) -> Array:
        return 1 / c


class _OverDepthwise(_BeforeDepthwise):
    """The same with filters of one channel."""

    before = _BeforeDepthwise.before.replace("Mul", "Div")

    def factor(self, c: Array) -> Array:
        return 1 / c


class _BeforeTranspose(_Before):
    """conv(transpose(x * c), w)  ==  conv(transpose(x), w * c), as where images come with channels first."""

    spread = ()

    before = """
        m = Mul(x: f32, c: const f32)
        t = Transpose(m, perm: const)
        z = Conv2D(t, w: const f32[O, _, _, I], b?)
    """
    after = """
        y = Transpose(x, perm)
        z = Conv2D(y, w2, b)            {like z}
    """

    @condition
    def one_a_channel(self, match: Match, c: Array, perm: Array) -> str | None:
        return not_along_channels(c, perm, match.value("c").name)

    def constants(self, w: Array, c: Array, I: int, perm: Array) -> dict[str, Array]:  # type: ignore[override]
        return super().constants(w, behind(c, perm), I)


class _OverTranspose(_BeforeTranspose):
    """conv(transpose(x / c), w)  ==  conv(transpose(x), w / c)."""

    before = _BeforeTranspose.before.replace("Mul", "Div")
    factor = _Over.factor


class FuseMulToConvWeights(Rules):
    """conv(x * c, w)  ==  conv(x, w * c), and with a division, as where images are normalized."""

    name = "fuse_mul_to_conv_weights"
    rules = (_Before, _BeforeDepthwise, _Over, _OverDepthwise, _BeforeTranspose, _OverTranspose)
