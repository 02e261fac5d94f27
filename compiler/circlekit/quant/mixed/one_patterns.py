# SPDX-License-Identifier: Apache-2.0
"""Find operators that two patterns of ONE's circle-mpqsolver raise to int16.  Source: ONE's repository."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from circlekit.ir.graph import Graph
from circlekit.ir.op import Op
from circlekit.ops.constant_operands import constant_elements
from circlekit.rewrite.match import Match, Matcher
from circlekit.rewrite.picture import query

LAYER_NORM = """
    m = Mean(x: f32, axes)  s = Sub(x, m)  q = Mul(s, s)  v = Mean(q, variance_axes)
    e = Add(v, epsilon: const)  r = Rsqrt(e)  z = Mul(s, r)
"""
SOFTMAX = """
    m = ReduceMax(x: f32, max_axes) {keep_dims: true}  s = Sub(x, m)  e = Exp(s)
    t = Sum(e, sum_axes) {keep_dims: true}  z = Div(e, t)
"""
"""LAYER_NORM and SOFTMAX are the pictures of ONE's two patterns; omitted attributes may have any value.

Names in LAYER_NORM: ``m`` mean, ``s`` x - mean, ``q`` its square, ``v`` variance, ``e`` variance + epsilon,
``r`` 1 / sqrt(e).  In SOFTMAX: ``m`` maximum, ``s`` x - maximum, ``e`` exp(s), ``t`` the sum of ``e``.
"""


def _layer_norm_variances(graph: Graph) -> list[Op]:
    """Return the operators of layer norms that compute 1 / sqrt(variance + epsilon)."""
    found = []
    for match in _matches(graph, LAYER_NORM, "layer norm"):
        axes, others = (_axes(match, name) for name in ("axes", "variance_axes"))
        if axes is not None and axes == others and match.value("epsilon").array().size == 1:
            found += [match.ops[name] for name in ("q", "v", "e", "r")]
    return found


def _softmax_exponents(graph: Graph) -> list[Op]:
    """Return the SUB and the EXP of softmaxes over the last axis."""
    found = []
    for match in _matches(graph, SOFTMAX, "softmax"):
        if _axes(match, "max_axes") == _axes(match, "sum_axes") == {-1}:
            found += [match.ops["s"], match.ops["e"]]
    return found


ONE_PATTERNS: Mapping[str, Callable[[Graph], list[Op]]] = {
    "u8_layernorm_with_s16_variance": _layer_norm_variances,
    "u8_softmax_with_s16_sub_exp": _softmax_exponents,
}
"""{name of ONE's option: function that returns the operators of a graph that the option raises to int16}."""


def _matches(graph: Graph, text: str, label: str) -> Iterable[Match]:
    """Return the matches of the picture ``text`` in ``graph``; ``label``: its name in messages."""
    matcher = Matcher(query(text, label), quantized=False)
    return (match for op in graph for match in matcher.matches(op))


def _axes(match: Match, name: str) -> set[int] | None:
    """Return the axes of the operand ``name``, counted from the end (-1).

    Return None if they are not constant, or if the rank of ``x`` is unknown or 0.
    """
    axes, rank = match.value(name), match.value("x").rank
    if not axes.is_const or not rank:
        return None
    return {int(axis) % rank - rank for axis in constant_elements(axes).reshape(-1)}
