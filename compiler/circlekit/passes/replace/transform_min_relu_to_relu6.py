# SPDX-License-Identifier: Apache-2.0
"""RELU6 written with MINIMUM and RELU."""

from __future__ import annotations

from circlekit.rewrite.rewrite import Rewrite, Rules


class MinThenRelu(Rewrite):
    """The upper bound first."""

    before = """
        m = Minimum(x: f32, 6.0)
        z = Relu(m)
    """
    after = "z = Relu6(x)"


class ReluThenMin(Rewrite):
    """The lower bound first."""

    before = """
        m = Relu(x: f32)
        z = Minimum(m, 6.0)
    """
    after = "z = Relu6(x)"


class TransformMinReluToRelu6(Rules):
    """relu(min(x, 6))  ==  relu6(x)."""

    name = "transform_min_relu_to_relu6"
    rules = (MinThenRelu, ReluThenMin)
