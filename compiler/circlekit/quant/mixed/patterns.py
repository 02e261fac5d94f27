# SPDX-License-Identifier: Apache-2.0
"""Named parts of models that lose most when they are quantized, as pictures: they are raised as a whole."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from circlekit.ir.graph import Graph
from circlekit.ir.op import Op
from circlekit.rewrite.match import Matcher
from circlekit.rewrite.picture import query


@dataclass(frozen=True)
class Pattern:
    """A part of a model.

    ``pictures``: alternatives.  ``is_front``: everything that the match is computed from belongs to it, and
    what follows until the next operator with weights.
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


def find_patterns(graph: Graph) -> list[tuple[str, list[Op]]]:
    """Return (name, operators) of each occurrence of a pattern in a float graph; fronts are joined."""
    found = []
    for pattern in PATTERNS:
        matches = [
            list(dict.fromkeys(match.ops.values()))
            for text in pattern.pictures
            for matcher in [Matcher(query(text, pattern.name), quantized=False)]
            for op in graph
            for match in matcher.matches(op)
        ]
        if pattern.is_front and matches:
            matches = [_front(graph, [op for ops in matches for op in ops])]
        found += [(pattern.name, ops) for ops in matches]
    return found


def _front(graph: Graph, ops: Iterable[Op]) -> list[Op]:
    """Return ``ops``, all that they are computed from, and what follows until the next weights."""
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
    rule = op.quantization_rule
    return rule is not None and bool(rule.weights)
