# SPDX-License-Identifier: Apache-2.0
"""A batch norm that is not written as a factor and an offset."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from circlekit.ir.value import Array, Value
from circlekit.passes.support.linear_producer import is_transposed, not_from_product, not_per_channel
from circlekit.rewrite.rewrite import Rewrite, Rules, condition


class _Normalized(Rewrite):
    """What follows a convolution is a sum or a product with a constant, which can be folded into it."""

    shifts: ClassVar[bool] = True
    moves: ClassVar[bool] = True
    """Whether channels may be along another axis, which nobody pays for where nothing comes of it."""

    @condition
    def follows_a_product(self, y: Value) -> str | None:
        return not_from_product(y, self.shifts)

    @condition
    def is_per_channel(self, c: Array, y: Value) -> str | None:
        along_one_axis = c.size == max(c.shape, default=1)
        return None if self.moves and along_one_axis and is_transposed(y) else not_per_channel(c, y)


class _Minus(_Normalized):
    """y - c  ==  y + (-c)."""

    before = """
        z = Sub(y, c: const f32)     {act: any = act}
    """
    after = """
        z = Add(y, d)                {act: act}
    """

    def constants(self, c: Array) -> dict[str, Array]:
        return {"d": -c}


class _Over(_Normalized):
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


class _From(_Normalized):
    """c - y  ==  y * (-1) + c."""

    moves = False

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
    """After a convolution or a fully connected layer, x - c and x / c become sums and products.

    (x - mean) / sqrt(variance + epsilon) * gamma + beta with constant statistics, in any order and however
    it is spread over operators, is then folded by the fuse passes, one operator after the other.
    """

    name = "normalize_batchnorm"
    rules = (_Minus, _Over, _From)
