# SPDX-License-Identifier: Apache-2.0
"""Lower INSTANCE_NORM, which TFLite lacks, to operators that it has."""

from __future__ import annotations

from typing import Any

import numpy as np

from circlekit.ir.value import Value
from circlekit.passes.engine.legalize import Lowering


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
