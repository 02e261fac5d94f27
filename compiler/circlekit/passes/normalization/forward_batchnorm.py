# SPDX-License-Identifier: Apache-2.0
"""Move constant factors and offsets of channels up the graph, next to the linear operator that absorbs them.

A linear operator is a convolution or a fully connected layer.  The passes whose names begin with ``fuse_``
then fold the factors into its weights and bias, and the offsets into its bias.
"""

from __future__ import annotations

from itertools import dropwhile

import numpy as np

from circlekit.ir.dtypes import f32
from circlekit.ir.enums import Activation
from circlekit.ir.graph import Graph
from circlekit.ir.op import Op
from circlekit.ir.value import Array, Value, format_shape
from circlekit.ops.arithmetic.binary import Add, Mul
from circlekit.ops.constant_operands import static_int_vector
from circlekit.ops.convolution.pool import AveragePool2D
from circlekit.ops.dimensions import known_dims, normalized_axis
from circlekit.ops.movement.join import Concatenation
from circlekit.ops.movement.pad import Pad
from circlekit.ops.movement.resize_images import Resize
from circlekit.ops.movement.shape import Reshape, Transpose, checked_perm
from circlekit.ops.movement.slice import StridedSlice
from circlekit.ops.reduction.reduce import Mean
from circlekit.passes.support.axes import last_axis_stride
from circlekit.passes.support.conditions import broadcast_refusal, remove_unused
from circlekit.passes.support.insertion import Inserter
from circlekit.passes.support.linear_producer import channel_refusal, producer_refusal
from circlekit.rewrite.base import Context, GraphPass
from circlekit.rewrite.match import Match
from circlekit.rewrite.rewrite import Rewrite, Rules, condition

MOVES = (
    "Reshape|Squeeze|ExpandDims|Slice|StridedSlice|BatchToSpaceND|Transpose|Pad|AveragePool2D|Mean"
    "|ResizeBilinear|ResizeNearestNeighbor"
)
"""Operators that move elements, or average them with weights whose sum is 1.

A factor or an offset per channel may be applied before them instead of after them.  There is one exception:
an offset stays after a Pad, because it is also added to the zeros of the padding.
"""


class ForwardBatchNorm(Rewrite):
    """move(x) * c  ==  move(x * d), and the same for sums, if x comes from a linear operator.

    ``move``: an operator that moves, interpolates or averages elements, such as Reshape, Slice, Pad or Mean.
    An offset does not move before a Pad.  ``p``, ``q``, ``r``: the further operands of ``move``, if any.
    Channels are the indices of the last axis of ``x``.  ``d``: a vector of one number, or of one for each
    channel.  ``c`` has the numbers of ``d``; after a Reshape, it may repeat them.
    """

    name = "forward_batchnorm"

    before = f"""
        y = {MOVES}(x, p?, q?, r?)
        z = Add|Mul(y, c: const f32)
    """
    after = f"""
        m = Add|Mul(x, d)                   {{like z}}
        z = {MOVES}(m, p?, q?, r?)          {{like y}}
    """

    @condition
    def follows_a_linear_operator(self, x: Value, match: Match) -> str | None:
        """A linear operator before ``x`` can absorb the factor or the offset."""
        return producer_refusal(x, isinstance(match.ops["z"], Add))

    @condition
    def commutes(self, match: Match) -> str | None:
        """``c`` is not an offset after a Pad.  Neither operator has an activation if ``move`` averages."""
        y, z = match.ops["y"], match.ops["z"]
        if isinstance(y, Pad) and isinstance(z, Add):
            return f"%{y.output.name}: pads with zeros, which do not get the offset"
        if isinstance(y, AveragePool2D | Mean | Resize):
            for op in (y, z):
                act = op.attribute_items().get("act", Activation.NONE)
                if act is not Activation.NONE:
                    return f"%{op.output.name}: act is {act.name}, expected NONE"
        return None

    @condition
    def is_per_channel(self, match: Match, c: Array, x: Value, y: Value) -> str | None:
        """``c`` has one number, or one for each channel of ``x``; after a Reshape, it may repeat these."""
        if isinstance(match.ops["y"], Transpose):
            return _transposed_refusal(c, x, match)
        if isinstance(match.ops["y"], Reshape) and _without_repeats(c, x, y) is not None:
            return None if c.size == 1 else broadcast_refusal(y, match.value("c"))
        return _order_refusal(match.ops["y"], x, y) or channel_refusal(c, y)

    def constants(self, match: Match, c: Array, x: Value, y: Value) -> dict[str, Array]:
        row = _without_repeats(c, x, y) if isinstance(match.ops["y"], Reshape) else None
        return {"d": c.reshape(-1) if row is None else row}


