# SPDX-License-Identifier: Apache-2.0
"""Recognize RELU6, written with MINIMUM and MAXIMUM or RELU."""

from __future__ import annotations

from circlekit.rewrite.rewrite import Rewrite, Rules


class _Clamp(Rewrite):
    """$first, then $second  ==  relu6(x)."""

    before = """
        m = $first
        z = $second
    """
    after = "z = Relu6(x)"


class TransformMinMaxToRelu6(Rules):
    """max(min(x, 6), 0)  ==  relu6(x)."""

    name = "transform_min_max_to_relu6"
    rules = (
        _Clamp.member(first="Minimum(x: f32, 6.0)", second="Maximum(m, 0.0)"),
        _Clamp.member(first="Maximum(x: f32, 0.0)", second="Minimum(m, 6.0)"),
    )


class TransformMinReluToRelu6(Rules):
    """relu(min(x, 6))  ==  relu6(x)."""

    name = "transform_min_relu_to_relu6"
    rules = (
        _Clamp.member(first="Minimum(x: f32, 6.0)", second="Relu(m)"),
        _Clamp.member(first="Relu(x: f32)", second="Minimum(m, 6.0)"),
    )
