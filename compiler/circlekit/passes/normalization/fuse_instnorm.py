# SPDX-License-Identifier: Apache-2.0
"""Recognize instance normalization, which exporters write as seven to fifteen operators."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy as np

from circlekit.ir.enums import Activation
from circlekit.ir.graph import Graph
from circlekit.ir.value import Array, Value, format_shape
from circlekit.ops.constant_operands import int_list
from circlekit.ops.dimensions import known_dims
from circlekit.ops.reduction.reduce import Mean, reduced_axes
from circlekit.rewrite.base import Context
from circlekit.rewrite.match import Match
from circlekit.rewrite.rewrite import Rewrite, Rules, condition

NEGLIGIBLE_EPSILON = 1e-8
"""The largest epsilon that a pipeline accepts in (x - mean) / (deviation + epsilon).

The deviation is the standard deviation, the root of the variance.  INSTANCE_NORM adds epsilon^2 to the
variance instead, so the divisor becomes sqrt(deviation^2 + epsilon^2), which differs by at most epsilon.  For
a deviation of at least 1e-3, the relative error of the quotient is at most 1e-5.  It is larger for a smaller
deviation above 0, in an image that is almost constant.  If the deviation is 0, x - mean is 0, too, and
nothing changes.
"""

SMALL_EPSILON = 1e-5
"""The largest epsilon in (x - mean) / (deviation + epsilon) that the pass accepts if it is requested by name.