def _order_refusal(op: Op, x: Value, y: Value) -> str | None:
    """Return a sentence unless the result ``y`` of ``op`` has the channels of ``x`` in the same order."""
    if isinstance(op, StridedSlice) and (last_axis_stride(op) or -1) < 0:
        return f"%{y.name}: reverses the channels, drops them, or has unknown strides or an unknown rank"
    last, channels = len(x.shape or ()) - 1, (x.shape or (None,))[-1]
    # a MEAN over the last axis is refused, and so is one over unknown axes
    mean_axes = (static_int_vector(op.axis) or [last]) if isinstance(op, Mean) else []
    if channels is not None and y.shape and y.shape[-1] == channels and not {-1, last} & {*mean_axes}:
        return None
    return f"%{y.name}: expected the channels of {format_shape(x.shape)}, got shape {format_shape(y.shape)}"


def _transposed_refusal(c: Array, x: Value, match: Match) -> str | None:
    """Return a sentence unless ``c`` has a single number, or one per channel along the right axis.

    The right axis is that to which the Transpose of ``match`` moves the last axis of ``x``.  Return a
    sentence also if the perm is not constant, or if the number of channels is unknown.
    """
    perm, channels = static_int_vector(match.value("p")), (x.shape or (None,))[-1]  # ``p``: the perm
    if perm is None or channels is None:
        return f"%{x.name}: expected a constant perm and a known number of channels"
    axis = checked_perm(perm, len(perm)).index(len(perm) - 1)
    expected = [channels if index == axis else 1 for index in range(len(perm))][len(perm) - c.ndim :]
    if c.size == 1 or list(c.shape) == expected:
        return None
    constant = f"a constant with one number per channel, along axis {axis}"
    return f"%{match.value('y').name}: expected {constant}, got {format_shape(c.shape)}"


def _without_repeats(c: Array, x: Value, y: Value) -> Array | None:
    """Return one number, or one for each channel of ``x``, if ``c`` only repeats these; else None.

    ``y`` is ``x`` reshaped, and the operator after the Reshape applies ``c`` to ``y``.  Example: for
    x [1,2,3], y [1,6] and c = [p,q,r,p,q,r], return [p,q,r].

    Return None also if the broadcast of ``c`` may combine an element of ``y`` with the number of another
    channel.  Example: for x [2,3], y [3,2] and c [3,1], each row of y has elements of two channels, but ``c``
    has one number for the row.
    """
    if c.size == 1:
        return c.reshape(-1)
    channels = x.shape[-1] if x.shape else None
    if not channels or not c.size or c.size % channels:
        return None
    sizes = tuple(dropwhile(lambda size: size == 1, c.shape))
    has_trailing_shape = y.shape is not None and y.shape[len(y.shape) - len(sizes) :] == sizes
    if not has_trailing_shape and c.shape[-1] % channels:
        return None
    rows = c.reshape(-1, channels)
    return np.ascontiguousarray(rows[0]) if (rows == rows[0]).all() else None


class _Product(Rewrite):
    """(a + b) * c  ==  a * d + b * d, where d is c reshaped to rank 1."""

    before = """
        y = Add(a, b)
        z = Mul(y, c: const f32)               {act: any = act}
    """
    after = """
        m = Mul(a, d)
        n = Mul(b, d)
        z = Add(m, n)                          {act: act}
    """

    @condition
    def follows_linear_operators(self, a: Value, b: Value) -> str | None:
        """Linear operators before ``a`` and ``b`` can absorb the factor."""
        return producer_refusal(a, is_offset=False) or producer_refusal(b, is_offset=False)

    @condition
    def is_per_channel(self, c: Array, y: Value) -> str | None:
        """``c`` has one number, or one for each channel."""
        return channel_refusal(c, y)

    @condition
    def one_shape(self, a: Value, b: Value, y: Value) -> str | None:
        """``a`` and ``b`` have the shape of their sum."""
        if y.shape is not None and a.shape == b.shape == y.shape:
            return None
        shapes = f"{format_shape(a.shape)} and {format_shape(b.shape)}"
        return f"%{y.name}: expected a sum of two values of its shape, got {shapes}"

    def constants(self, c: Array) -> dict[str, Array]:
        return {"d": c.reshape(-1)}


