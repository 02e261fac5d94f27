# SPDX-License-Identifier: Apache-2.0
"""Let reductions that drop the reduced dimensions read channels-last data."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import numpy as np

from circlekit.ir.graph import Graph
from circlekit.ir.value import Value
from circlekit.ops.constant_operands import static_int_vector
from circlekit.ops.movement.shape import Transpose
from circlekit.ops.reduction.reduce import Reduction
from circlekit.passes.layout.apply import Constants
from circlekit.passes.layout.axes import inverse
from circlekit.passes.layout.nhwc import NCHW, TO_NCHW, TO_NHWC
from circlekit.passes.layout.region import constant_perm


def move_reductions(graph: Graph, sides: Mapping[Value, int], codes: Collection[str]) -> int:
    """Let the reductions in ``codes`` read NHWC instead of NCHW values; return how many changed.

    A transpose restores the order of the remaining dimensions where it changes.
    """
    constants = Constants(graph)
    reductions = [op for op in graph.ops if isinstance(op, Reduction) and op.code in codes]
    found = [op for op in reductions if _can_move(op, sides)]
    for op in found:
        _move(graph, op, constants)
    return len(found)


def _can_move(op: Reduction, sides: Mapping[Value, int]) -> bool:
    source = op.input
    if op.keep_dims or (source.quantization is not None and source.quantization.is_per_channel):
        return False
    if static_int_vector(op.axis) is None or source.is_const or source.is_variable:
        return False
    return _channels_last(source) is not None or sides.get(source) == NCHW


def _channels_last(value: Value) -> Value | None:
    """Return the NHWC value of which ``value`` is the transpose, None if there is none."""
    producer = value.producer
    if not isinstance(producer, Transpose) or constant_perm(producer) != TO_NCHW:
        return None
    return producer.input if producer.input.quantization == value.quantization else None


def _move(graph: Graph, op: Reduction, constants: Constants) -> None:
    axes = op.normalized_axes(static_int_vector(op.axis) or [], 4)
    source = _channels_last(op.input)
    if source is None:
        move = Transpose(op.input, constants.vector("perm", TO_NHWC))
        graph.insert_before(op, move)
        source = move.output
    dropped = op.input
    op.input = source
    op.axis = constants.new(op.axis.name, np.array([TO_NHWC.index(a) for a in axes], np.int32))
    _remove_unused(graph, dropped)
    left = [axis for axis in TO_NHWC if axis not in axes]
    if left == sorted(left):
        return
    order = inverse(tuple(left.index(axis) for axis in sorted(left)))
    result = op.output
    assert result.shape is not None
    shape = tuple(result.shape[axis] for axis in order)
    made = Value(graph.unique_name(result.name), result.dtype, shape, None, result.quantization)
    op.take_result(0, made)
    back = inverse(order)
    graph.insert_after(op, Transpose(made, constants.vector("perm", back), results=[result]))


def _remove_unused(graph: Graph, value: Value) -> None:
    """Remove the transpose that produces ``value`` if it has no use left."""
    if isinstance(value.producer, Transpose) and not value.use_count and not graph.is_output(value):
        graph.remove(value.producer)
