# SPDX-License-Identifier: Apache-2.0
"""Join operators that do the same in parallel: layers of one input, and operators on the parts of a SPLIT.

There are no pictures, because the number of operators is not fixed.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Hashable, Sequence
from math import prod

import numpy as np

from circlekit.errors import counted
from circlekit.ir.enums import WeightsFormat
from circlekit.ir.graph import Graph
from circlekit.ir.op import Op
from circlekit.ir.resources.scratch_files import new_array
from circlekit.ir.shape_inference import fits
from circlekit.ir.text.lines import short_op
from circlekit.ir.value import Array, Quantization, Shape, Value, format_shape, same_grid
from circlekit.ops.constant_operands import static_int
from circlekit.ops.dimensions import known_dims, normalized_axis
from circlekit.ops.matmul.dense import FullyConnected
from circlekit.ops.movement.join import Split, SplitOperator, SplitV
from circlekit.ops.movement.shape import Reshape, Transpose
from circlekit.ops.quantized_values import is_per_channel, quantization_of
from circlekit.passes.support.axes import constant_perm
from circlekit.passes.support.conditions import same_quantization
from circlekit.passes.support.equality import frozen
from circlekit.passes.support.insertion import Inserter
from circlekit.rewrite.base import Context, GraphPass
from circlekit.rewrite.build import misfit_refusal
from circlekit.targets.cost import value_bytes

# -- layers of one input -----------------------------------------------------------------------


MACS_PER_BYTE = 3
"""In a pipeline, joined layers must have this many multiply-accumulates or more per additional byte moved.

