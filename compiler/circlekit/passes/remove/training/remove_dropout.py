# SPDX-License-Identifier: Apache-2.0
"""Dropout that training has left behind."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from circlekit.ir.graph import Model
from circlekit.ir.value import Array
from circlekit.ops.arithmetic.random_ops import Multinomial, RandomStandardNormal, RandomUniform
from circlekit.rewrite.base import Context
from circlekit.rewrite.rewrite import Rewrite, Rules, condition

RANDOM = """
        r = RandomUniform(shape)                {seed: any, seed2: any}
        g = GreaterEqual|Greater(r, rate: const f32[*, 1])
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
        return not_the_mean(1 - float(rate.reshape(-1)[0]), float(factor.reshape(-1)[0]))


class Selected(Masked):
    """select(random >= rate, x / (1 - rate), 0)  becomes  x, likewise."""

    before = f"""
        {RANDOM}
        s = Mul(x: f32, factor: const f32[*, 1])
        z = SelectV2|Select(g, s, 0.0)
    """


class MaskedFirst(Masked):
    """x * (random >= rate) * (1 / (1 - rate))  becomes  x, likewise."""

    before = f"""
        {RANDOM}
        m = Cast(g)                             {{in_data_type: any, out_data_type: any}}
        s = Mul(x: f32, m)
        z = Mul(s, factor: const f32[*, 1])
    """


class Floored(Masked):
    """x / keep * floor(random + keep)  becomes  x: the form of TensorFlow 1."""

    before = """
        r = RandomUniform(shape)                {seed: any, seed2: any}
        a = Add(r, keep: const f32[*, 1])
        m = Floor(a)
        s = Div(x: f32, factor: const f32[*, 1])
        z = Mul(s, m)
    """

    @condition
    def keeps_the_mean(self, keep: Array, factor: Array) -> str | None:
        return not_the_mean(float(keep.reshape(-1)[0]), 1 / float(factor.reshape(-1)[0] or np.nan))


class FlooredAndMultiplied(Floored):
    """x * (1 / keep) * floor(random + keep)  becomes  x, likewise."""

    before = Floored.before.replace("Div(", "Mul(")

    @condition
    def keeps_the_mean(self, keep: Array, factor: Array) -> str | None:
        return not_the_mean(float(keep.reshape(-1)[0]), float(factor.reshape(-1)[0]))


def not_the_mean(kept: float, scaled: float) -> str | None:
    """Why a part of ``kept``, multiplied by ``scaled``, does not give the mean of all."""
    if abs(kept * scaled - 1) < 1e-5:
        return None
    return f"a part of {kept:g} is kept and multiplied by {scaled:g}, which is no dropout"


class RemoveDropout(Rules):
    """Dropout, which a model in use should not have, becomes its operand: what it gives on average."""

    name = "remove_dropout"
    changes_values = True
    rules = (Masked, Selected, MaskedFirst, Floored, FlooredAndMultiplied)

    @classmethod
    def notes(cls, model: Model, context: Context, changes: int | None) -> Iterable[str]:
        for op in model.ops():
            if isinstance(op, RandomUniform | RandomStandardNormal | Multinomial):
                found = f"{op.code} %{op.output.name} gives other numbers in every run"
                yield f"{found}; if it is what dropout in training has left: --remove_dropout"
