# SPDX-License-Identifier: Apache-2.0
"""PRELU in the form that Keras' converter writes."""

from __future__ import annotations

from circlekit.rewrite.rewrite import Rewrite


class FusePRelu(Rewrite):
    """relu(x) + (x - |x|) * alpha * 0.5  ==  prelu(x, alpha)."""

    name = "fuse_prelu"

    before = """
        r = Relu(x: f32)
        n = Abs(x)
        d = Sub(x, n)
        a = Mul(d, alpha: const f32)
        h = Mul(a, 0.5)
        z = Add(r, h)
    """
    after = "z = PRelu(x, alpha)"
