# SPDX-License-Identifier: Apache-2.0
"""Patterns: parts of models, described by pictures, that often lose much precision in quantization.

A picture is a small graph as text.  Mixed precision raises all operators of such a part together: it computes
them in a higher precision than the others.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from circlekit.ir.graph import Graph
from circlekit.ir.op import Op
from circlekit.rewrite.match import Matcher
from circlekit.rewrite.picture import query


@dataclass(frozen=True)
class Pattern:
    """A description of parts of models.

    ``pictures``: texts of alternative pictures.
    ``is_front``: the part also has all operators on which a match depends, and the operators that follow any
    of these, up to the next operator with weights.
    """

    name: str
    pictures: tuple[str, ...]
    is_front: bool = False


PATTERNS = (
    Pattern(
        "spectrogram front",
        (
            "s = Square(x: f32)  p = Sum(s, axes)",
            "s = Mul(x: f32, x)  p = Sum(s, axes)",
            "a = Square(x: f32)  b = Square(y)  p = Add(a, b)",
            "a = Mul(x: f32, x)  b = Mul(y, y)  p = Add(a, b)",
            "p = Log(x: f32)",
        ),
        is_front=True,
    ),
    Pattern(
        "variance of a layer norm",
        (
            "d = SquaredDifference(x: f32, m)  v = Mean(d, axes)",
            "c = Sub(x: f32, m)  d = Square(c)  v = Mean(d, axes)",
            "c = Sub(x: f32, m)  d = Mul(c, c)  v = Mean(d, axes)",
            "r = Rsqrt(x: f32)",
        ),
    ),
    Pattern("softmax", ("e = Exp(x: f32)  s = Sum(e, axes)  z = Div(e, s)", "z = Softmax(x: f32)")),
)
"""The parts that often lose much precision.

Squares, exponentials and reciprocal roots have large and small results, of which the small ones count, too.
The equally spaced numbers of a quantized tensor suit only the large ones.
"""


def find_patterns(graph: Graph) -> list[tuple[str, list[Op]]]:
    """Return (name, operators) for each part of the float ``graph`` that matches a pattern.

    All matches of a pattern with ``is_front`` are one part.
    """
    found = []
    for pattern in PATTERNS:
        matchers = [Matcher(query(text, pattern.name), quantized=False) for text in pattern.pictures]
        matches = (match for matcher in matchers for op in graph for match in matcher.matches(op))
        # once each: a commutative operator may match in both orders
        distinct = dict.fromkeys(tuple(dict.fromkeys(match.ops.values())) for match in matches)
        parts = [list(ops) for ops in distinct]
        if pattern.is_front and parts:
            parts = [_front(graph, [op for ops in parts for op in ops])]
        found += [(pattern.name, ops) for ops in parts]
    return found


def _front(graph: Graph, ops: Iterable[Op]) -> list[Op]:
    """Return ``ops``, all operators on which they depend, and the operators that follow any of these.

    An operator with weights that follows is not in the result, and nothing is followed beyond it.
    The result has the order of the graph.
    """
    front = set(ops)
    order = list(graph)
    for op in reversed(order):
        if any(user in front for value in op.results for user in value.users):
            front.add(op)
    for op in order:
        computed = [v.producer for v in op.inputs if v is not None and v.producer is not None]
        if op not in front and not _has_weights(op) and any(p in front for p in computed):
            front.add(op)
    return [op for op in order if op in front]


def _has_weights(op: Op) -> bool:
    """Return whether the quantization rule of ``op`` names operands that hold weights."""
    rule = op.quantization_rule
    return rule is not None and bool(rule.weights)
