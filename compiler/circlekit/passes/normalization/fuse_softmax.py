# SPDX-License-Identifier: Apache-2.0
"""Recognize SOFTMAX, LOG_SOFTMAX and L2_NORMALIZATION that exporters write as several operators."""

from __future__ import annotations

from itertools import product
from typing import ClassVar

import numpy as np

from circlekit.ir.value import Array, Value
from circlekit.ops.arithmetic.binary import Maximum
from circlekit.ops.dimensions import broadcast_shapes
from circlekit.ops.movement.shape import Reshape
from circlekit.ops.reduction.reduce import ReduceMax
from circlekit.passes.support.axes import last_axis_refusal
from circlekit.rewrite.match import Match, origin
from circlekit.rewrite.rewrite import Rewrite, Rules, condition

LOWEST = np.finfo(np.float32).min


class _Shifted(Rewrite):
    """$softmax(x - m)  ==  $softmax(x), if m is one number for each row, and finite."""

    before = """
        d = Sub(x: f32, m)
        z = $softmax(d)             $attributes
    """
    after = "z = $softmax(x)        {like z}"

    @condition
    def is_constant_in_rows(self, x: Value, m: Value) -> str | None:
        """``m`` is a scalar or its last dimension is 1, and ``m`` does not broadcast ``x``."""
        if m.known_shape[-1:] in ((), (1,)) and broadcast_shapes(x.static_shape, m.static_shape) == x.shape:
            return None
        return f"%{m.name}: expected one number for each row of %{x.name}, {x.type}, got {m.type}"


class _Softmax(_Shifted):
    """exp(d) / sum(exp(d))  ==  softmax(x), and d - log(sum(exp(d)))  ==  log_softmax(x), for d = x - max(x).

    A model without the subtraction is not rewritten: where exp(x) is infinite, it gives NaN, unlike SOFTMAX.
    """

    before = """
        d = Sub(x: f32, m)
        e = Exp(d)
        s = Sum(e, axes: const)     {keep_dims: true}
        $quotient
    """
    after = "z = $softmax"

    @condition
    def sums_the_last_axis(self, x: Value, s: Value, axes: Array) -> str | None:
        """The sum is over the last axis alone."""
        return last_axis_refusal(x, s, axes)

    @condition
    def subtracts_the_maximum(self, x: Value, m: Value) -> str | None:
        """``m`` is the maximum of each row, or comes from it by Reshapes and Maximums with the lowest f32."""
        op = m.producer
        while isinstance(op, Reshape) or (isinstance(op, Maximum) and _is_lowest(op.rhs)):
            op = op.input.producer if isinstance(op, Reshape) else op.lhs.producer
        if isinstance(op, ReduceMax) and op.input is x and op.axis.is_const:
            return last_axis_refusal(x, op.output, op.axis.array())
        return f"%{m.name}: comes from {origin(m)}, expected the maximum of each row of %{x.name}"


def _is_lowest(value: Value) -> bool:
    """Return whether ``value`` is a constant, all of whose elements are LOWEST or -inf."""
    return value.is_const and bool((value.array() <= LOWEST).all())


class FuseSoftmax(Rules):
    """Recognize SOFTMAX and LOG_SOFTMAX, and omit a subtraction of one number per row before them.

    Both subtract the maximum of each row themselves.
    """

    name = "fuse_softmax"
    undoes = frozenset({"decompose_softmax"})
    rules = (
        _Shifted.member(softmax="Softmax", attributes="{beta: 1.0}"),
        _Shifted.member(softmax="LogSoftmax", attributes=""),
        _Softmax.member(quotient="z = Div(e, s)", softmax="Softmax(x)  {beta: 1.0}"),
        _Softmax.member(quotient="l = Log(s)  z = Sub(d, l)", softmax="LogSoftmax(x)"),
    )


LEAST_NORM = 1e-6
"""L2_NORMALIZATION divides by no smaller number."""


class _L2Norm(Rewrite):
    """x / max(sqrt(sum(x * x)), epsilon)  ==  l2_normalization(x), if epsilon is at most LEAST_NORM.

    Epsilon may also limit the square of the norm, or be added to the square.  Rows whose norm is less than
    about LEAST_NORM, other than zeros, may get another length.  ``epsilon_power``: 2 if epsilon belongs to
    the square of the norm.
    """

    epsilon_power: ClassVar[int]

    before = """
        q = $square
        s = Sum(q, axes: const)     {keep_dims: true}
        $quotient
    """
    after = "z = L2Normalization(x)"

    @condition
    def sums_the_last_axis(self, x: Value, s: Value, axes: Array) -> str | None:
        """The sum is over the last axis alone."""
        return last_axis_refusal(x, s, axes)

    @condition
    def epsilon_is_small(self, match: Match, eps: Array) -> str | None:
        """Epsilon is above 0 and at most 1e-6, or 1e-12 if it belongs to the square of the norm."""
        most = LEAST_NORM**self.epsilon_power
        if 0 < eps.item() <= np.nextafter(np.float32(most), np.float32(1)):
            return None
        name, got = match.value("eps").name, eps.item()
        return f"%{name}: expected an epsilon above 0, at most {most:g}, got {got:g}"


QUOTIENTS = (
    (1, "r = Sqrt(s)  a = Maximum(r, eps: const f32[*, 1])  z = Div(x, a)"),
    (1, "r = Pow(s, 0.5)  a = Maximum(r, eps: const f32[*, 1])  z = Div(x, a)"),
    (2, "a = Maximum|Add(s, eps: const f32[*, 1])  r = Rsqrt(a)  z = Mul(x, r)"),
    (2, "a = Maximum|Add(s, eps: const f32[*, 1])  r = Sqrt(a)  z = Div(x, r)"),
)
"""(``epsilon_power``, a picture of x divided by its norm); epsilon keeps the divisor above 0."""


class FuseL2Norm(Rules):
    """Recognize L2_NORMALIZATION: x divided by the square root of the sum of its squares."""

    name = "fuse_l2norm"
    rules = tuple(
        _L2Norm.member(square=square, quotient=quotient, epsilon_power=power)
        for square, (power, quotient) in product(
            ("Square(x: f32)", "Mul(x: f32, x)", "Pow(x: f32, 2.0)"), QUOTIENTS
        )
    )
