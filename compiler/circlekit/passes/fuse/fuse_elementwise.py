# SPDX-License-Identifier: Apache-2.0
"""Merge elementwise operators: NEG and the operator that reads it, 1 / sqrt(x)."""

from __future__ import annotations

import math

from circlekit.ir.value import Array, Value
from circlekit.ops.arithmetic.unary import Neg
from circlekit.ops.quantized_values import scale_of, zero_point_of
from circlekit.passes.support.linear_producer import producer_refusal
from circlekit.rewrite.match import Match
from circlekit.rewrite.rewrite import Rewrite, Rules, condition


class _NegTerm(Rewrite):
    """a $sign (-b)  ==  a $opposite b."""

    # $old, $new: the operators, Add or Sub, that belong to $sign and to $opposite; $negation: the NEG of b

    before = """
        n = $negation
        z = $old(a, n)              {act: any = act}
    """
    after = "z = $new(a, b)  {act: act}"

    @condition
    def is_not_absorbed(self, match: Match, b: Value) -> str | None:
        """``n`` is a NEG, or no layer before ``b`` can absorb the factor -1.

        ``normalize_batchnorm`` makes a MUL by -1 only where a layer can absorb it.
        """
        if isinstance(match.ops["n"], Neg) or producer_refusal(b, is_offset=False) is not None:
            return None
        return f"%{match.value('n').name}: the layer before it can absorb the factor -1"


class _NegProduct(Rewrite):
    """a $sign (-b) * c  ==  a $opposite b * c."""

    before = """
        n = $negation
        m = Mul(n, c)
        z = $old(a, m)              {act: any = act}
    """
    after = """
        p = Mul(b, c)
        z = $new(a, p)              {act: act}
    """


class _NegFactor(Rewrite):
    """(-a) * c  ==  a * (-c) for a constant c."""

    before = """
        n = Neg(a)
        z = Mul(n, c: const f32)    {act: any = act}
    """
    after = "z = Mul(a, d)  {act: act}"

    def constants(self, c: Array) -> dict[str, Array]:
        return {"d": -c}


NEGATIONS = ("Neg(b)", "Mul(b: f32, -1.0)")
"""The ways to write -b: litert-torch writes a product."""

SIGNS = ({"old": "Add", "new": "Sub", "sign": "+", "opposite": "-"},
         {"old": "Sub", "new": "Add", "sign": "-", "opposite": "+"})  # fmt: skip


class FuseNeg(Rules):
    """Merge NEG or a MUL by -1 into a later ADD or SUB, and NEG into a MUL by a constant; bit-exact."""

    name = "fuse_neg"
    rules = (
        *(
            form.member(**words, negation=negation)
            for form in (_NegTerm, _NegProduct)
            for words in SIGNS
            for negation in NEGATIONS
        ),
        _NegFactor,
    )


class _FloatRsqrt(Rewrite):
    """1 / sqrt(x)  ==  rsqrt(x)."""

    before = """
        s = Sqrt(x: f32)
        z = Div(1.0, s)
    """
    after = "z = Rsqrt(x)"


class _Int16Rsqrt(Rewrite):
    """1 / sqrt(x)  ==  rsqrt(x) for quantized int16, as in ONE.

    Of the runtimes, only LiteRT has SQRT and DIV of int16, and its RSQRT makes the rewrite approximate.
    RSQRT interpolates between operands that are 128 integers apart.  Apart from the rounding of the result,
    its relative error grows as the stored integer of x falls: up to 0.1 % for 1024 or more, 0.4 % for 512 or
    more, 1.1 % for 256 or more, 3.3 % for 128 or more.  Below 128, most results are meaningless.  SQRT and
    DIV, if their scales fit, have relative errors of up to 0.4 %.
    """

    quantized = True
    approximate = True

    before = """
        s = Sqrt(x: i16)
        z = Div(one: const i16[*, 1], s)
    """
    after = "z = Rsqrt(x)"

    @condition
    def one_scale_each(self, match: Match) -> str | None:
        for value in map(match.value, ("x", "s", "z", "one")):
            if value.quantization is None or value.quantization.scale.size != 1:
                return f"%{value.name}: expected quantization with one scale"
        return None

    @condition
    def divides_one(self, match: Match) -> str | None:
        one = match.value("one")
        real = float(scale_of(one)) * (int(one.array().reshape(-1)[0]) - zero_point_of(one))
        return None if math.isclose(real, 1, rel_tol=1e-6) else f"%{one.name}: expected 1, got {real:g}"


class FuseRsqrt(Rules):
    """1 / sqrt(x)  ==  rsqrt(x), for float32 and quantized int16."""

    name = "fuse_rsqrt"
    rules = (_FloatRsqrt, _Int16Rsqrt)


class TransformSqrtDivToRsqrtMul(Rewrite):
    """a / sqrt(x)  ==  a * rsqrt(x) for an a that is not constant; for 1 / sqrt(x) see fuse_rsqrt."""

    name = "transform_sqrt_div_to_rsqrt_mul"

    before = """
        s = Sqrt(x: f32)
        z = Div(a, s)           {act: any = act}
    """
    after = """
        r = Rsqrt(x)
        z = Mul(a, r)           {act: act}
    """

    @condition
    def divides_no_constant(self, a: Value) -> str | None:
        return f"%{a.name}: is constant" if a.is_const else None
