# SPDX-License-Identifier: Apache-2.0
"""Move Reshapes behind the elementwise operators that use their result."""

from __future__ import annotations

import numpy as np

from circlekit.ir.graph import Graph
from circlekit.ir.op import Op
from circlekit.ir.value import Value
from circlekit.ops.dimensions import normalized_axis
from circlekit.ops.movement.shape import Reshape
from circlekit.ops.reduction.reduce import Mean
from circlekit.passes.support.conditions import is_determined
from circlekit.passes.support.reshape_region import move, only_operand
from circlekit.passes.support.sink import SinkPass, drop_unread, put_behind


class ForwardReshapeToUnaryOp(SinkPass):
    """f(reshape(x))  ==  reshape(f(x)) for an elementwise f of x alone, or of x and a constant number.

    Also for a MEAN that keeps its dimensions, over axes before those that the Reshape changes.
    """

    name = "forward_reshape_to_unaryop"
    kind = Reshape

    def obstacle(self, op: Op, moved: list[Value]) -> str | None:
        value, result = moved[0], op.output
        name = f"%{result.name}"
        source = _source(value)
        if (
            source.shape is None
            or not is_determined(result.shape)
            or source.quantization != value.quantization
        ):
            return f"%{value.name}: has other quantization than %{source.name}, or an unknown shape"
        if isinstance(op, Mean):
            return _mean_obstacle(op, source, value)
        if only_operand(op) is not value:
            return (
                f"{name}: expected an elementwise operator of one value and numbers, got {type(op).__name__}"
            )
        return None if value.rank == result.rank else f"{name}: is broadcast to another rank"

    def swap(self, graph: Graph, op: Op, moved: list[Value]) -> None:
        value, result = moved[0], op.output
        source, shape = _source(value), [-1 if d is None else d for d in result.shape or ()]
        name = graph.unique_name(f"{result.name}/{type(op).__name__}")
        inner = Value(name, result.dtype, source.shape, None, result.quantization)
        target = Value.constant(graph.unique_name(f"{result.name}/shape"), np.array(shape, np.int32))
        put_behind(graph, op, Reshape(inner, target, results=[], new_shape=tuple(shape)), inner)
        if isinstance(op, Mean):
            rank = len(value.shape or ())
            axes = np.array([a % rank for a in op.axis.array().reshape(-1)], np.int32)
            op.set_input(0, source)
            op.set_input(1, Value.constant(graph.unique_name(f"{result.name}/axis"), axes))
            inner.shape = op.inferred()[0].shape
        else:
            move(graph, op, {value: source}, source.shape, value)
        drop_unread(graph, moved)


def _source(value: Value) -> Value:
    assert isinstance(value.producer, Reshape)  # run_graph selects these
    return value.producer.input


def _mean_obstacle(op: Mean, source: Value, value: Value) -> str | None:
    name = f"%{op.output.name}"
    if not op.keep_dims or not op.axis.is_plain or op.input is not value:
        return f"{name}: expected a mean with keep_dims over constant axes"
    before, after = source.shape or (), value.shape or ()
    pairs = zip(before, after, strict=False)
    same = next((at for at, (a, b) in enumerate(pairs) if a != b or a is None), min(len(before), len(after)))
    axes = sorted(normalized_axis(int(a), len(after)) for a in op.axis.array().reshape(-1))
    if all(axis < same for axis in axes):
        return None
    return f"{name}: expected a mean over axes below {same}, which the Reshape keeps, got {axes}"
