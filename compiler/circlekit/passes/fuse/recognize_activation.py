# SPDX-License-Identifier: Apache-2.0
"""Recognize activation functions written as several operators: GELU, HARD_SWISH, PRELU and RELU6."""

from __future__ import annotations

import math

import numpy as np

from circlekit.ir.value import Array
from circlekit.ops.arithmetic.division import Div
from circlekit.passes.support.conditions import broadcast_refusal
from circlekit.rewrite.match import Match
from circlekit.rewrite.rewrite import Rewrite, Rules, condition

RELATIVE_TOLERANCE = 1e-5
"""Largest relative difference between a constant of a GELU, such as sqrt(1/2), and its formula."""

GELU_ENDS = (
    "a = Add(e, 1.0)  m = Mul(x, a)  z = Mul(m, 0.5)",
    "a = Add(e, 1.0)  h = Mul(x, 0.5)  z = Mul(h, a)",
    "a = Add(e, 1.0)  h = Mul(a, 0.5)  z = Mul(x, h)",
    "h = Mul(e, 0.5)  a = Add(h, 0.5)  z = Mul(x, a)",
    "h = Mul(x, 0.5)  m = Mul(h, e)  z = Add(h, m)",
)
"""x * (1 + e) / 2 in any order, where e is erf(...) or tanh(...)."""

# in the next four texts, c is x^3 and q is x^2; k, d and p are intermediate results, Tanh reads s
CUBES = ("c = Pow(x: f32, 3.0)", "q = Mul(x: f32, x)  c = Mul(q, x)", "q = Square(x: f32)  c = Mul(q, x)")
SQUARES = ("q = Pow(x: f32, 2.0)", "q = Mul(x: f32, x)", "q = Square(x: f32)")

SUMS_OF_CUBES = ("k = Mul(c, cubic: const f32[*, 1])  d = Add(x, k)  s = Mul(d, root: const f32[*, 1])",)
"""root * (x + cubic * c)."""

SUMS_OF_SQUARES = (
    "k = Mul(q, cubic: const f32[*, 1])  d = Add(k, 1.0)  p = Mul(x, root: const f32[*, 1])  s = Mul(p, d)",
    "k = Mul(q, cubic: const f32[*, 1])  d = Add(k, 1.0)  p = Mul(x, d)  s = Mul(p, root: const f32[*, 1])",
    "k = Mul(q, cubic: const f32[*, 1])  d = Add(k, 1.0)  p = Mul(d, root: const f32[*, 1])  s = Mul(x, p)",
)
"""root * x * (1 + cubic * q) in any order of the factors."""


class _Erf(Rewrite):
    """x * (1 + erf(x * sqrt(1/2))) / 2, also with a division by sqrt(2)."""

    before = """
        s = Mul|Div(x: f32, root: const f32[*, 1])
        e = Custom("Erf", s)
        $end
    """
    after = "z = Gelu(x)  {approximate: false}"

    @condition
    def scaled_by_the_root_of_one_half(self, match: Match, root: Array) -> str | None:
        divided = isinstance(match.ops["s"], Div)
        found, expected = float(root.reshape(-1)[0]), np.sqrt(2.0 if divided else 0.5)
        if math.isclose(found, expected, rel_tol=RELATIVE_TOLERANCE):
            return None
        how = "divided" if divided else "multiplied"
        return f"expected x to be {how} by {expected:g} before Erf, got {found:g}"


class _Tanh(Rewrite):
    """x * (1 + tanh(sqrt(2/pi) * (x + 0.044715 * x^3))) / 2."""

    before = """
        $power
        $total
        e = Tanh(s)
        $end
    """
    after = "z = Gelu(x)  {approximate: true}"

    @condition
    def constants_of_the_formula(self, match: Match) -> str | None:
        for name, expected in (("cubic", 0.044715), ("root", np.sqrt(2 / np.pi))):
            value = match.value(name)
            found = float(value.array().reshape(-1)[0])
            if not math.isclose(found, expected, rel_tol=RELATIVE_TOLERANCE):
                return f"%{value.name}: expected {expected:g}, got {found:g}"
        return None


class FuseGelu(Rules):
    """x * (1 + erf(x * sqrt(1/2))) / 2  ==  gelu(x), in any order of the factors; also its form with tanh."""

    name = "fuse_gelu"
    rules = (
        *_Erf.members(end=GELU_ENDS),
        *_Tanh.members(power=CUBES, total=SUMS_OF_CUBES, end=GELU_ENDS),
        *_Tanh.members(power=SQUARES, total=SUMS_OF_SQUARES, end=GELU_ENDS),
    )


