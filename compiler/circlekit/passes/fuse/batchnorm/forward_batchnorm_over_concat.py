# SPDX-License-Identifier: Apache-2.0
"""Move factors and offsets per channel before a concatenation."""

from __future__ import annotations

import numpy as np

from circlekit.ir.dtypes import f32
from circlekit.ir.graph import Graph
from circlekit.ir.op import Op
from circlekit.ir.value import Value
from circlekit.ops.arithmetic.binary import Add, Mul
from circlekit.ops.dimensions import normalized_axis
from circlekit.ops.movement.join import Concatenation
from circlekit.passes.support.conditions import remove_unused
from circlekit.passes.support.linear_producer import channel_refusal, producer_refusal
from circlekit.rewrite.base import Context, GraphPass


class ForwardBatchNormOverConcat(GraphPass):
    """concat(x, y) * c  ==  concat(x * c1, y * c2) along the channels; the same for sums.

    Only where convolutions or fully connected layers, which can absorb it, make all parts: for example a
    grouped convolution that an exporter has split.  A plain pass, because a picture has a fixed number of
    operands.
    """

    name = "forward_batchnorm_over_concat"

    def run_graph(self, graph: Graph, context: Context) -> int:
        count = 0
        for op in graph.ops:
            if not isinstance(op, Add | Mul):
                continue
            data, constant = (op.rhs, op.lhs) if op.lhs.is_const else (op.lhs, op.rhs)
            if not isinstance(concat := data.producer, Concatenation):
                continue
            sentence = _refusal(graph, op, concat, constant)
            if sentence is not None:
                context.refuse(self.name, op, sentence, 4)
            elif context.may_rewrite:
                context.rewrites(op)
                _forward(graph, op, concat, constant)
                count += 1
        return count


def _refusal(graph: Graph, op: Add | Mul, concat: Concatenation, constant: Value) -> str | None:
    """Why ``op`` stays behind ``concat``."""
    y = concat.output
    if not constant.is_const:
        return f"%{constant.name}: is not constant"
    if y.dtype is not f32 or constant.dtype is not f32:
        return f"%{y.name}: expected f32, got {y.dtype.short}"
    if y.use_count > 1 or graph.is_output(y):
        return f"%{y.name}: has other users, or is an output of the graph"
    if y.shape is None or normalized_axis(concat.axis, len(y.shape)) != len(y.shape) - 1:
        return f"%{y.name}: expected a concatenation along the last axis, got axis {concat.axis}"
    if concat.act is not concat.act.NONE:
        return f"%{y.name}: act is {concat.act.name}, expected NONE"
    if any(v.shape is None or v.shape[-1] is None for v in concat.values):
        return f"%{y.name}: has parts of unknown size"
    sentences = (producer_refusal(v, isinstance(op, Add)) for v in concat.values)
    return channel_refusal(constant.array(), y) or next(filter(None, sentences), None)


def _forward(graph: Graph, op: Add | Mul, concat: Concatenation, constant: Value) -> None:
    numbers = constant.array().reshape(-1)
    sizes = [(v.shape or (None,))[-1] or 0 for v in concat.values]  # _refusal has checked that they are known
    parts = [numbers] * len(sizes) if numbers.size == 1 else np.split(numbers, np.cumsum(sizes)[:-1])
    values = []
    for value, part in zip(concat.values, parts, strict=True):
        number = Value.constant(graph.unique_name(f"{op.output.name}/part"), np.ascontiguousarray(part))
        new: Op = type(op)(value, number, act=op.act)
        values.append(graph.insert_before(op, new).output)
        values[-1].name = graph.unique_name(f"{op.output.name}/of")
    joined = graph.insert_before(op, Concatenation(*values, axis=concat.axis))
    joined.output.name = graph.unique_name(op.output.name)
    graph.replace(op.output, joined.output)
    remove_unused(graph, op)
    remove_unused(graph, concat)
