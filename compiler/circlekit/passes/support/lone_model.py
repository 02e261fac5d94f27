# SPDX-License-Identifier: Apache-2.0
"""Make a model of one operator, to ask a target whether it runs the operator."""

from __future__ import annotations

import numpy as np

from circlekit.ir.graph import Graph, Model
from circlekit.ir.op import Op, OpaqueOp
from circlekit.ir.value import Value


def can_stand_alone(op: Op) -> bool:
    """Return whether ``lone_model`` can be called for ``op``: it has a declaration and calls no graphs."""
    return not isinstance(op, OpaqueOp) and not op.called_graphs()


def lone_model(op: Op) -> Model:
    """Return a model that contains only a copy of ``op``.

    Its inputs are copies of the operands of ``op`` that are not constant.  But an operand of known shape that
    constant folding can compute becomes a constant; its elements are not computed here: zeros stand for them.
    """
    inputs = {value: _copy(value) for value in op.inputs if value is not None}
    for value, copy in inputs.items():
        if not value.is_const and value.is_static and is_folded(value) and value.dtype.numpy is not None:
            copy.data = np.zeros(value.static_shape, value.dtype.numpy)
    results = [_copy(value) for value in op.results]
    copies = [None if value is None else inputs[value] for value in op.inputs]
    graph = Graph("main", [copy for copy in inputs.values() if not copy.is_const], results)
    graph.append(type(op)(*copies, results=results, **op.attribute_values))
    return Model([graph])


def is_folded(value: Value, depth: int = 4) -> bool:
    """Return whether ``value`` is constant, or computed from constants by pure operators.

    ``depth``: if there are more operators than this in a row, return False.
    """
    values = {value}
    for _ in range(depth):
        ops = {v.producer for v in values if not v.is_const}
        if not all(op is not None and op.pure for op in ops):
            return False
        values = {v for op in ops if op is not None for v in op.inputs if v is not None}
    return all(v.is_const for v in values)


def _copy(value: Value) -> Value:
    """Return a new value like ``value``, with the same data but without a producer."""
    copy = Value(value.name, value.dtype, value.shape, value.data, value.quantization)
    copy.extra = dict(value.extra)
    return copy
