# SPDX-License-Identifier: Apache-2.0
"""Explain why operators or constants that look equal are not merged."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from circlekit.ir.graph import Graph
from circlekit.ir.op import Op
from circlekit.ir.value import Value
from circlekit.passes.support.constant_equality import graph_constants

Miss = tuple[Op, str, int]
"""The operator, the sentence, and the progress of the comparison."""


def different_operators(graph: Graph) -> Iterator[Miss]:
    """Yield operators of the kind of an earlier one with which they share an operand, and how they differ."""
    known: dict[tuple[str, int], Op] = {}
    for op in graph:
        values = [v for v in op.inputs if v is not None]
        if not op.results or not values:
            continue
        first = next((known[key] for v in values if (key := (op.code, id(v))) in known), None)
        for value in values:
            known.setdefault((op.code, id(value)), op)
        if first is None or first is op:
            continue
        if not op.pure:
            yield op, f"%{op.output.name}: {op.code} has another result in each run", 1
        else:
            yield op, *_difference(op, first)


def _difference(op: Op, first: Op) -> tuple[str, int]:
    name, other = op.output.name, first.output.name
    for a, b in zip(op.inputs, first.inputs, strict=False):
        if a is not b and (a is None or b is None or not _same(a, b)):
            read = ["nothing" if v is None else f"%{v.name}" for v in (a, b)]
            return f"%{name}: reads {read[0]}, but %{other} reads {read[1]}", 1
    for key, value in op.attribute_items().items():
        if value != first.attribute_items().get(key):
            return f"%{name}: {key} is {value}, but {first.attribute_items().get(key)} in %{other}", 2
    return f"%{name}: is {op.output.type}, but %{other} is {first.output.type}", 2


def different_constants(graph: Graph) -> Iterator[tuple[Value, str, int]]:
    """Yield constants of the shape of an earlier one, and how they differ."""
    alike: dict[tuple[int, ...], Value] = {}
    for value in graph_constants(graph):
        first = alike.setdefault(value.array().shape, value)
        if first is value:
            continue
        name, other = value.name, first.name
        if value.dtype is not first.dtype:
            yield value, f"%{name}: is {value.dtype.short}, %{other} is {first.dtype.short}", 1
        elif value.quantization != first.quantization:
            yield value, f"%{name}: has other quantization parameters than %{other}", 1
        elif np.array_equal(value.array(), first.array()):
            yield value, f"%{name}: equals %{other}, but has other bits, such as 0.0 and -0.0", 2
        else:
            yield value, f"%{name}: has other elements than %{other}", 1


def _same(a: Value, b: Value) -> bool:
    return a.is_plain and b.is_plain and a.type == b.type and np.array_equal(a.array(), b.array())
