# SPDX-License-Identifier: Apache-2.0
"""RELU6 written with MINIMUM and MAXIMUM."""

from __future__ import annotations

from circlekit.rewrite.rewrite import Rewrite, Rules


class MinThenMax(Rewrite):
    """The upper bound first."""

    before = """
        m = Minimum(x: f32, 6.0)
        z = Maximum(m, 0.0)
    """
    after = "z = Relu6(x)"


class MaxThenMin(Rewrite):
    """The lower bound first."""

    before = """
        m = Maximum(x: f32, 0.0)
        z = Minimum(m, 6.0)
    """
    after = "z = Relu6(x)"


class TransformMinMaxToRelu6(Rules):
    """max(min(x, 6), 0)  ==  relu6(x)."""

    name = "transform_min_max_to_relu6"
    rules = (MinThenMax, MaxThenMin)
