# SPDX-License-Identifier: Apache-2.0
"""Factors and offsets of channels behind a concatenation, as those of its parts."""

from __future__ import annotations

import numpy as np

from circlekit.ir.dtypes import f32
from circlekit.ir.graph import Graph
from circlekit.ir.op import Op
from circlekit.ir.value import Value
from circlekit.ops.arithmetic.binary import Add, Mul
from circlekit.ops.dimensions import normalized_axis
from circlekit.ops.movement.join import Concatenation
from circlekit.passes.support.conditions import remove_unread
from circlekit.passes.support.linear_producer import not_from_product, not_per_channel
from circlekit.rewrite.base import Context, GraphPass


class ForwardBatchNormOverConcat(GraphPass):
    """concat(x, y) * c  ==  concat(x * c1, y * c2) along the channels, and so for sums.

    Only where convolutions or fully connected layers make all parts, which can take it: a grouped
    convolution that an exporter has taken apart, say.  A concatenation has any number of operands, so this
    is no picture.
    """

    name = "forward_batchnorm_over_concat"

    def run_graph(self, graph: Graph, context: Context) -> int:
        count = 0
        for op in graph.ops:
            if not isinstance(op, Add | Mul) or not isinstance(concat := _data(op).producer, Concatenation):
                continue
            sentence = _refusal(graph, op, concat)
            if sentence is not None:
                context.refuse(self.name, op, sentence, 4)
            elif context.may_rewrite:
                context.rewrites(op)
                _forward(graph, op, concat)
                count += 1
        return count


def _data(op: Add | Mul) -> Value:
    """The operand that is no constant, if there is one."""
    return op.rhs if op.lhs.is_const else op.lhs


def _refusal(graph: Graph, op: Add | Mul, concat: Concatenation) -> str | None:
    """Why ``op`` stays behind ``concat``."""
    y, constant = concat.output, op.lhs if op.lhs.is_const else op.rhs
    if not constant.is_const:
        return f"%{constant.name}: is no constant"
    if y.dtype is not f32 or constant.dtype is not f32:
        return f"%{y.name}: is {y.dtype.short}, f32 is wanted"
    if y.use_count > 1 or graph.is_output(y):
        return f"%{y.name}: is read elsewhere, too"
    if y.shape is None or normalized_axis(concat.axis, len(y.shape)) != len(y.shape) - 1:
        return f"%{y.name}: joins along axis {concat.axis}, the last is wanted"
    if concat.act is not concat.act.NONE:
        return f"%{y.name}: act is {concat.act.name}, NONE is wanted"
    if any(v.shape is None or v.shape[-1] is None for v in concat.values):
        return f"%{y.name}: joins parts of unknown size"
    sentences = (not_from_product(v, isinstance(op, Add)) for v in concat.values)
    return not_per_channel(constant.array(), y) or next(filter(None, sentences), None)


def _forward(graph: Graph, op: Add | Mul, concat: Concatenation) -> None:
    constant = (op.lhs if op.lhs.is_const else op.rhs).array().reshape(-1)
    sizes = [(v.shape or (None,))[-1] or 0 for v in concat.values]  # all known, see _refusal
    parts = [constant] * len(sizes) if constant.size == 1 else np.split(constant, np.cumsum(sizes)[:-1])
    values = []
    for value, part in zip(concat.values, parts, strict=True):
        number = Value.constant(graph.unique_name(f"{op.output.name}/part"), np.ascontiguousarray(part))
        new: Op = type(op)(value, number, act=op.act)
        values.append(graph.insert_before(op, new).output)
        values[-1].name = graph.unique_name(f"{op.output.name}/of")
    joined = graph.insert_before(op, Concatenation(*values, axis=concat.axis))
    joined.output.name = graph.unique_name(op.output.name)
    graph.replace(op.output, joined.output)
    remove_unread(graph, op)
    remove_unread(graph, concat)
