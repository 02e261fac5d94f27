# SPDX-License-Identifier: Apache-2.0
"""Dropout that training has left behind."""

from __future__ import annotations

from circlekit.ir.value import Array
from circlekit.rewrite.rewrite import Rewrite, Rules, condition

RANDOM = """
        r = RandomUniform(shape)                {seed: any, seed2: any}
        g = GreaterEqual(r, rate: const f32[*, 1])
"""


class Masked(Rewrite):
    """x / (1 - rate) * (random >= rate)  becomes  x, which is its mean."""

    changes_values = True

    before = f"""
        {RANDOM}
        m = Cast(g)                             {{in_data_type: any, out_data_type: any}}
        s = Mul(x: f32, factor: const f32[*, 1])
        z = Mul(s, m)
    """
    after = "x"

    @condition
    def keeps_the_mean(self, rate: Array, factor: Array) -> str | None:
        kept, scaled = 1 - float(rate.reshape(-1)[0]), float(factor.reshape(-1)[0])
        if abs(kept * scaled - 1) < 1e-5:
            return None
        return f"a part of {kept:g} is kept and multiplied by {scaled:g}, which is no dropout"


class Selected(Masked):
    """select(random >= rate, x / (1 - rate), 0)  becomes  x, likewise."""

    before = f"""
        {RANDOM}
        s = Mul(x: f32, factor: const f32[*, 1])
        z = SelectV2|Select(g, s, 0.0)
    """


class RemoveDropout(Rules):
    """Dropout, which a model in use should not have, becomes its operand: what it gives on average."""

    name = "remove_dropout"
    changes_values = True
    rules = (Masked, Selected)
