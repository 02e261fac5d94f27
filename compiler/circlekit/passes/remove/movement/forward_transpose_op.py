# SPDX-License-Identifier: Apache-2.0
"""Move Transposes behind the elementwise operators that use their result."""

from __future__ import annotations

import numpy as np

from circlekit.ir.graph import Graph
from circlekit.ir.op import Op
from circlekit.ir.value import Value
from circlekit.ops.dimensions import broadcast_shapes, normalized_axis
from circlekit.ops.movement.shape import Transpose
from circlekit.passes.support.conditions import same_quantization
from circlekit.passes.support.sink import SinkPass, drop_unread, put_behind


class ForwardTranspose(SinkPass):
    """f(transpose(x))  ==  transpose(f(x)) for an elementwise f.

    A second operand is a constant, which is transposed by the inverse, or comes from a Transpose with the
    same perm.
    """

    name = "forward_transpose_op"
    kind = Transpose

    def obstacle(self, op: Op, moved: list[Value]) -> str | None:
        name = f"%{op.output.name}"
        if not op.elementwise:
            return f"{name}: expected an elementwise operator, got {type(op).__name__}"
        perms = [_perm(v) for v in moved]
        if None in perms or any(p != perms[0] for p in perms):
            return f"{name}: expected one constant perm for all operands, got {perms}"
        rescaled = next((s for v in moved if (s := same_quantization(_source(v), v)) is not None), None)
        if rescaled is not None:
            return rescaled
        for value in op.inputs:
            if value is not None and value not in moved and not is_movable_constant(value):
                return f"%{value.name}: expected a constant or the result of a Transpose"
        if any(v.rank != op.output.rank for v in moved):
            return f"{name}: expected the rank of %{moved[0].name}, got another one"
        if any(v is not None and (v.rank or 0) > (moved[0].rank or 0) for v in op.inputs):
            return f"{name}: a constant has more dimensions than %{moved[0].name}"
        return None

    def swap(self, graph: Graph, op: Op, moved: list[Value]) -> None:
        first = moved[0].producer
        assert isinstance(first, Transpose)  # run_graph selects these
        perm, permutation = _perm(moved[0]), first.perm
        assert perm is not None  # obstacle has checked it
        inverse = tuple(int(a) for a in np.argsort(perm))
        for index, value in enumerate(list(op.inputs)):
            assert value is not None  # elementwise operators have no optional operands
            if isinstance(value.producer, Transpose):
                op.set_input(index, _source(value))
            elif value.numel > 1:
                data = value.array().reshape((1,) * (len(perm) - (value.rank or 0)) + value.static_shape)
                name = graph.unique_name(f"{value.name}/Transpose")
                back = np.ascontiguousarray(data.transpose(inverse))
                op.set_input(index, Value.constant(name, back, value.quantization))
        shape: tuple[int | None, ...] | None = ()
        for value in op.inputs:
            shape = None if value is None else broadcast_shapes(shape, value.shape)
        result = op.output
        name = graph.unique_name(f"{result.name}/{type(op).__name__}")
        inner = Value(name, result.dtype, shape, None, result.quantization)
        put_behind(graph, op, Transpose(inner, permutation, results=[]), inner)
        drop_unread(graph, moved)


def is_movable_constant(value: Value) -> bool:
    """Whether ``value`` is a constant that can be transposed."""
    per_channel = value.quantization is not None and value.quantization.is_per_channel
    return value.is_plain and not value.is_variable and not per_channel


def _source(value: Value) -> Value:
    assert isinstance(value.producer, Transpose)  # run_graph selects these
    return value.producer.input


def _perm(value: Value) -> list[int] | None:
    op = value.producer
    if not isinstance(op, Transpose) or not op.perm.is_plain:
        return None
    return [normalized_axis(int(a), op.perm.numel) for a in op.perm.array().reshape(-1)]