class _Offset(_Product):
    """(a + b) + c  ==  (a + d) + b, where d is c reshaped to rank 1, and a comes from a linear operator."""

    before = """
        y = Add(a, b)
        z = Add(y, c: const f32)               {act: any = act}
    """
    after = """
        m = Add(a, d)
        z = Add(m, b)                          {act: act}
    """

    @condition
    def follows_linear_operators(self, a: Value, b: Value) -> str | None:
        """A linear operator before ``a`` can absorb the offset, and ``b`` is not constant."""
        if b.is_const:
            return f"%{b.name}: is constant, expected a sum of two computed values"
        return producer_refusal(a, is_offset=True)


class ForwardBatchNormOverAdd(Rules):
    """(a + b) * c  ==  a * c + b * c, and (a + b) + c  ==  (a + c) + b, for c with a number per channel.

    c may also be a single number.  A factor moves only if both a and b come from linear operators, as at the
    end of a residual block.  An offset moves if one of the two comes from a linear operator, and the other is
    not constant.
    """

    name = "forward_batchnorm_over_add"
    rules = (_Product, _Offset)


class ForwardBatchNormOverConcat(GraphPass):
    """concat(x, y) * c  ==  concat(x * c1, y * c2) along the channels, and the same for sums.

    c1 and c2 are the parts of c for the channels of x and of y.  All operands of the concatenation must come
    from linear operators, for example from the convolutions into which an exporter has split a grouped
    convolution.  This is not written as a picture, because a picture has a fixed number of operands.
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
            if context.accepts(self.name, op, sentence):
                _forward(graph, op, concat, constant)
                count += 1
        return count


def _refusal(graph: Graph, op: Add | Mul, concat: Concatenation, constant: Value) -> str | None:
    """Return why ``op`` cannot move before ``concat``; None if it can."""
    y = concat.output
    if not constant.is_plain:
        return f"%{constant.name}: expected a constant that is not packed, sparse or compressed"
    if y.dtype is not f32:
        return f"%{y.name}: expected f32, got {y.dtype.short}"
    if y.use_count > 1 or graph.is_output(y):
        return f"%{y.name}: has other users, or is an output of the graph"
    if y.shape is None:
        return f"%{y.name}: has an unknown rank"
    if normalized_axis(concat.axis, len(y.shape)) != len(y.shape) - 1:
        return f"%{y.name}: expected a concatenation along the last axis, got axis {concat.axis}"
    if op.output.shape != y.shape:  # ``constant`` broadcasts ``y``
        shapes = f"{format_shape(op.output.shape)}, the rewrite gives {format_shape(y.shape)}"
        return f"%{op.output.name}: has shape {shapes}"
    if concat.act is not concat.act.NONE:
        return f"%{y.name}: act is {concat.act.name}, expected NONE"
    if any(v.shape is None or v.shape[-1] is None for v in concat.values):
        return f"%{y.name}: has parts of unknown size"
    refusals = (producer_refusal(v, isinstance(op, Add)) for v in concat.values)
    return channel_refusal(constant.array(), y) or next(filter(None, refusals), None)


def _forward(graph: Graph, op: Add | Mul, concat: Concatenation, constant: Value) -> None:
    """Apply ``op`` to each operand of ``concat``, with its part of ``constant``, and join the results."""
    numbers = constant.array().reshape(-1)
    sizes = known_dims(v.known_shape[-1] for v in concat.values)
    parts = [numbers] * len(sizes) if numbers.size == 1 else np.split(numbers, np.cumsum(sizes)[:-1])
    new = Inserter(graph, op)
    values = []
    for value, part in zip(concat.values, parts, strict=True):
        number = new.constant("part", np.ascontiguousarray(part))
        values.append(new.make(type(op)(value, number, act=op.act)))
    new.finish(new.make(Concatenation(*values, axis=concat.axis)))
    remove_unused(graph, *concat.results)