class ReplaceWithFcGeluFc(Rewrite):
    """fc(h * (1 + erf(s)), w)  ==  fc(gelu(h), 2 * w), if h and s are layers of x and s = sqrt(1/2) * h.

    That is, h = fc(x, w1, b1) and s = fc(x, w2, b2) with w2 = sqrt(1/2) * w1 and b2 = sqrt(1/2) * b1.
    """

    name = "replace_with_fc_gelu_fc"

    before = """
        h = FullyConnected(x: f32, w1: const f32[U, K], b1?: const f32[*,U]) {act: NONE, keep_num_dims: any=k}
        s = FullyConnected(x, w2: const f32[U, K], b2?: const f32[*, U])      {keep_num_dims: any = k}
        e = Custom("Erf", s)
        a = Add(e, 1.0)
        m = Mul(h, a)
        z = FullyConnected(m, w3: const f32[_, _], b3?)
    """
    after = """
        f = FullyConnected(x, w1, b1)           {like h}
        g = Gelu(f)                             {approximate: false}
        z = FullyConnected(g, w, b3)            {like z}
    """

    @condition
    def scaled_by_the_root(self, w1: Array, w2: Array, b1: Array | None, b2: Array | None) -> str | None:
        for of_h, of_s, kind in ((w1, w2, "weights"), (b1, b2, "biases")):
            # an absent bias counts as 0
            expected = np.zeros(1) if of_h is None else of_h.reshape(-1).astype(np.float64) * np.sqrt(0.5)
            found = np.zeros(1) if of_s is None else of_s.reshape(-1)
            limit = RELATIVE_TOLERANCE * float(np.abs(expected).max(initial=1e-30))
            if not np.abs(expected - found).max(initial=0) <= limit:  # also for NaN
                return f"expected the {kind} before Erf to be sqrt(1/2) times those of the other layer"
        return None

    def constants(self, w3: Array) -> dict[str, Array]:
        return {"w": 2 * w3}


RELU6_FORMS = (
    "r = Add(x: f32, three: const)      {act: RELU6}",
    "a = Add(x: f32, three: const)  r = Relu6(a)",
)
HARD_SWISH_ENDS = (
    "m = Mul(x, r)  z = Mul|Div(m, six: const)",
    "s = Mul|Div(r, six: const)  z = Mul(x, s)",
    "s = Mul|Div(x, six: const)  z = Mul(s, r)",
)
"""x * r / 6 in any order.  ``six`` is 6 for a Div, and 1/6 for a Mul."""


class _HardSwish(Rewrite):
    """x * relu6(x + 3) / 6."""

    before = """
        $relu6
        $end
    """
    after = "z = HardSwish(x)"

    @condition
    def constants_of_the_formula(self, match: Match) -> str | None:
        divided = any(isinstance(op, Div) for op in match.ops.values())
        for name, expected in (("three", 3.0), ("six", 6.0 if divided else 1 / 6)):
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
    """x * relu6(x + 3) / 6  ==  hard_swish(x), in any order, and with a multiplication by 1/6."""

    name = "fuse_hardswish"
    undoes = frozenset({"decompose_hardswish"})
    rules = _HardSwish.members(relu6=RELU6_FORMS, end=HARD_SWISH_ENDS)


class _PRelu(Rewrite):
    """relu(x) + n, where n is alpha * min(x, 0), or relu(x) - n, where n is alpha * relu(-x)."""

    before = """
        r = Relu(x: f32)
        $negative
        z = $arithmetic(r, n)
    """
    after = "z = PRelu(x, alpha)"

    @condition
    def alpha_fits(self, match: Match) -> str | None:
        """Broadcasting alpha must not change the shape of x, as LiteRT requires."""
        return broadcast_refusal(match.value("x"), match.value("alpha"))


NEGATIVE_PARTS = (
    "a = Abs(x)  d = Sub(x, a)  m = Mul(d, alpha: const f32)  n = Mul(m, 0.5)",
    "a = Abs(x)  d = Sub(x, a)  h = Mul(d, 0.5)  n = Mul(h, alpha: const f32)",
    "m = Minimum(x, 0.0)  n = Mul(m, alpha: const f32)",
)
"""Forms of n = alpha * min(x, 0); x - |x| is 2 * min(x, 0)."""

OPPOSITE = "m = Neg(x)  p = Relu(m)  n = Mul(p, alpha: const f32)"  # n = alpha * relu(-x)


class _NegatedSlope(_PRelu, arithmetic="Add", negative=OPPOSITE):
    """relu(x) + relu(-x) * alpha  ==  prelu(x, -alpha), as Keras exports it."""

    after = "z = PRelu(x, slope)"

    def constants(self, alpha: Array) -> dict[str, Array]:
        return {"slope": -alpha}


class FusePRelu(Rules):
    """relu(x) + (x - |x|) * alpha * 0.5  ==  prelu(x, alpha), also with min(x, 0) or relu(-x)."""

    name = "fuse_prelu"
    rules = (
        *_PRelu.members(arithmetic=("Add",), negative=NEGATIVE_PARTS),
        _PRelu.member(arithmetic="Sub", negative=OPPOSITE),
        _NegatedSlope,
    )


class _Clamp(Rewrite):
    """$second  ==  relu6(x), where m = $first."""

    before = """
        m = $first
        z = $second
    """
    after = "z = Relu6(x)"


class TransformMinMaxToRelu6(Rules):
    """max(min(x, 6), 0)  ==  relu6(x), also with MAXIMUM before MINIMUM."""

    name = "transform_min_max_to_relu6"
    rules = (
        _Clamp.member(first="Minimum(x: f32, 6.0)", second="Maximum(m, 0.0)"),
        _Clamp.member(first="Maximum(x: f32, 0.0)", second="Minimum(m, 6.0)"),
    )


class TransformMinReluToRelu6(Rules):
    """relu(min(x, 6))  ==  relu6(x), also with RELU before MINIMUM."""

    name = "transform_min_relu_to_relu6"
    rules = (
        _Clamp.member(first="Minimum(x: f32, 6.0)", second="Relu(m)"),
        _Clamp.member(first="Relu(x: f32)", second="Minimum(m, 6.0)"),
    )
