# SPDX-License-Identifier: Apache-2.0
"""Move factors and offsets per channel towards the linear operator that can absorb them."""

from __future__ import annotations

import numpy as np

from circlekit.ir.dtypes import f32
from circlekit.ir.enums import Activation
from circlekit.ir.graph import Graph
from circlekit.ir.op import Op
from circlekit.ir.value import Array, Value, format_shape
from circlekit.ops.arithmetic.binary import Add, Mul
from circlekit.ops.constant_operands import static_int_vector
from circlekit.ops.convolution.pool import AveragePool2D
from circlekit.ops.dimensions import normalized_axis
from circlekit.ops.movement.join import Concatenation
from circlekit.ops.movement.shape import Reshape, Transpose, checked_perm
from circlekit.ops.movement.slice import Pad, StridedSlice
from circlekit.ops.movement.space import Resize
from circlekit.ops.reduction.reduce import Mean
from circlekit.passes.support.conditions import remove_unused
from circlekit.passes.support.insertion import Inserter
from circlekit.passes.support.linear_producer import channel_refusal, producer_refusal
from circlekit.rewrite.base import Context, GraphPass
from circlekit.rewrite.match import Match
from circlekit.rewrite.rewrite import Rewrite, Rules, condition

MOVES = (
    "Reshape|Squeeze|ExpandDims|Slice|StridedSlice|BatchToSpaceND|Transpose|Pad|AveragePool2D|Mean"
    "|ResizeBilinear|ResizeNearestNeighbor"
)
"""Operators that move data or compute averages whose weights sum to 1: they commute with c."""


class ForwardBatchNorm(Rewrite):
    """move(x) * c  ==  move(x * d), and the same for sums; ``d`` has one number per channel of ``x``.

    The rule applies only if ``x`` comes from a convolution or a fully connected layer, which can absorb d.
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
        return producer_refusal(x, isinstance(match.ops["z"], Add))

    @condition
    def commutes(self, match: Match) -> str | None:
        """The zeros of a Pad do not get an offset, and an activation does not commute with an average."""
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
        if isinstance(match.ops["y"], Transpose):
            return _transposed_refusal(c, x, match)
        if isinstance(match.ops["y"], Reshape) and (c.size == 1 or _repeated(c, x) is not None):
            return None
        return _order_refusal(match.ops["y"], x, y) or channel_refusal(c, y)

    def constants(self, match: Match, c: Array, x: Value) -> dict[str, Array]:
        row = _repeated(c, x) if isinstance(match.ops["y"], Reshape) else None
        return {"d": c.reshape(-1) if row is None else row}


def _order_refusal(op: Op, x: Value, y: Value) -> str | None:
    """Return a refusal unless the channels of ``y`` are known to be those of ``x``, in the same order."""
    if isinstance(op, StridedSlice) and (static_int_vector(op.strides) or [-1])[-1] < 0:
        return f"%{y.name}: reverses the channels, or has steps that are not constant"
    rank, channels = len(x.shape or ()), (x.shape or (None,))[-1]
    axes = (static_int_vector(op.axis) or [rank - 1]) if isinstance(op, Mean) else []
    if channels is not None and y.shape and y.shape[-1] == channels and not {-1, rank - 1} & {*axes}:
        return None
    return f"%{y.name}: expected the channels of {format_shape(x.shape)}, got shape {format_shape(y.shape)}"


def _transposed_refusal(c: Array, x: Value, match: Match) -> str | None:
    """Return a refusal unless ``c`` has one number per channel, along the axis where Transpose puts them."""
    perm, channels = static_int_vector(match.value("p")), (x.shape or (None,))[-1]
    if perm is None or channels is None:
        return f"%{x.name}: expected a constant perm and a known number of channels"
    axis = checked_perm(perm, len(perm)).index(len(perm) - 1)
    expected = [channels if index == axis else 1 for index in range(len(perm))][len(perm) - c.ndim :]
    if c.size == 1 or list(c.shape) == expected:
        return None
    shape = format_shape(c.shape)
    name = match.value("y").name
    return f"%{name}: expected a constant with one number per channel, along axis {axis}, got {shape}"


def _repeated(c: Array, x: Value) -> Array | None:
    """Return one number per channel of ``x`` if ``c`` consists of repetitions of these, else None."""
    channels = x.shape[-1] if x.shape else None
    if not channels or c.size % channels:
        return None
    rows = c.reshape(-1, channels)
    return np.ascontiguousarray(rows[0]) if (rows == rows[0]).all() else None


class _Product(Rewrite):
    """(a + b) * c  ==  a * c + b * c."""

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
        return producer_refusal(a, is_offset=False) or producer_refusal(b, is_offset=False)

    @condition
    def is_per_channel(self, c: Array, y: Value) -> str | None:
        return channel_refusal(c, y)

    @condition
    def one_shape(self, a: Value, b: Value, y: Value) -> str | None:
        if y.shape is not None and a.shape == b.shape == y.shape:
            return None
        shapes = f"{format_shape(a.shape)} and {format_shape(b.shape)}"
        return f"%{y.name}: expected a sum of two values of its shape, got {shapes}"

    def constants(self, c: Array) -> dict[str, Array]:
        return {"d": c.reshape(-1)}


class _Offset(_Product):
    """(a + b) + c  ==  (a + c) + b."""

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
        if b.is_const:
            return f"%{b.name}: is constant as well, fold_constants adds it to the offset"
        return producer_refusal(a, is_offset=True)


class ForwardBatchNormOverAdd(Rules):
    """(a + b) * c  ==  a * c + b * c, and (a + b) + c  ==  (a + c) + b, per channel.

    A product moves only if both operands come from convolutions or fully connected layers, which can absorb
    it, as at the end of a residual block.  For an offset, one operand from a layer of this kind is enough.
    """

    name = "forward_batchnorm_over_add"
    rules = (_Product, _Offset)


class ForwardBatchNormOverConcat(GraphPass):
    """concat(x, y) * c  ==  concat(x * c1, y * c2) along the channels; the same for sums.

    All parts must come from convolutions or fully connected layers, which can absorb the factors: for example
    a grouped convolution that an exporter has split.  A picture cannot express it: its operands are fixed.
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
    if not constant.is_const:
        return f"%{constant.name}: is not constant"
    if y.dtype is not f32:
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
    new = Inserter(graph, op)
    values = []
    for value, part in zip(concat.values, parts, strict=True):
        number = new.constant("part", np.ascontiguousarray(part))
        values.append(new.make(type(op)(value, number, act=op.act)))
    new.finish(new.make(Concatenation(*values, axis=concat.axis)))
    remove_unused(graph, *concat.results)


class _Factor(Rewrite):
    """batch_matmul($old) * c  ==  batch_matmul($new), with m = x * c."""

    before = """
        y = BatchMatMul($old)
        z = Mul(y, c: const f32[*, 1])
    """
    after = """
        m = Mul(x, d)
        z = BatchMatMul($new)                  {like y}
    """

    @condition
    def follows_a_linear_operator(self, x: Value) -> str | None:
        return producer_refusal(x, is_offset=False)

    def constants(self, c: Array) -> dict[str, Array]:
        return {"d": c.reshape(())}


class ForwardNumber(Rules):
    """Move a product with one number before a BATCH_MATMUL if a layer before that can absorb it.

    For example, the scale of an attention moves into the layer that computes its queries.
    """

    name = "forward_number"
    rules = (_Factor.member(old="x, w", new="m, w"), _Factor.member(old="w, x", new="w, m"))
