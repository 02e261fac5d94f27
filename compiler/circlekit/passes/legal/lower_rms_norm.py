# SPDX-License-Identifier: Apache-2.0
"""Lower RMS_NORM, which TFLite lacks, to operators that it has."""

from __future__ import annotations

import numpy as np

from circlekit.ir.value import Array, Value
from circlekit.passes.engine.legalize import Lowering
from circlekit.passes.support.conditions import all_equal
from circlekit.rewrite.match import Match
from circlekit.rewrite.rewrite import condition


class _Lowered(Lowering):
    """Base of both forms."""

    def constants(self, x: Value, epsilon: float) -> dict[str, Array]:
        return {"eps": np.asarray(epsilon, x.dtype.numpy)}


class LowerPlainRmsNorm(_Lowered):
    """x * rsqrt(mean(x * x) + epsilon), where gamma is all ones."""

    targets = frozenset({"tflite"})

    before = """
        y = RmsNorm(x, gamma: const)    {epsilon: any = epsilon}
    """
    after = """
        q = Square(x)
        m = Mean(q, [-1])               {keep_dims: true}
        e = Add(m, eps)
        r = Rsqrt(e)
        y = Mul(x, r)
    """

    @condition
    def only_ones(self, match: Match) -> str | None:
        gamma = match.value("gamma")
        return all_equal(gamma.array(), 1, gamma.name)


class LowerRmsNorm(_Lowered):
    """x * rsqrt(mean(x * x) + epsilon) * gamma."""

    targets = frozenset({"tflite"})

    before = """
        y = RmsNorm(x, gamma)           {epsilon: any = epsilon}
    """
    after = """
        q = Square(x)
        m = Mean(q, [-1])               {keep_dims: true}
        e = Add(m, eps)
        r = Rsqrt(e)
        n = Mul(x, r)
        y = Mul(n, gamma)
    """
