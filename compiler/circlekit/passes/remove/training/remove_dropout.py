# SPDX-License-Identifier: Apache-2.0
"""Remove the dropout that training leaves in a model."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from circlekit.ir.graph import Model
from circlekit.ir.value import Array
from circlekit.ops.arithmetic.division import Div
from circlekit.ops.arithmetic.random_ops import Multinomial, RandomStandardNormal, RandomUniform
from circlekit.rewrite.base import Context
from circlekit.rewrite.match import Match
from circlekit.rewrite.rewrite import Rewrite, Rules, condition


class _Masked(Rewrite):
    """x * factor, masked by random >= rate  becomes  x, its mean; factor is 1 / (1 - rate)."""

    changes_values = True

    before = """
        r = RandomUniform(shape)                {seed: any, seed2: any}
        g = GreaterEqual|Greater(r, rate: const f32[*, 1])
        $mask
    """
    after = "x"

    @condition
    def keeps_the_mean(self, rate: Array, factor: Array) -> str | None:
        return mean_refusal(1 - float(rate.reshape(-1)[0]), float(factor.reshape(-1)[0]))


class _Floored(Rewrite):
    """x / keep * floor(random + keep)  becomes  x, its mean: the form of TensorFlow 1."""

    changes_values = True

    before = """
        r = RandomUniform(shape)                {seed: any, seed2: any}
        a = Add(r, keep: const f32[*, 1])
        m = Floor(a)
        s = Div|Mul(x: f32, factor: const f32[*, 1])
        z = Mul(s, m)
    """
    after = "x"

    @condition
    def keeps_the_mean(self, match: Match, keep: Array, factor: Array) -> str | None:
        scale = float(factor.reshape(-1)[0])
        if isinstance(match.ops["s"], Div):
            scale = 1 / (scale or np.nan)
        return mean_refusal(float(keep.reshape(-1)[0]), scale)


def mean_refusal(kept: float, scale: float) -> str | None:
    """Refuse unless keeping a part of ``kept`` of the elements, multiplied by ``scale``, keeps the mean."""
    if abs(kept * scale - 1) < 1e-5:
        return None
    return (
        f"expected a factor of {1 / kept if kept else np.inf:g} for the kept part of {kept:g}, got {scale:g}"
    )


CAST = "m = Cast(g)   {in_data_type: any, out_data_type: any}"
MASKS = (
    f"{CAST}\n        s = Mul(x: f32, factor: const f32[*, 1])\n        z = Mul(s, m)",
    "s = Mul(x: f32, factor: const f32[*, 1])\n        z = SelectV2|Select(g, s, 0.0)",
    f"{CAST}\n        s = Mul(x: f32, m)\n        z = Mul(s, factor: const f32[*, 1])",
)


class RemoveDropout(Rules):
    """Replace dropout, which has no use after training, by its operand: the mean of its result."""

    name = "remove_dropout"
    changes_values = True
    rules = (*(_Masked.member(mask=mask) for mask in MASKS), _Floored)

    @classmethod
    def notes(cls, model: Model, context: Context, changes: int | None) -> Iterable[str]:
        for op in model.ops():
            if isinstance(op, RandomUniform | RandomStandardNormal | Multinomial):
                found = f"{op.code} %{op.output.name} gives other numbers in every run"
                yield f"{found}; if it is dropout left from training: --remove_dropout"
