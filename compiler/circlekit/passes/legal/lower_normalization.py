# SPDX-License-Identifier: Apache-2.0
"""Lower INSTANCE_NORM and RMS_NORM, which TFLite lacks, to operators that it has."""

from __future__ import annotations

from typing import Any

import numpy as np

from circlekit.ir.value import Array, Value
from circlekit.passes.engine.legalize import Lowering
from circlekit.passes.support.conditions import all_equal
from circlekit.rewrite.match import Match
from circlekit.rewrite.rewrite import condition


class LowerInstanceNorm(Lowering):
    """(x - mean(x)) * rsqrt(mean((x - mean(x))^2) + epsilon) * gamma + beta, channels last (NHWC)."""

    targets = frozenset({"tflite"})

    before = """
        y = InstanceNorm(x: [_, _, _, _], gamma, beta)      {epsilon: any = epsilon, act: any = act}
    """
    after = """
        m = Mean(x, [1, 2])                 {keep_dims: true}
        d = SquaredDifference(x, m)
        v = Mean(d, [1, 2])                 {keep_dims: true}
        e = Add(v, eps)
        r = Rsqrt(e)
        s = Mul(r, gamma)
        c = Sub(x, m)
        n = Mul(c, s)
        y = Add(n, beta)                    {act: act}
    """

    def constants(self, x: Value, epsilon: float) -> dict[str, Any]:
        return {"eps": np.asarray(epsilon, x.dtype.numpy)}


class LowerInstanceNormNcw(Lowering):
    """The same for rank 3, where the channels are axis 1."""

    targets = frozenset({"tflite"})

    before = """
        y = InstanceNorm(x: [_, _, _], gamma, beta)         {epsilon: any = epsilon, act: any = act}
    """
    after = """
        m = Mean(x, [2])                    {keep_dims: true}
        d = SquaredDifference(x, m)
        v = Mean(d, [2])                    {keep_dims: true}
        e = Add(v, eps)
        r = Rsqrt(e)
        g = Reshape(gamma, column)          {new_shape: new_shape}
        s = Mul(r, g)
        c = Sub(x, m)
        n = Mul(c, s)
        b = Reshape(beta, column)           {new_shape: new_shape}
        y = Add(n, b)                       {act: act}
    """

    def constants(self, x: Value, epsilon: float) -> dict[str, Any]:
        column = (-1, 1)
        return {
            "eps": np.asarray(epsilon, x.dtype.numpy),
            "column": np.asarray(column, np.int32),
            "new_shape": column,
        }


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
