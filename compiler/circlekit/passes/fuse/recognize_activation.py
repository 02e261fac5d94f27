# SPDX-License-Identifier: Apache-2.0
"""Recognize activation functions written as other operators: HARD_SWISH, PRELU, and forms of RELU."""

from __future__ import annotations

import numpy as np

from circlekit.ir.value import Array
from circlekit.ops.arithmetic.division import Div
from circlekit.passes.support.conditions import broadcast_refusal
from circlekit.rewrite.match import Match
from circlekit.rewrite.rewrite import Rewrite, Rules, condition

RELU6_FORMS = (
    "r = Add(x: f32, three: const)      {act: RELU6}",
    "a = Add(x: f32, three: const)  r = Relu6(a)",
)
"""r = relu6(x + 3); ``three`` is 3."""

HARD_SWISH_ENDS = (
    "m = Mul(x, r)  z = Mul|Div(m, six: const)",
    "s = Mul|Div(r, six: const)  z = Mul(x, s)",
    "s = Mul|Div(x, six: const)  z = Mul(s, r)",
)
"""x * r / 6 in any order.  ``six`` is 6 for a Div, and 1/6 for a Mul."""


UNIT_CLIPS = (
    "r = Relu0To1(a)",
    "c = Minimum(a, 1.0)  r = Maximum(c, 0.0)",
    "c = Maximum(a, 0.0)  r = Minimum(c, 1.0)",
    "c = Minimum(a, 1.0)  r = Relu(c)",
    "c = Relu(a)  r = Minimum(c, 1.0)",
)
"""``a`` limited to the interval from 0 to 1."""

HARD_SIGMOIDS = tuple(f"s = Mul|Div(x: f32, six: const)  a = Add(s, 0.5)  {clip}" for clip in UNIT_CLIPS)
"""x / 6 + 1/2, limited to the interval from 0 to 1: relu6(x + 3) / 6 in the form of ONNX."""


class _HardSwish(Rewrite):
    """x * relu6(x + 3) / 6."""

    before = """
        $relu6
        $end
    """
    after = "z = HardSwish(x)"

    @condition
    def constants_of_the_formula(self, match: Match) -> str | None:
        """``three`` is 3, and ``six`` is 6 for a Div or 1/6 for a Mul."""
        divided = any(isinstance(op, Div) for op in match.ops.values())
        for name, expected in (("three", 3.0), ("six", 6.0 if divided else 1 / 6)):
            if name not in match.values:  # there is no 3 in HARD_SIGMOIDS
                continue
            value = match.value(name)
            if value.numel != 1:
                return f"%{value.name}: expected one element, got {value.numel}"
            found, nearest = value.array().reshape(-1)[0], np.float32(expected)
            # 6 and 3 are exact; 1/6 may be off by one step of float32
            tolerance = 0 if float(nearest) == expected else np.spacing(nearest)
            if not abs(np.float32(found) - nearest) <= tolerance:  # also for NaN
                return f"%{value.name}: expected {nearest!s}, got {found!s}"
        return None


class FuseHardSwish(Rules):
    """x * relu6(x + 3) / 6  ==  hard_swish(x), in any order, and with a multiplication by 1/6.

    x * min(max(x / 6 + 1/2, 0), 1) becomes HARD_SWISH, too.
    """

    name = "fuse_hardswish"
    undoes = frozenset({"decompose_hardswish"})
    rules = (
        *_HardSwish.members(relu6=RELU6_FORMS, end=HARD_SWISH_ENDS),
        *_HardSwish.members(relu6=HARD_SIGMOIDS, end=("z = Mul(x, r)",)),
    )


class _PRelu(Rewrite):
    """relu(x) + n, where n is alpha * min(x, 0), or relu(x) - n, where n is alpha * relu(-x)."""

    before = """
        r = $positive
        $negative
        z = $arithmetic(r, n)
    """
    after = "z = PRelu(x, alpha)"

    @condition
    def alpha_fits(self, match: Match) -> str | None:
        """Broadcasting alpha must not change the shape of x, as LiteRT requires."""
        return broadcast_refusal(match.value("x"), match.value("alpha"))

    @condition
    def alpha_is_finite(self, match: Match, alpha: Array) -> str | None:
        """``alpha`` is finite: the operators multiply it also by 0, which gives NaN if it is infinite."""
        if np.isfinite(alpha).all():
            return None
        return f"%{match.value('alpha').name}: expected finite numbers, got {alpha[~np.isfinite(alpha)][0]}"


