# SPDX-License-Identifier: Apache-2.0
"""The reciprocal of a square root."""

from __future__ import annotations

from circlekit.ir.value import Value
from circlekit.rewrite.match import Match
from circlekit.rewrite.rewrite import Rewrite, Rules, condition


class OfFloat(Rewrite):
    """1 / sqrt(x)  ==  rsqrt(x)."""

    before = """
        s = Sqrt(x: f32)
        z = Div(1.0, s)
    """
    after = "z = Rsqrt(x)"


class OfInt16(Rewrite):
    """The same of quantized int16, rounded once, not twice; no runtime has SQRT of these."""

    quantized = True
    approximate = True

    before = """
        s = Sqrt(x: i16)
        z = Div(one: const i16[*, 1], s)
    """
    after = "z = Rsqrt(x)"

    @condition
    def one_scale_each(self, x: Value, s: Value, z: Value) -> str | None:
        for value in (x, s, z):
            if value.quantization is None or value.quantization.scale.size != 1:
                return f"%{value.name}: has no scale, or several"
        return None

    @condition
    def divides_one(self, match: Match) -> str | None:
        one = match.value("one")
        parameters = one.quantization
        if parameters is None or parameters.scale.size != 1:
            return f"%{one.name}: has no scale, or several"
        zero = int(parameters.zero_point[0]) if parameters.zero_point.size else 0
        real = float(parameters.scale[0]) * (int(one.array().reshape(-1)[0]) - zero)
        return None if abs(real - 1) < 1e-6 else f"%{one.name}: is {real:g}, 1 is wanted"


class FuseRsqrt(Rules):
    """1 / sqrt(x)  ==  rsqrt(x), of float32 and of quantized int16."""

    name = "fuse_rsqrt"
    rules = (OfFloat, OfInt16)
