# SPDX-License-Identifier: Apache-2.0
"""Merge a constant factor and a constant divisor or dividend."""

from __future__ import annotations

from circlekit.ir.value import Array
from circlekit.rewrite.rewrite import Rewrite, Rules


class ConstantOverProduct(Rewrite):
    """c1 / (x * c2)  ==  (c1 / c2) / x; the product stays if it has other users."""

    shared = ("m",)

    before = """
        m = Mul(x, c2: const f32[*, 1])
        z = Div(c1: const f32[*, 1], m)     {act: any = act}
    """
    after = """
        z = Div(c, x)                       {act: act}
    """

    def constants(self, c1: Array, c2: Array) -> dict[str, Array]:
        return {"c": c1 / c2.reshape(c1.shape)}


class ProductOverConstant(Rewrite):
    """(x * c2) / c1  ==  x * (c2 / c1); the product stays if it has other users."""

    shared = ("m",)

    before = """
        m = Mul(x, c2: const f32[*, 1])
        z = Div(m, c1: const f32[*, 1])     {act: any = act}
    """
    after = """
        z = Mul(x, c)                       {act: act}
    """

    def constants(self, c1: Array, c2: Array) -> dict[str, Array]:
        return {"c": c2 / c1.reshape(c2.shape)}


class FuseMulWithDiv(Rules):
    """c1 / (x * c2)  ==  (c1 / c2) / x, and (x * c2) / c1  ==  x * (c2 / c1)."""

    name = "fuse_mul_with_div"
    rules = (ConstantOverProduct, ProductOverConstant)
