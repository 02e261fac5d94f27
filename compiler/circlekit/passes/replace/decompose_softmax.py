# SPDX-License-Identifier: Apache-2.0
"""Decompose SOFTMAX."""

from __future__ import annotations

import numpy as np

from circlekit.ir.value import Array
from circlekit.rewrite.rewrite import Rewrite


class DecomposeSoftmax(Rewrite):
    """softmax(x)  ==  e / sum(e) with e = exp(beta * (x - max(x))), over the last axis."""

    name = "decompose_softmax"

    before = """
        z = Softmax(x: f32)         {beta: any = beta}
    """
    after = """
        m = ReduceMax(x, [-1])      {keep_dims: true}
        d = Sub(x, m)
        b = Mul(d, factor)
        e = Exp(b)
        s = Sum(e, [-1])            {keep_dims: true}
        z = Div(e, s)
    """

    def constants(self, beta: float) -> dict[str, Array]:
        return {"factor": np.asarray(beta, np.float32)}
