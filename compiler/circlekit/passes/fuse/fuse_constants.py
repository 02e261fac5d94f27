# SPDX-License-Identifier: Apache-2.0
"""Merge consecutive operators with constants: sums, products, and sums and products in turn."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from circlekit.ir.op import Op
from circlekit.ir.value import Array, Value, format_shape
from circlekit.ops.arithmetic.binary import Add, Mul, Sub
from circlekit.ops.arithmetic.division import Div
from circlekit.ops.dimensions import broadcast_shapes, element_count
from circlekit.rewrite.match import Match
from circlekit.rewrite.rewrite import Rewrite, Rules, condition

FUNCTIONS: dict[type[Op], np.ufunc] = {Add: np.add, Sub: np.subtract, Mul: np.multiply, Div: np.divide}

LARGEST_ADDEND = 256.0
"""A rewrite changes the order of additions only if no addend has a larger magnitude.

The sum with a larger addend may cancel most of the data, as in x - mean, or round it on purpose, as in
(x + 2**23) - 2**23.
"""

LARGEST_CANCELLATION = 64.0
"""A rewrite adds up addends only if none is more than this many times as large as their sum.

The size of an array is the magnitude of its largest element.  If x is small, the old operators round it to
the precision of the larger addend, as in (x + 1) - 1.
"""

MAX_SEARCHED_VALUES = 256
"""``quotient_refusal`` examines about this many values, so that long elementwise chains take linear time."""


class _Constants(Rewrite):
    """Base class of the rewrites of operators with one constant each."""

    @condition
    def stays_small(self, match: Match) -> str | None:
        """The new constants have no more elements than the largest of the old ones."""
        arrays = [match.value(name).array() for name in sorted(self.definition().constant_names)]
        shape = broadcast_shapes(*(array.shape for array in arrays))
        if element_count(shape) <= max(array.size for array in arrays):
            return None
        return f"%{match.value('z').name}: the new constant would have the shape {format_shape(shape)}"

    def chain(self, match: Match, data: float | Array, *names: str) -> Array:
        """Apply to ``data`` the operators of the picture that read one of the constants ``names``, in order.

        All other operators are left out.  Compute in float64; return the result as float32.
        """
        # no warnings, because the engine refuses constants that are not finite; ``under`` is not set here, so
        # that the engine sees underflows
        with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
            for node in self.old.nodes:
                left, right = node.operands
                function = FUNCTIONS[type(match.ops[node.results[0]])]
                if left.name in names:
                    data = function(match.value(left.name).array(), data, dtype=np.float64)
                elif right.name in names:
                    data = function(data, match.value(right.name).array(), dtype=np.float64)
            return np.asarray(data, np.float32)


class _Chain(_Constants):
    """$first, $second  ==  $merged.

    ``neutral``: 0 for sums, 1 for products.  The new constant is the result of the chain for this number.
    """

    neutral: ClassVar[float] = 1.0

    before = """
        m = $first
        z = $second                 {act: any = act}
    """
    after = "z = $merged            {act: act}"

    def constants(self, match: Match) -> dict[str, Array]:
        return {"c": self.chain(match, self.neutral, "a", "b")}


class _Sums(_Chain):
    neutral = 0.0

    @condition
    def does_not_round(self, match: Match, a: Array, b: Array) -> str | None:
        return size_refusal(match, a, b)

    @condition
    def does_not_cancel(self, match: Match, a: Array, b: Array) -> str | None:
        return cancellation_refusal(match, self.chain(match, 0.0, "a", "b"), a, b)


class _Products(_Chain):
    shared = ("m",)  # as in ONE, where another user keeps the first product

    @condition
    def is_no_quotient(self, m: Value) -> str | None:
        return quotient_refusal(m)


def largest(*arrays: Array) -> float:
    """Return the largest magnitude in ``arrays``."""
    return max(float(np.abs(array).max(initial=0)) for array in arrays)


def size_refusal(match: Match, *addends: Array) -> str | None:
    """Refuse unless all elements of ``addends`` are at most LARGEST_ADDEND in magnitude."""
    most = largest(*addends)
    if most <= LARGEST_ADDEND:
        return None
    return f"%{match.value('z').name}: expected addends up to {LARGEST_ADDEND:g}, got {most:g}"


def quotient_refusal(x: Value) -> str | None:
    """Refuse if ``x`` is or follows from a quotient whose divisor is computed or has a 0.

    For the divisor 0, LiteRT returns the largest number.  After elementwise operators or data movement, the
    number may still be large.  The search ends after MAX_SEARCHED_VALUES.
    """
    seen, pending = {x}, [x]  # ``pending`` is a queue: near quotients are found first
    while pending and len(seen) <= MAX_SEARCHED_VALUES:
        op = pending.pop(0).producer
        if op is None or not (op.elementwise or op.data_movement):
            continue
        if isinstance(op, Div) and not (op.rhs.is_plain and op.rhs.array().all()):
            quotient = f"%{op.output.name}: is a quotient"
            return f"{quotient}, which may be so large that the first product overflows"
        new = [value for value in op.inputs if value is not None and value not in seen]
        seen.update(new)
        pending += new
    return None


def cancellation_refusal(match: Match, total: Array, *addends: Array) -> str | None:
    """Refuse if an addend is more than LARGEST_CANCELLATION times as large as ``total``, the sum of all."""
    most, left = largest(*addends), largest(total)
    if most <= LARGEST_CANCELLATION * left:
        return None
    found = f"got {most:g} with the sum {left:g}"
    return f"%{match.value('z').name}: expected addends that do not cancel, {found}"


class FuseAddWithAdd(Rules):
    """(x + a) + b  ==  x + (a + b) for constants a and b, and the same for differences, also a - x."""

    name = "fuse_add_with_add"
    rules = (
        _Sums.member(first="Add|Sub(x, a: const f32)", second="Add|Sub(m, b: const f32)", merged="Add(x, c)"),
        _Sums.member(first="Add|Sub(x, a: const f32)", second="Sub(b: const f32, m)", merged="Sub(c, x)"),
        _Sums.member(first="Sub(a: const f32, x)", second="Add|Sub(m, b: const f32)", merged="Sub(c, x)"),
        _Sums.member(first="Sub(a: const f32, x)", second="Sub(b: const f32, m)", merged="Add(x, c)"),
    )


class FuseMulWithDiv(Rules):
    """(x * a) / b  ==  x * (a / b) for constants a and b, and the same for other products and quotients.

    A chain that begins with a / x stays: at x = 0, LiteRT goes on with the largest number, not with infinity.
    """

    name = "fuse_mul_with_div"
    rules = (
        _Products.member(
            first="Mul|Div(x, a: const f32)", second="Mul|Div(m, b: const f32)", merged="Mul(x, c)"
        ),
        _Products.member(first="Mul|Div(x, a: const f32)", second="Div(b: const f32, m)", merged="Div(c, x)"),
    )


class _ProductLast(_Constants):
    """(x * a + b) * c  ==  x * (a * c) + b * c."""

    before = """
        m = Mul|Div(x, a: const f32)
        s = Add|Sub(m, b: const f32)
        z = Mul|Div(s, c: const f32)    {act: any = act}
    """
    after = """
        p = Mul(x, d)
        z = Add(p, e)                   {act: act}
    """

    @condition
    def is_no_quotient(self, m: Value) -> str | None:
        return quotient_refusal(m)

    def constants(self, match: Match) -> dict[str, Any]:
        return {"d": self.chain(match, 1.0, "a", "c"), "e": self.chain(match, 0.0, "b", "c")}


class _SumLast(_Constants):
    """(x + a) * b + c  ==  x * b + (a * b + c)."""

    before = """
        s = Add|Sub(x, a: const f32)
        m = Mul|Div(s, b: const f32)
        z = Add|Sub(m, c: const f32)    {act: any = act}
    """
    after = """
        p = Mul(x, d)
        z = Add(p, e)                   {act: act}
    """

    @condition
    def does_not_round(self, match: Match, a: Array) -> str | None:
        return size_refusal(match, a)

    @condition
    def does_not_cancel(self, match: Match, c: Array) -> str | None:
        scaled = self.chain(match, 0.0, "a", "b")
        return cancellation_refusal(match, self.chain(match, 0.0, "a", "b", "c"), scaled, c)

    def constants(self, match: Match) -> dict[str, Any]:
        return {"d": self.chain(match, 1.0, "b"), "e": self.chain(match, 0.0, "a", "b", "c")}


class FuseMulWithAdd(Rules):
    """(x * a + b) * c and (x + a) * b + c become one product and one sum.

    Quotients and differences do, too, if the constant is their second operand.
    Such chains come from the scaling and the normalization of images.
    """

    name = "fuse_mul_with_add"
    rules = (_ProductLast, _SumLast)
