# SPDX-License-Identifier: Apache-2.0
"""Write layer normalizations of several exporters in the form that reads and writes the data least often."""

from __future__ import annotations

from itertools import product
from typing import ClassVar

from circlekit.ir.value import Array, Value, format_shape
from circlekit.ops.constant_operands import int_list
from circlekit.ops.reduction.reduce import reduced_axes
from circlekit.passes.support.conditions import broadcast_refusal, provably_equal
from circlekit.rewrite.match import Match
from circlekit.rewrite.rewrite import Rewrite, Rules, condition


class _LayerNorm(Rewrite):
    """(x - m) / sqrt(variance + epsilon) * gamma + beta, as one of the exporters writes it.

    In the pictures, ``g`` is gamma and ``b`` is beta, if present; ``axes`` are the axes of the mean ``m``.
    """

    shared: ClassVar[tuple[str, ...]] = ("m",)

    # $square: one of SQUARES.  $ending: the rest of the form.  $result: what replaces $ending; it may use
    # d = x - m and k = 1 / sqrt(variance + epsilon)
    before = """
        m = Mean(x: f32, axes: const)       {keep_dims: true}
        $square
        v = Mean(q, axes2: const)           {keep_dims: true}
        a = Add(v, eps: const f32[*, 1])
        $ending
    """
    after = """
        d = Sub(x, m)
        s = Square(d)
        w = Mean(s, axes)                   {keep_dims: true}
        c = Add(w, eps)
        k = Rsqrt(c)
        $result
    """

    @condition
    def means_over_the_same_axes(self, x: Value, axes: Array, axes2: Array) -> str | None:
        """Mean and variance are over the same axes, and the last axis is one of them."""
        first, second = (sorted(reduced_axes(int_list(numbers), x.known_rank)) for numbers in (axes, axes2))
        if first != second:
            return f"%{x.name}: expected a mean and a variance over the same axes, got {first} and {second}"
        if x.known_rank - 1 in first:
            return None
        return f"%{x.name}: expected a mean over the last axis, got axes {first}"

    @condition
    def result_has_the_shape_of_x(self, match: Match) -> str | None:
        """Broadcasting gamma and beta does not change the shape of ``x``."""
        constants = [match.values[name] for name in ("g", "b") if name in match.values]
        refusals = (broadcast_refusal(match.value("x"), value) for value in constants if value is not None)
        return next(filter(None, refusals), None)

    @condition
    def f_and_h_are_as_large_as_x(self, match: Match) -> str | None:
        """If there is a gamma, ``f`` has the shape of ``x``; if there is a beta, ``h`` has this shape.

        Otherwise the present operators are cheaper, for example if gamma is one number, or if there is no
        gamma and beta is one number.  For ``f`` and ``h`` see FACTORS and SUMS.
        """
        x = match.value("x")
        for name, constant in (("f", "g"), ("h", "b")):
            small = match.values.get(name)
            if constant in match.values and small is not None and small.shape != x.shape:
                shapes = f"the shape of %{x.name}, {format_shape(x.shape)}, got {format_shape(small.shape)}"
                return f"%{small.name}: expected {shapes}; the operators on smaller values are cheaper"
        return None


SQUARES = (
    "q = SquaredDifference(x, m)",
    "e = Sub(x, m)  q = Square(e)",
    "e = Sub(x, m)  q = Mul(e, e)",
    "e = Sub(x, m)  q = Pow(e, 2.0)",
)
"""q = (x - m)^2, whose mean is the variance v."""

FACTORS = {
    "r = Rsqrt(a)  f = Mul(r, g: const f32)": "n = Mul(d, k)  $y = Mul(n, g)",
    "f = Rsqrt(a)": "$y = Mul(d, k)",
}
"""f = gamma / sqrt(variance + epsilon), with or without gamma, and the new form of (x - m) * f.

``$y`` is the name of the new result: ``y`` if beta is added to the result, else ``z``.
"""

SUMS = {
    "p = Mul(x, f)  i = Neg(m)  o = Mul(i, f)  z = Add(p, o)": "",
    "p = Mul(x, f)  o = Mul(m, f)  z = Sub(p, o)": "",
    "p = Mul(x, f)  o = Mul(m, f)  h = Sub(0.0, o)  z = Add(p, h)": "",
    "p = Mul(x, f)  o = Mul(m, f)  h = Sub(b: const f32, o)  z = Add(p, h)  {act: any = act}":
    "z = Add(y, b)  {act: act}",
    "p = Mul(x, f)  i = Neg(m)  o = Mul(i, f)  h = Add(o, b: const f32)  z = Add(p, h)  {act: any = act}":
    "z = Add(y, b)  {act: act}",
}  # fmt: skip
"""x * f - m * f + beta, with or without beta, and the new form of the addition of beta."""

