# SPDX-License-Identifier: Apache-2.0
"""Recognize the reciprocal of a square root."""

from __future__ import annotations

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
    """The same for quantized int16, rounded once instead of twice; no runtime has SQRT for these."""

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
        parameters = one.quantization
        assert parameters is not None  # one_scale_each has checked it
        zero = int(parameters.zero_point[0]) if parameters.zero_point.size else 0
        real = float(parameters.scale[0]) * (int(one.array().reshape(-1)[0]) - zero)
        return None if abs(real - 1) < 1e-6 else f"%{one.name}: expected 1, got {real:g}"


class FuseRsqrt(Rules):
    """1 / sqrt(x)  ==  rsqrt(x), for float32 and quantized int16."""

    name = "fuse_rsqrt"
    rules = (OfFloat, OfInt16)
