# SPDX-License-Identifier: Apache-2.0
"""Instance normalization, which exporters write as seven to fourteen operators."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

from circlekit.ir.graph import Graph
from circlekit.ops.reduction.reduce import Mean
from circlekit.passes.fuse.normalization.instnorm import InstanceNormForm
from circlekit.rewrite.base import Context
from circlekit.rewrite.rewrite import Rewrite, Rules

MEANS = """
    m = Mean({x}: f32, axes: const)     {keep_dims: true}
    m2 = Mean({x}, axes2: const)        {keep_dims: true}
"""

VARIANCE = "v = Mean(q, axes3: const)   {keep_dims: true}"

SQUARES = (
    "q = SquaredDifference({x}, m2)",
    "e = Sub({x}, m2);              q = Square(e)",
    "e = Sub({x}, m2);              q = Mul(e, e)",
)

EPSILON = "a = Add(v, eps: const f32[*, 1])"

QUOTIENTS = (
    f"d = Sub({{x}}, m); {EPSILON}; r = Rsqrt(a);                           n = Mul(d, r)",
    f"d = Sub({{x}}, m); {EPSILON}; r = Sqrt(a);                            n = Div(d, r)",
    f"d = Sub({{x}}, m); {EPSILON}; r = Pow(a, 0.5);                        n = Div(d, r)",
    "d = Sub({x}, m); o = Sqrt(v); r = Add(o, eps: const f32[*, 1]);        n = Div(d, r)",
)
"""(x - m) / sqrt(v + epsilon); the last has epsilon beside the root, which is almost the same.

In a pipeline a very small one only, see ``NEGLIGIBLE``.
"""

AFFINE = "{n}; t = Mul(n, g: const f32); z = Add(t, b: const f32)"

ROOT = f"{EPSILON}; r = Rsqrt(a)"
SCALE = f"{ROOT}; f = Mul(r, g: const f32)"

SUMS = (
    f"{SCALE}; d = Sub({{x}}, m); t = Mul(d, f);                        z = Add(t, b: const f32)",
    f"{SCALE}; p = Mul({{x}}, f); o = Mul(m, f); h = Sub(b: const f32, o); z = Add(p, h)",
    f"{ROOT}; p = Mul({{x}}, r); o = Mul(m, r); h = Sub(b: const f32, o);  z = Add(p, h)",
    f"{SCALE}; p = Mul({{x}}, f); i = Neg(m); o = Mul(i, f); h = Add(o, b: const f32);  z = Add(p, h)",
    f"{ROOT}; p = Mul({{x}}, r); i = Neg(m); o = Mul(i, r); h = Add(o, b: const f32);   z = Add(p, h)",
)
"""x * f + (beta - m * f) with f = gamma / sqrt(v + epsilon), and its like."""

ACTIVATION = "  {act: any = act}"
SHAPE = "   {new_shape: any}\n"


def _pictures() -> Iterator[tuple[str, bool]]:
    """Every picture, those of more operators first, and whether its epsilon is beside the root."""
    affine = [AFFINE.replace("{n}", n) for n in QUOTIENTS]
    alone = [n.replace("n = ", "z = ") for n in QUOTIENTS]
    for ending in (*SUMS, *affine, *alone):
        for square in SQUARES:
            text = MEANS + "; ".join((square, VARIANCE, ending)).replace("; ", "\n    ")
            yield text, "Sqrt(v)" in ending


def _form(text: str, outside: bool, reshaped: bool) -> type[InstanceNormForm]:
    """The pass of one picture, with the activation of its end, or with a Reshape on either side."""
    if reshaped:
        body = text.replace("{x}", "s").replace("z = ", "y = ")
        picture = f"s = Reshape(x, to?) {SHAPE}{body}\nz = Reshape(y, back?) {SHAPE}"
    else:
        picture = text.replace("{x}", "x") + ACTIVATION
    flag = outside

    class Form(InstanceNormForm):
        before = picture
        outside = flag

    return Form


class FuseInstNorm(Rules):
    """gamma * (x - mean(x)) / sqrt(variance(x) + epsilon) + beta  ==  instance_norm(x, gamma, beta)."""

    name = "fuse_instnorm"
    formats = frozenset({"circle"})

    @classmethod
    @cache
    def members(cls) -> tuple[type[Rewrite], ...]:
        made = tuple(_form(*p, reshaped) for reshaped in (True, False) for p in _pictures())
        for rule in made:
            rule.name = cls.name
        return made

    def run_graph(self, graph: Graph, context: Context) -> int:
        if not any(isinstance(op, Mean) for op in graph.ops):  # the pictures are many: not for nothing
            return 0
        return super().run_graph(graph, context)