Float layers for queries, keys and values reach this from 16 channels on.  Measured with LiteRT and XNNPACK
for 64 to 768 channels: joined, they take at most 3 % longer than separate ones.  This is acceptable, because
operators disappear in exchange.
"""


class JoinFullyConnected(GraphPass):
    """fc(x, w1), fc(x, w2), ...  ==  split(fc(x, the rows of w1, w2, ...)), as for queries, keys and values.

    If the user names the pass, it ignores costs.  A pipeline joins n layers only in two cases:

    - Joining removes at least one operator, and moves no more bytes than before.
    - Joining removes at least two operators, and moves few more bytes, compared with the multiplications
      (MACS_PER_BYTE).

    One layer and a SPLIT replace n layers.  If all results are read in the same way, the pass forward_split
    then replaces their n users by one; these operators count as removed, too.  A pipeline does not join the
    gate and up projections of a SwiGLU: that removes nothing, and LiteRT with XNNPACK takes 2 to 6 % longer.
    """

    name = "join_fully_connected"

    def run_graph(self, graph: Graph, context: Context) -> int:
        layers: dict[Value, list[FullyConnected]] = {}
        for op in graph.ops:
            if isinstance(op, FullyConnected):
                layers.setdefault(op.input, []).append(op)
        return sum(self._join_alike(graph, ops, context) for ops in layers.values() if len(ops) > 1)

    def _join_alike(self, graph: Graph, ops: list[FullyConnected], context: Context) -> int:
        """Join alike layers in ``ops``, which all read one input; return how many joined layers were made."""
        groups: dict[Hashable, list[FullyConnected]] = {}
        for op in ops:
            sentence = _layer_refusal(op)
            if sentence is None:
                groups.setdefault(_kind(op), []).append(op)
            else:
                context.refuse(self.name, op, sentence)
        count = 0
        for alike in groups.values():
            first, *others = alike
            if not others:
                shared = "the same attributes, dtypes, rank, length of rows and quantization"
                sentence = f"no other layer of %{first.input.name} that can be joined has {shared}"
                context.refuse(self.name, first, f"%{first.output.name}: {sentence}")
                continue
            sentence = _gain_refusal(graph, alike) if context.exact else None
            if context.accepts(self.name, first, sentence):
                _join(graph, alike)
                count += 1
        return count


def _layer_refusal(op: FullyConnected) -> str | None:
    """Return why ``op`` cannot be joined with any other layer; None if there is no obstacle."""
    if op.weights_format is not WeightsFormat.DEFAULT:
        return f"%{op.output.name}: weights_format is {op.weights_format.name}, expected DEFAULT"
    if len(op.results) > 1:
        return f"%{op.output.name}: expected one result, got {len(op.results)}"
    if not op.output.shape or op.output.shape[-1] is None:
        return f"%{op.output.name}: expected a known number of channels, got {op.output.type}"
    if op.input.is_variable:
        return f"%{op.input.name}: is a variable, which may change between the layers"
    for value in (op.weights, op.bias):
        if value is not None and not value.is_plain:
            return f"%{value.name}: expected a constant that is not packed, sparse or compressed"
        if value is not None and value.quantization is not None and value.quantization.details is not None:
            return f"%{value.name}: has quantization parameters besides scales and zero points"
    for value in filter(None, (op.weights, op.bias, op.output)):
        if is_per_channel(value) and (value is op.output or quantization_of(value).quantized_dimension):
            return f"%{value.name}: expected scales per tensor, or per row of the weights"
    if op.weights.other_user([op]) is not None:
        return f"%{op.weights.name}: has other users, so a second copy would be made"
    return misfit_refusal(op)


def _kind(op: FullyConnected) -> Hashable:
    """Return a key that is equal for layers of one input that can be joined."""
    bias = None if op.bias is None else op.bias.dtype
    if bias is None and op.weights.quantization is None:
        bias = op.weights.dtype  # the bias can be zeros
    result = op.output
    attributes = frozen(op.attribute_items())
    return (
        attributes,
        op.weights.dtype,
        op.weights.static_shape[1:],  # the length of rows
        bias,
        _shared_parameters(op.weights),
        _shared_parameters(op.bias),
        result.dtype,
        result.known_rank,
        result.quantization,
    )


def _shared_parameters(value: Value | None) -> Quantization | str | None:
    """Return what joined layers must agree in: the quantization, or only that it is per channel."""
    parameters = None if value is None else value.quantization
    return "per channel" if parameters is not None and parameters.is_per_channel else parameters


def _gain_refusal(graph: Graph, ops: Sequence[FullyConnected]) -> str | None:
    """Return why joining ``ops`` gains too little for a pipeline; None if it gains enough."""
    results = [op.output for op in ops]
    is_read_alike = not isinstance(parallel_users(graph, results, results[0].known_rank - 1), str)
    # one layer and a SPLIT replace the layers; forward_split would then replace alike users by one
    removed = len(ops) - 2 + (len(ops) - 1) * is_read_alike
    # the input is read once instead of by each layer, but the SPLIT reads and writes all results
    saved = (len(ops) - 1) * value_bytes(ops[0].input) - 2 * sum(map(value_bytes, results))
    is_cheap = saved >= 0 or (removed >= 2 and sum(op.macs() for op in ops) >= -saved * MACS_PER_BYTE)
    if removed >= 1 and is_cheap:
        return None
    moved = f"{saved} bytes less" if saved > 0 else f"{-saved} bytes more"
    effect = f"would remove {counted(removed, 'operator')} and move {moved}"
    return f"%{results[0].name}: joining {len(ops)} layers {effect}"


def _join(graph: Graph, ops: Sequence[FullyConnected]) -> None:
    """Replace ``ops``, for which ``_kind`` gives the same key, by one layer and a split of its result."""
    first = ops[0]
    new = Inserter(graph, first)
    weights = _joined(new, "weights", [op.weights for op in ops], [op.weights.array() for op in ops])
    bias = None
    if any(op.bias is not None for op in ops):
        zeros = [np.zeros(op.weights.static_shape[0], op.weights.dtype.numpy) for op in ops]
        values = [op.bias or Value.constant("", z) for op, z in zip(ops, zeros, strict=True)]
        bias = _joined(new, "bias", values, [value.array().reshape(-1) for value in values])
    full = new.make(FullyConnected(first.input, weights, bias, **first.attribute_items()))
    full.quantization = first.output.quantization
    _split(new, full, first.output.known_rank - 1, [op.output for op in ops])
    for op in ops:
        graph.remove(op)


def _joined(new: Inserter, name: str, values: Sequence[Value], arrays: Sequence[Array]) -> Value:
    """Return a constant with the rows of ``arrays``, the data of ``values``; if large, in a scratch file."""
    first, *_ = arrays
    joined = new_array((sum(map(len, arrays)), *first.shape[1:]), first.dtype)
    value = new.constant(name, np.concatenate(arrays, out=joined))
    value.quantization = _joined_quantization([v.quantization for v in values])
    return value


def _joined_quantization(parameters: Sequence[Quantization | None]) -> Quantization | None:
    """Return the parameters of joined rows: one scale per row, or the parameters that all parts share."""
    first = parameters[0]
    if first is None or not first.is_per_channel:
        return first
    quantizations = [quantization for quantization in parameters if quantization is not None]
    scales = np.concatenate([q.scale for q in quantizations])
    zero_points = np.concatenate([q.zero_point for q in quantizations])
    return dataclasses.replace(first, scale=scales, zero_point=zero_points, min=None, max=None)


# -- operators on the parts of a SPLIT ---------------------------------------------------------


class ForwardSplit(GraphPass):
    """f(part 1), f(part 2), ... of a split x  ==  the parts of f(x), if all parts are read in the same way.

    f is a Transpose, an elementwise function of one operand, or a Reshape after which the parts still lie
    along one axis.
    """

    name = "forward_split"

    def run_graph(self, graph: Graph, context: Context) -> int:
        return sum(self._forward(graph, op, context) for op in graph.ops if isinstance(op, SplitOperator))

    def _forward(self, graph: Graph, split: SplitOperator, context: Context) -> int:
        """Move ``split`` past its users, as often as possible; return how often."""
        count = 0
        while True:
            axis = static_int(split.split_dim, "split_dim") if fits(split) else None
            if axis is None or split.value.shape is None or len(split.results) < 2:
                return count
            found = parallel_users(graph, split.results, normalized_axis(axis, len(split.value.shape)))
            sentence = found if isinstance(found, str) else _size_refusal(split, *found)
            sentence = sentence or same_quantization(split.value, *split.results)
            if not context.accepts(self.name, split, sentence) or isinstance(found, str):
                return count
            split = _move_past(graph, split, *found)
            count += 1


def _size_refusal(split: SplitOperator, users: Sequence[Op], axis: int) -> str | None:
    """Refuse if a result of ``users`` has an unknown rank or, for SPLIT_V, an unknown size along ``axis``."""
    for op in users:
        shape = op.output.shape
        if shape is None or (shape[axis] is None and isinstance(split, SplitV)):
            known = f"expected a known size along axis {axis}"
            return f"%{op.output.name}: {known}, got shape {format_shape(shape)}"
    return None


def parallel_users(graph: Graph, parts: Sequence[Value], axis: int) -> tuple[list[Op], int] | str:
    """Return the users of ``parts``, and the axis along which their results are parts of one result.

    ``parts``: all parts of a value along ``axis``, in order.  Return a sentence instead if one operator on
    the whole value could not replace the users.
    """
    for value in parts:
        if graph.is_output(value):
            return f"%{value.name}: is an output of the graph"
        if value.use_count != 1:
            return f"%{value.name}: expected one use, got {value.use_count}"
    users = [value.users[0] for value in parts]
    first = users[0]
    for value, op in zip(parts, users, strict=True):
        if type(op) is not type(first):
            return f"%{value.name}: is read by {short_op(op)}, expected {type(first).__name__}"
        if users.count(op) > 1:
            return f"%{value.name}: {short_op(op)} reads several parts"
        if len(op.results) != 1:
            return f"%{value.name}: expected one result of {short_op(op)}, got {len(op.results)}"
        result, other = op.output, first.output
        if (sentence := misfit_refusal(op)) is not None:
            return sentence
        if result.shape is None:
            return f"%{result.name}: expected a known rank"
        if is_per_channel(result):
            return f"%{result.name}: expected a quantization per tensor"
        if not same_grid(result.quantization, other.quantization):
            return f"%{result.name}: expected the quantization of %{other.name}"
    moved: int | None = None
    if isinstance(first, Reshape):
        moved = _axis_after_reshape([v.shape for v in parts], [op.output.shape for op in users], axis)
    elif isinstance(first, Transpose):
        perms = {constant_perm(op) for op in users}
        perm = perms.pop()
        moved = None if perms or perm is None else perm.index(axis)
    elif first.elementwise and sum(v is not None for v in first.inputs) == 1:
        moved = axis if len({frozen(op.attribute_items()) for op in users}) == 1 else None
    if moved is None:
        return (
            f"%{first.output.name}: the parts are not moved alike along axis {axis} by {type(first).__name__}"
        )
    return users, moved


def _axis_after_reshape(olds: Sequence[Shape | None], news: Sequence[Shape | None], axis: int) -> int | None:
    """Return the axis along which the reshaped parts of a value are parts of the reshaped value, or None.

    ``olds``, ``news``: the shapes of the parts before and after their Reshapes.  Before, the parts lie along
    ``axis``.  Example: parts [4, 6] and [4, 3] along axis 1 become [4, 2, 3] and [4, 1, 3]: return 1.
    """
    first = news[0]
    if first is None or any(new is None or len(new) != len(first) for new in news):
        return None
    shapes = [(old, new) for old, new in zip(olds, news, strict=True) if old is not None and new is not None]
    if any(shape.count(None) > 1 for pair in shapes for shape in pair):
        return None  # a RESHAPE to a constant shape can infer only one dimension
    for new_axis in reversed(range(len(first))):
        other_dims = {(new[:new_axis], new[new_axis + 1 :]) for _, new in shapes}
        keeps_counts = all(  # the Reshape keeps the number of elements, in total and before the axis
            _elements(old[:axis]) == _elements(new[:new_axis]) and _elements(old) == _elements(new)
            for old, new in shapes
        )
        if len(other_dims) == 1 and keeps_counts and all(new[new_axis] for _, new in shapes):
            return new_axis
    return None


def _elements(shape: Shape) -> tuple[int, int]:
    """Return the product of the known dimensions, and the number of unknown ones."""
    return prod(d for d in shape if d is not None), shape.count(None)


def _move_past(graph: Graph, split: SplitOperator, users: Sequence[Op], axis: int) -> SplitOperator:
    """Apply the first of ``users`` to the operand of ``split``, and split the result along ``axis``."""
    first, results = users[0], [op.output for op in users]
    new = Inserter(graph, split)
    new.base = first.output.name
    if isinstance(first, Reshape):
        dims = list(first.output.known_shape)
        dims[axis] = sum(known_dims(v.known_shape[axis] for v in results))
        full = new.reshaped(split.value, dims)
    else:
        operands = [split.value if v is split.results[0] else v for v in first.inputs]
        full = new.make(type(first)(*operands, **first.attribute_items()))
    full.quantization = first.output.quantization
    moved = _split(new, full, axis, results)
    for op in users:
        graph.remove(op)
    graph.remove(split)
    return moved


def _split(new: Inserter, value: Value, axis: int, parts: Sequence[Value]) -> SplitOperator:
    """Insert an operator that splits ``value`` along ``axis`` into the values ``parts``; return it.

    If the size of a part is unknown, all parts must have the same size.
    """
    sizes = [part.known_shape[axis] for part in parts]
    dim = new.constant("split_dim", np.array(axis, np.int32))
    op: SplitOperator
    if None in sizes or len(set(sizes)) == 1:
        op = Split(dim, value, num_splits=len(parts))
    else:
        splits = new.constant("size_splits", np.array(known_dims(sizes), np.int32))
        op = SplitV(value, splits, dim, num_splits=len(parts))
    new.graph.insert_before(new.op, op)
    for index, part in enumerate(parts):
        op.take_result(index, part)
    return op
