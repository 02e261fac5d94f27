# SPDX-License-Identifier: Apache-2.0
"""An offset per channel before a convolution without a border, carried through its filter."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from circlekit.ir.enums import Padding
from circlekit.ir.value import Array, Value
from circlekit.passes.support.channels import behind, fold_bias, not_along_channels, per_channel
from circlekit.passes.support.conditions import keeps_shape
from circlekit.rewrite.match import Match
from circlekit.rewrite.rewrite import Rewrite, Rules, condition


class _Before(Rewrite):
    """conv(x + c, w) + b  ==  conv(x, w) + (b + sum of w * c), where every tap meets data."""

    spread: ClassVar[tuple[str, ...]] = ("a",)
    sign: ClassVar[float] = 1

    before = """
        a = Add(x: f32[_, _, _, I], c: const f32[*, I|1])
        z = Conv2D(a, w: const f32[O, _, _, I], b?: const f32[*, O])        {padding: any = padding}
    """
    after = """
        z = Conv2D(x, w, b2)            {like z, padding: padding}
    """

    @condition
    def does_not_widen(self, match: Match) -> str | None:
        return keeps_shape(match.value("x"), match.value("c"))

    @condition
    def has_no_border(self, w: Array, z: Value, padding: Padding) -> str | None:
        if padding is Padding.VALID or w.shape[1:3] == (1, 1):
            return None
        return f"%{z.name}: padding is SAME, the border of zeros would lack the offset"

    def constants(self, w: Array, c: Array, I: int, b: Array | None) -> dict[str, Array]:
        offset = self.sign * per_channel(c, I).astype(np.float64)
        sums = (w.astype(np.float64) * offset).sum((1, 2, 3)).astype(w.dtype)
        return {"b2": fold_bias(b, None, sums)}


class _BeforeDepthwise(_Before):
    """The same, each channel being read by as many filters as the multiplier says."""

    before = """
        a = Add(x: f32[_, _, _, I], c: const f32[*, I|1])
        z = DepthwiseConv2D(a, w: const f32[1, _, _, O], b?: const f32[*, O])   {padding: any = padding}
    """
    after = """
        z = DepthwiseConv2D(x, w, b2)   {like z, padding: padding}
    """

    def constants(self, w: Array, c: Array, I: int, b: Array | None) -> dict[str, Array]:
        offset = self.sign * per_channel(c, I).astype(np.float64).repeat(w.shape[3] // I)
        sums = (w.astype(np.float64) * offset).sum((0, 1, 2)).astype(w.dtype)
        return {"b2": fold_bias(b, None, sums)}


class _Minus(_Before):
    """conv(x - c, w) + b  ==  conv(x, w) + (b - sum of w * c)."""

    sign = -1
    before = _Before.before.replace("Add", "Sub")


class _MinusDepthwise(_BeforeDepthwise):
    """The same with filters of one channel."""

    sign = -1
    before = _BeforeDepthwise.before.replace("Add", "Sub")


class _BeforeTranspose(_Before):
    """conv(transpose(x + c), w)  ==  conv(transpose(x), w) + sum of w * c, for images with channels first."""

    spread = ()

    before = """
        a = Add(x: f32, c: const f32)
        t = Transpose(a, perm: const)
        z = Conv2D(t, w: const f32[O, _, _, I], b?: const f32[*, O])        {padding: any = padding}
    """
    after = """
        y = Transpose(x, perm)
        z = Conv2D(y, w, b2)            {like z, padding: padding}
    """

    @condition
    def one_a_channel(self, match: Match, c: Array, perm: Array) -> str | None:
        return not_along_channels(c, perm, match.value("c").name)

    def constants(  # type: ignore[override]  # parameters are given by name
        self, w: Array, c: Array, I: int, b: Array | None, perm: Array
    ) -> dict[str, Array]:
        return super().constants(w, behind(c, perm), I, b)


class _MinusTranspose(_BeforeTranspose):
    """conv(transpose(x - c), w)  ==  conv(transpose(x), w) - sum of w * c."""

    sign = -1
    before = _BeforeTranspose.before.replace("Add", "Sub")


class FuseAddToConvBias(Rules):
    """conv(x + c, w) + b  ==  conv(x, w) + (b + sum of w * c), and with a difference, without padding."""

    name = "fuse_add_to_conv_bias"
    rules = (_Before, _BeforeDepthwise, _Minus, _MinusDepthwise, _BeforeTranspose, _MinusTranspose)