SEPARATE_PRODUCTS = tuple(
    _LayerNorm.member(
        square=square,
        ending=f"{factor}  {total}",
        result=f"{product_of_d.replace('$y', 'y' if addition else 'z')}  {addition}",
    )
    for square, (factor, product_of_d), (total, addition) in product(SQUARES, FACTORS.items(), SUMS.items())
)
"""The forms that multiply x and m by f separately: every combination of SQUARES, FACTORS and SUMS."""

TWO_DIFFERENCES = _LayerNorm.members(
    square=SQUARES[:1],
    ending=("d0 = Sub(x, m)  r = Rsqrt(a)  z = Mul(d0, r)", "d0 = Sub(x, m)  r = Sqrt(a)  z = Div(d0, r)"),
    result=("z = Mul(d, k)",),
)
"""The forms that compute x - m twice: (x - m) / sqrt(v + epsilon) with v = mean(SquaredDifference(x, m))."""


class _FusedBatchNorm(_LayerNorm):
    """x * r + (0 - m * r) with mean m and r = 1 / sqrt(variance + epsilon), both without the reduced axes.

    Keras computes a layer normalization by FusedBatchNorm; TensorFlow's converter writes it in this form.
    """

    shared = ()  # the new form has a mean of its own: with another user of ``m``, both would be computed

    before = """
        m = Mean(x: f32, axes: const)       {keep_dims: false}
        i = Reshape(m, shape1?)             {new_shape: any}
        q = SquaredDifference(x, i)
        v = Mean(q, axes2: const)           {keep_dims: false}
        a = Add(v, eps: const f32[*, 1])
        r = Rsqrt(a)
        o = Mul(m, r)
        n = Sub(0.0, o)
        j = Reshape(r, shape2?)             {new_shape: any}
        p = Mul(x, j)
        h = Reshape(n, shape3?)             {new_shape: any}
        z = Add(p, h)                       {act: any = act}
    """
    after = """
        e = Mean(x, axes)                   {keep_dims: true}
        d = Sub(x, e)
        s = Square(d)
        w = Mean(s, axes)                   {keep_dims: true}
        c = Add(w, eps)
        k = Rsqrt(c)
        z = Mul(d, k)                       {act: act}
    """

    @condition
    def restore_the_reduced_axes(self, match: Match, x: Value, axes: Array) -> str | None:
        """The Reshapes only put the reduced axes back, as dimensions of 1."""
        reduced = reduced_axes(int_list(axes), x.known_rank)
        kept = tuple(1 if axis in reduced else size for axis, size in enumerate(x.known_shape))
        for value in map(match.value, "ijh"):
            if not provably_equal(kept, value.shape):
                return f"%{value.name}: expected {format_shape(kept)}, got {format_shape(value.shape)}"
        return None


class _GammaLast(Rewrite):
    """x * (r * gamma)  ==  (x * r) * gamma, if r * gamma has the shape of x, and r has another shape.

    So r has fewer elements than x, or a lower rank.
    """

    before = """
        r = Rsqrt(a)
        f = Mul(r, g: const f32)
        z = Mul(x: f32, f)
    """
    after = """
        n = Mul(x, r)
        z = Mul(n, g)
    """
    shared = ("r",)

    @condition
    def factor_is_as_large_as_x(self, x: Value, f: Value, r: Value, z: Value) -> str | None:
        """``f`` and ``z`` have the shape of ``x``, and ``r`` has another shape."""
        if x.shape is not None and x.shape == f.shape == z.shape != r.shape:
            return None
        return f"%{f.name}: expected the shape of %{x.name}, other than that of %{r.name}"


class FuseLayerNorm(Rules):
    """x * f + (beta - mean(x) * f)  ==  d * r * gamma + beta with d = x - mean(x) and r = f / gamma.

    r is 1 / sqrt(variance + epsilon).  If there is a gamma, the new form computes d and d * r instead of f,
    x * f and mean(x) * f: two values of the size of x instead of three.  gamma and beta come last, where the
    next layer can absorb them, and the pass ``fuse_rmsnorm`` recognizes d * r.
    """

    name = "fuse_layernorm"
    rules = (*SEPARATE_PRODUCTS, *TWO_DIFFERENCES, _FusedBatchNorm, _GammaLast)