NEGATIVE_PARTS = (
    "a = Abs(x)  d = Sub(x, a)  m = Mul(d, alpha: const f32)  n = Mul(m, 0.5)",
    "a = Abs(x)  d = Sub(x, a)  h = Mul(d, 0.5)  n = Mul(h, alpha: const f32)",
    "m = Minimum(x, 0.0)  n = Mul(m, alpha: const f32)",
)
"""Forms of n = alpha * min(x, 0); x - |x| is 2 * min(x, 0)."""

RELU = "Relu(x: f32)"
OPPOSITE = "m = Neg(x)  p = Relu(m)  n = Mul(p, alpha: const f32)"  # n = alpha * relu(-x)


class _NegatedSlope(_PRelu, positive=RELU, arithmetic="Add", negative=OPPOSITE):
    """relu(x) + relu(-x) * alpha  ==  prelu(x, -alpha), as Keras exports it."""

    after = "z = PRelu(x, slope)"

    def constants(self, alpha: Array) -> dict[str, Array]:
        return {"slope": -alpha}


class _SelectedPart(_PRelu):
    """x where x is positive, else alpha * x, as PyTorch and ONNX define it."""

    before = """
        c = $test
        n = Mul(x, alpha: const f32)
        z = SelectV2|Select($choice)
    """


class FusePRelu(Rules):
    """relu(x) + (x - |x|) * alpha * 0.5  ==  prelu(x, alpha), also with min(x, 0), relu(-x) or a SELECT."""

    name = "fuse_prelu"
    rules = (
        *_PRelu.members(
            positive=(RELU, "Maximum(x: f32, 0.0)"), arithmetic=("Add",), negative=NEGATIVE_PARTS
        ),
        _PRelu.member(positive=RELU, arithmetic="Sub", negative=OPPOSITE),
        _NegatedSlope,
        _SelectedPart.member(test="Greater|GreaterEqual(x: f32, 0.0)", choice="c, x, n"),
        _SelectedPart.member(test="Less|LessEqual(x: f32, 0.0)", choice="c, n, x"),
    )


class _Clamp(Rewrite):
    """$second  ==  relu6(x), where m = $first."""

    before = """
        m = $first
        z = $second
    """
    after = "z = Relu6(x)"


class TransformMinMaxToRelu6(Rules):
    """max(min(x, 6), 0)  ==  relu6(x) for x other than NaN, also with MAXIMUM before MINIMUM."""

    name = "transform_min_max_to_relu6"
    rules = (
        _Clamp.member(first="Minimum(x: f32, 6.0)", second="Maximum(m, 0.0)"),
        _Clamp.member(first="Maximum(x: f32, 0.0)", second="Minimum(m, 6.0)"),
    )


class TransformMinReluToRelu6(Rules):
    """relu(min(x, 6))  ==  relu6(x) for x other than NaN, also with RELU before MINIMUM."""

    name = "transform_min_relu_to_relu6"
    rules = (
        _Clamp.member(first="Minimum(x: f32, 6.0)", second="Relu(m)"),
        _Clamp.member(first="Relu(x: f32)", second="Minimum(m, 6.0)"),
    )


class _LowerBound(Rewrite):
    """max(x, 0)  ==  relu(x)."""

    before = "z = Maximum(x: f32, 0.0)"
    after = "z = Relu(x)"


class _UnitClamp(_Clamp):
    """$second  ==  relu_n1_to_1(x), where m = $first."""

    after = "z = ReluN1To1(x)"


class TransformMaxToRelu(Rules):
    """max(x, 0)  ==  relu(x), and max(min(x, 1), -1)  ==  relu_n1_to_1(x), for x other than NaN.

    Layers can fuse both results.  PyTorch exports clamp and hardtanh in this way.
    """

    name = "transform_max_to_relu"
    rules = (
        _UnitClamp.member(first="Minimum(x: f32, 1.0)", second="Maximum(m, -1.0)"),
        _UnitClamp.member(first="Maximum(x: f32, -1.0)", second="Minimum(m, 1.0)"),
        _LowerBound,
    )