(deviation + epsilon)^2 is variance + 2 * epsilon * deviation + epsilon^2, but INSTANCE_NORM can add only a
constant to the variance.  Up to NEGLIGIBLE_EPSILON, the pass takes epsilon^2, as in a pipeline.  For a larger
epsilon it takes the constant of a typical deviation of 1/4, which is epsilon / 2 + epsilon^2: for a deviation
from 0.1 to 10, the relative error of the quotient is about 15 * epsilon or less.  For a smaller deviation
above 0 it is larger.  If the deviation is 0, the quotient stays 0.
"""


class InstanceNorm(Rewrite):
    """gamma * (x - mean) / sqrt(variance + epsilon) + beta; the means may have other users.

    All forms use these letters.  ``m``, ``m2``: the means, often the same value.
    ``d``, ``e``: the differences x - mean.  ``q``: their squares.  ``v``: the variance.  ``a``: v + epsilon.
    ``r``: the divisor, or its reciprocal.  ``g``, ``b``: gamma and beta, if present.  ``f``: gamma * r.
    ``n``: the quotient.  Other letters are intermediate results.

    Some exporters reshape x of [N,H,W,C] to ``s`` of [N,H,W,C,1], normalize s to ``y``, and reshape y back.
    """

    shared = ("m", "m2")
    max_epsilon: float = np.inf  # the largest epsilon that is accepted

    # $square: one of SQUARES.  $ending: one of SUMS, or a quotient, perhaps with AFFINE; its result is $z.
    # With Reshapes, $first and $last are the Reshapes from x to s and back, $x is s, and $z is y.
    # Without, $first is empty, $last has the attributes of the last operator, $x is x, and $z is z.
    # Example: SQUARES[1] and QUOTIENTS[1] give, after the two means of x,
    # e = Sub(x, m2)  q = Square(e)  v = Mean(q)  d = Sub(x, m)  a = Add(v, eps)  r = Sqrt(a)  z = Div(d, r)
    before = """
        $first
        m = Mean($x: f32, axes: const)      {keep_dims: true}
        m2 = Mean($x, axes2: const)         {keep_dims: true}
        $square
        v = Mean(q, axes3: const)           {keep_dims: true}
        $ending
        $last
    """
    after = "z = InstanceNorm(x, gamma, beta)  {epsilon: epsilon, act: act}"

    @condition
    def known_channels(self, match: Match) -> str | None:
        """``x`` is [N,H,W,C] or [N,C,W] with a known C; ``s``, if present, is [N,H,W,C,1]."""
        x, s = match.value("x"), match.values.get("s")
        if x.rank not in (3, 4) or channels_of(x) is None:
            shape = format_shape(x.shape)
            return f"%{x.name}: expected [N,H,W,C] or [N,C,W] with a known C, got shape {shape}"
        if s is not None and (x.rank == 3 or s.shape != (*x.known_shape, 1)):
            return f"%{s.name}: expected [N,H,W,C,1], got shape {format_shape(s.shape)}"
        return None

    @condition
    def means_over_the_image(self, match: Match) -> str | None:
        """All means are over the image: the axes H and W, or W alone.

        An axis of dimension 1 makes no difference, for example that of the batch.
        """
        x = match.value("x")
        inner = match.values.get("s") or x
        expected = {2} if x.rank == 3 else {1, 2}
        single = {axis for axis, size in enumerate(inner.known_shape) if size == 1}
        for mean, operand in (("m", "axes"), ("m2", "axes2"), ("v", "axes3")):
            axes = sorted(reduced_axes(int_list(match.value(operand).array()), inner.known_rank))
            if {*axes} - single != expected - single:
                image = sorted(expected)
                return f"%{match.value(mean).name}: expected a mean over the axes {image}, got {axes}"
        return None

    @condition
    def parameters_per_channel(self, match: Match) -> str | None:
        """If present, gamma and beta have one number, or one for each channel."""
        x = match.value("x")
        # the axis of the channels in the normalized value: -1 in [N,H,W,C], -2 in [N,C,W] and [N,H,W,C,1]
        axis = -1 if x.rank == 4 and "s" not in match.values else -2
        for value in (match.values.get("g"), match.values.get("b")):
            if value is None:
                continue
            shape = (1, 1, *value.static_shape)  # so that there is an axis -2
            if value.numel != shape[axis] or shape[axis] not in (1, channels_of(x)):
                expected = f"one number, or one for each channel of %{x.name} on axis {axis}"
                return f"%{value.name}: expected {expected}, got shape {format_shape(value.shape)}"
        return None

    @condition
    def epsilon_fits(self, match: Match) -> str | None:
        """Epsilon is not negative, not too large, and has the same effect in INSTANCE_NORM."""
        eps = match.value("eps")
        epsilon = float(eps.array().reshape(-1)[0])
        if epsilon and not np.float32(self.added_to_variance(epsilon)):
            why = "which would be 0 in float32 when added to the variance"
            return f"%{eps.name}: epsilon is {epsilon:g}, {why}"
        # In a constant image, 1 / sqrt(0) is infinite.  In forms with f or p, a MUL reads it, and clamps the
        # product to the largest float32.  All other forms give NaN there, as INSTANCE_NORM does.
        if not epsilon and {"f", "p"} & match.values.keys():
            why = "in a constant image, 1 / sqrt(0) is infinite; MUL makes it finite, INSTANCE_NORM gives NaN"
            return f"%{eps.name}: expected an epsilon above 0, got 0: {why}"
        if 0 <= epsilon <= self.max_epsilon:
            return None
        allowed = "of 0 or more" if self.max_epsilon == np.inf else f"from 0 to {self.max_epsilon:g}"
        return f"%{eps.name}: expected an epsilon {allowed}, got {epsilon:g}"

    def constants(self, match: Match) -> dict[str, Any]:
        channels = channels_of(match.value("x"))
        epsilon = float(match.value("eps").array().reshape(-1)[0])
        return {
            "gamma": _per_channel(match.values.get("g"), 1.0, channels),
            "beta": _per_channel(match.values.get("b"), 0.0, channels),
            "epsilon": self.added_to_variance(epsilon),
            "act": match.attributes.get("act", Activation.NONE),
        }

    def added_to_variance(self, epsilon: float) -> float:
        """Return the epsilon that INSTANCE_NORM adds to the variance, for the ``epsilon`` in the graph."""
        return epsilon


class EpsilonAddedToDeviation(InstanceNorm):
    """Instance normalization with an epsilon that is added to the standard deviation.

    A pipeline accepts an epsilon up to 1e-8; a request of the pass by name accepts one up to 1e-5.
    NEGLIGIBLE_EPSILON and SMALL_EPSILON give the numbers that INSTANCE_NORM adds to the variance instead.
    """

    def run_graph(self, graph: Graph, context: Context) -> int:
        # ``exact``: the pass runs in a pipeline
        self.max_epsilon = NEGLIGIBLE_EPSILON if context.exact else SMALL_EPSILON
        return super().run_graph(graph, context)

    def added_to_variance(self, epsilon: float) -> float:
        return epsilon**2 if epsilon <= NEGLIGIBLE_EPSILON else epsilon / 2 + epsilon**2


def channels_of(x: Value) -> int | None:
    """Return the number of channels of ``x``, NCW if its rank is 3, else NHWC; None if it is unknown."""
    return None if x.shape is None else x.shape[1 if x.rank == 3 else -1]


def _per_channel(value: Value | None, default: float, channels: int | None) -> Array:
    """Return one number per channel: those of the constant ``value``, or ``default`` if it is absent."""
    numbers = np.full(1, default, np.float32) if value is None else value.array().reshape(-1)
    return np.array(np.broadcast_to(numbers, known_dims([channels])))


# -- forms: for the letters and $words see InstanceNorm -----------------------------------------

SQUARES = (
    "q = SquaredDifference($x, m2)",
    "e = Sub($x, m2)  q = Square(e)",
    "e = Sub($x, m2)  q = Mul(e, e)",
)
"""q = (x - m2)^2, whose mean is the variance v."""

ROOT = "a = Add(v, eps: const f32[*, 1])  r = Rsqrt(a)"
"""r = 1 / sqrt(v + epsilon)."""

FACTOR = f"{ROOT}  f = Mul(r, g: const f32)"
"""f = gamma / sqrt(v + epsilon)."""

SUMS = (
    f"{FACTOR}  d = Sub($x, m)  t = Mul(d, f)  $z = Add(t, b: const f32)",
    f"{FACTOR}  p = Mul($x, f)  o = Mul(m, f)  h = Sub(b: const f32, o)  $z = Add(p, h)",
    f"{ROOT}  p = Mul($x, r)  o = Mul(m, r)  h = Sub(b: const f32, o)  $z = Add(p, h)",
    f"{FACTOR}  p = Mul($x, f)  i = Neg(m)  o = Mul(i, f)  h = Add(o, b: const f32)  $z = Add(p, h)",
    f"{ROOT}  p = Mul($x, r)  i = Neg(m)  o = Mul(i, r)  h = Add(o, b: const f32)  $z = Add(p, h)",
)
"""(x - m) * f + beta, or x * f + (beta - m * f); r takes the place of f if gamma is absent."""

QUOTIENTS = (
    f"d = Sub($x, m)  {ROOT}  $n = Mul(d, r)",
    "d = Sub($x, m)  a = Add(v, eps: const f32[*, 1])  r = Sqrt(a)  $n = Div(d, r)",
    "d = Sub($x, m)  a = Add(v, eps: const f32[*, 1])  r = Pow(a, 0.5)  $n = Div(d, r)",
)
"""(x - m) / sqrt(v + epsilon); ``$n`` is the name of the result."""

QUOTIENT_BY_DEVIATION = "d = Sub($x, m)  o = Sqrt(v)  r = Add(o, eps: const f32[*, 1])  $n = Div(d, r)"
"""(x - m) / (sqrt(v) + epsilon)."""

AFFINE = "t = Mul(n, g: const f32)  $z = Add(t, b: const f32)"
"""n * gamma + beta, where n is a quotient."""

BETWEEN_RESHAPES = {
    "x": "s", "first": "s = Reshape(x, to?) {new_shape: any}",
    "z": "y", "last": "z = Reshape(y, back?) {new_shape: any}",
}  # fmt: skip
"""The words of ``InstanceNorm.before`` for a normalization between two Reshapes."""

WITH_ACTIVATION = {"x": "x", "first": "", "z": "z", "last": "    {act: any = act}"}
"""The same words for a normalization whose last operator may have a fused activation."""


def _forms() -> Iterator[type[Rewrite]]:
    """Yield a rule for each form, larger forms first: a smaller one may match a part of a larger one."""
    quotients = [*((InstanceNorm, q) for q in QUOTIENTS), (EpsilonAddedToDeviation, QUOTIENT_BY_DEVIATION)]
    endings = [
        *((InstanceNorm, ending) for ending in SUMS),
        *((kind, f"{quotient.replace('$n', 'n')}  {AFFINE}") for kind, quotient in quotients),
        *((kind, quotient.replace("$n", "$z")) for kind, quotient in quotients),
    ]
    for words in (BETWEEN_RESHAPES, WITH_ACTIVATION):
        for (kind, ending), square in product(endings, SQUARES):
            yield kind.member(square=square, ending=ending, **words)


class FuseInstNorm(Rules):
    """gamma * (x - mean(x)) / sqrt(variance(x) + epsilon) + beta  ==  instance_norm(x, gamma, beta).

    Circle only.  Mean and variance are over H and W of [N,H,W,C], or over W of [N,C,W].  gamma and beta have
    one number, or one per channel.
    """

    name = "fuse_instnorm"
    formats = frozenset({"circle"})
    rules = tuple(_forms())

    def run_graph(self, graph: Graph, context: Context) -> int:
        if Mean not in graph.kinds:  # every form has a Mean; --explain would try each of them for nothing
            return 0
        return super().run_graph(graph, context)
