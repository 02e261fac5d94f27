# SPDX-License-Identifier: Apache-2.0
"""Write the variance mean(x^2) - mean(x)^2 as the mean of (x - mean(x))^2."""

from __future__ import annotations

from itertools import product
from typing import Any

from circlekit.ir.value import Array, Shape, Value
from circlekit.ops.arithmetic.binary import Sub
from circlekit.ops.constant_operands import int_list
from circlekit.ops.movement.shape import Reshape
from circlekit.ops.reduction.reduce import reduced_axes
from circlekit.passes.support.conditions import provably_equal
from circlekit.rewrite.match import Match
from circlekit.rewrite.rewrite import Rewrite, Rules, condition


class _Variance(Rewrite):
    """mean(x^2) - mean(x)^2  ==  mean(d^2) with d = x - mean(x), if the model computes d anyway.

    Then common_subexpression_elimination merges this d with that of the model.
    """

    shared = ("m",)

    # $reshape: a Reshape of the mean m to $mean, if d is x - reshape(m); else $mean is m
    before = """
        m = Mean(x: f32, axes: const)       {keep_dims: any = keep}
        $squares
        w = Mean(q, axes2: const)           {keep_dims: any = keep}
        $difference
    """
    after = """
        $reshape
        d = Sub(x, $mean)
        e = Square(d)
        v = Mean(e, axes)                   {keep_dims: keep}
    """

    @condition
    def means_over_the_same_axes(self, x: Value, axes: Array, axes2: Array) -> str | None:
        """Both means are over the same axes."""
        first, second = (sorted(reduced_axes(int_list(numbers), x.known_rank)) for numbers in (axes, axes2))
        if first == second:
            return None
        return f"%{x.name}: expected two means over the same axes, got {first} and {second}"

    @condition
    def difference_is_computed(self, match: Match, x: Value, m: Value) -> str | None:
        """The model subtracts the mean from ``x``, as it is or reshaped."""
        if self.subtracted(match) is not None:
            return None
        return f"%{m.name}: is not subtracted from %{x.name}, so the new form would cost more"

    def subtracted(self, match: Match) -> Value | None:
        """Return the mean that the model subtracts from x; None if there is none."""
        x, m = match.value("x"), match.value("m")
        reduced = reduced_axes(int_list(match.value("axes").array()), x.known_rank)
        kept = tuple(1 if axis in reduced else size for axis, size in enumerate(x.known_shape))
        for mean in self.candidates(m):
            is_subtracted = any(isinstance(user, Sub) and user.inputs == [x, mean] for user in mean.users)
            if is_subtracted and provably_equal(_trimmed(kept), _trimmed(mean.known_shape)):
                return mean
        return None

    def candidates(self, m: Value) -> list[Value]:
        """Return the values that may be the mean ``m`` as the model subtracts it from x."""
        return [m]


class _ReshapedMean(_Variance):
    """mean(x^2) - mean(x)^2  ==  mean(d^2) with d = x - reshape(mean(x)), if the model computes d anyway."""

    def candidates(self, m: Value) -> list[Value]:
        reshapes = [user for user in m.users if isinstance(user, Reshape)]
        return [op.output for op in reshapes if op.shape is None or op.shape.is_const]

    def constants(self, match: Match) -> dict[str, Any]:
        mean = self.subtracted(match)
        assert mean is not None  # by the condition
        op = mean.producer
        assert isinstance(op, Reshape)  # by ``candidates``
        return {"shape": op.shape, "new_shape": op.new_shape}


def _trimmed(shape: Shape) -> Shape:
    """Return ``shape`` without leading ones, which make no difference to a broadcast."""
    while shape and shape[0] == 1:
        shape = shape[1:]
    return shape


SQUARES = ("q = Square(x)  s = Square(m)", "q = Mul(x, x)  s = Mul(m, m)")
"""q = x^2, and s = m^2 for the mean m of x."""

DIFFERENCES = (
    "u = Sub(w, s)  v = Relu(u)",
    "u = Sub(w, s)  v = Maximum(u, 0.0)",
    "v = Sub(w, s)  {act: NONE|RELU}",
)
"""v = w - s, the mean of q minus s.  Rounding may make it negative, so exporters limit it to 0 and more."""


MEANS = ((_Variance, "", "m"), (_ReshapedMean, "i = Reshape(m, shape)  {new_shape: new_shape}", "i"))
"""(base class, $reshape, $mean) for the mean m that the model subtracts from x, as it is or reshaped."""


class FuseVariance(Rules):
    """mean(x^2) - mean(x)^2  ==  mean((x - mean(x))^2), if the model computes x - mean(x) anyway.

    x must be finite.  JAX libraries compute the variance of a normalization in the old form.  Other passes
    recognize the new form, which rounds less.
    """

    name = "fuse_variance"
    rules = tuple(
        base.member(squares=squares, difference=difference, reshape=reshape, mean=mean)
        for difference, squares, (base, reshape, mean) in product(DIFFERENCES, SQUARES, MEANS)
    )
