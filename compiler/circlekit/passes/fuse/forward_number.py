# SPDX-License-Identifier: Apache-2.0
"""Fold a multiplication by a single number into the weights of a layer that may be far before it.

An example is the scale of an attention.  A model may multiply by this scale after the matrix product of
queries and keys, before a mask, or after a rotary embedding.  If one layer computes queries, keys and values,
the model may multiply only the queries.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from circlekit.ir.dtypes import f32
from circlekit.ir.enums import Activation, WeightsFormat
from circlekit.ir.graph import Graph
from circlekit.ir.op import Op
from circlekit.ir.resources.scratch_files import copied_to_file
from circlekit.ir.value import Array, Value
from circlekit.ops.arithmetic.binary import Add, Mul, Sub
from circlekit.ops.arithmetic.division import Div
from circlekit.ops.arithmetic.unary import Neg
from circlekit.ops.convolution.conv import Conv2D, DepthwiseConv2D, TransposeConv
from circlekit.ops.matmul.dense import BatchMatMul, FullyConnected
from circlekit.ops.movement.join import Concatenation, Pack
from circlekit.passes.support.axis_indices import moved_operand
from circlekit.rewrite.base import Context, GraphPass

Layer = Conv2D | DepthwiseConv2D | TransposeConv | FullyConnected
"""The layers whose weights, and bias, can be multiplied."""

MAX_DEPTH = 24
"""The search for a layer goes back over at most this many operators, to limit the time."""

MAX_CHANNEL_NUMBERS = 1 << 22
"""If the result of a layer has more elements, ``_moved_values`` does not follow its channels."""


class ForwardNumber(GraphPass):
    """f(layer(x)) * c  ==  f(c * layer(x)) for linear operators f between the layer and the factor.

    c is a constant of one element; a division by such a constant counts as a product.  The weights and the
    bias of the layer are multiplied by c, and the product disappears.  If only some output channels of the
    layer reach the product, only their weights and biases are multiplied.  f may have other operands, for
    example keys or tables of sines.  The pass refuses if a changed value is an output of the graph, or if
    another operator reads it.
    """

    name = "forward_number"

    def run_graph(self, graph: Graph, context: Context) -> int:
        return sum(self._fold(graph, op, context) for op in graph.ops if isinstance(op, Mul | Div))

    def _fold(self, graph: Graph, op: Mul | Div, context: Context) -> bool:
        """Fold ``op`` into the layers before it if there is no obstacle; return whether it did."""
        number, data = op.rhs, op.lhs
        if isinstance(op, Mul) and data.is_const:
            number, data = data, number
        if not number.is_plain or number.numel != 1 or data.is_const or op.output.dtype is not f32:
            return False
        region = _Region(graph, op, data)
        sentence = _factor_refusal(graph, op, data, number)
        if sentence is None and region.add(data) is not None:
            sentence = region.deepest[1]  # of several refusals, the one nearest to the layers
        sentence = sentence or region.outside_user()
        constants = [] if sentence else region.constants(_factor(op, number))
        if constants is None:
            sentence = f"%{op.output.name}: weights times {_factor(op, number):g} leave the range of f32"
        # the more operators the region has, the nearer is the miss
        if not context.accepts(self.name, op, sentence, progress=2 * len(region.ops) - 1):
            return False
        for layer, index, array in constants or ():
            name = graph.unique_name(f"{layer.output.name}/{op.output.name}")
            layer.set_input(index, Value.constant(name, array))
        graph.replace(op.output, data)
        graph.remove(op)
        return True


def _factor(op: Op, number: Value) -> float:
    """Return the number by which ``op``, a MUL or DIV, multiplies its data; inf for a division by 0."""
    value = float(number.array().reshape(-1)[0])
    if isinstance(op, Div):
        return 1 / value if value else np.inf
    return value


def _factor_refusal(graph: Graph, op: Mul | Div, data: Value, number: Value) -> str | None:
    """Return why ``data`` cannot take the place of the result of ``op``; None if it can."""
    factor = _factor(op, number)
    if not np.isfinite(factor):
        return f"%{number.name}: expected a finite factor, got {factor:g}"
    if op.act is not Activation.NONE:
        return f"%{op.output.name}: act is {op.act.name}, expected NONE"
    if data.shape is None or data.shape != op.output.shape:
        return f"%{op.output.name}: expected the shape of %{data.name}"
    if not graph.can_stand_for(op.output, data):
        return f"%{op.output.name}: is an output of the graph, and %{data.name} is an input or an output, too"
    return None


class _Region:
    """The linear operators between some layers and ``root``, the product or quotient with the number.

    ``data``: the other operand of ``root``.
    ``ops``: {operator: the operands to multiply, so that its result is multiplied}.
    ``layers``: the layers (an ordered set) at which the search ended.
    ``deepest``: depth and sentence of the refusal that is farthest from ``root``.
    """

    def __init__(self, graph: Graph, root: Op, data: Value) -> None:
        self.graph, self.root = graph, root
        self.ops: dict[Op, list[Value]] = {root: [data]}
        self.layers: dict[Layer, None] = {}
        self.deepest = -1, ""

    def add(self, value: Value, depth: int = 0) -> str | None:
        """Add the operators and layers that have to change so that ``value`` is multiplied by the number.

        ``depth``: the number of operators between ``value`` and ``root``.  Return why ``value`` cannot be
        multiplied; None if it can.
        """
        op = value.producer
        if op is None or depth > MAX_DEPTH:
            what = "a constant" if value.is_const else "an input" if op is None else "an operator far away"
            return self._refuse(
                depth, value, f"comes from {what}, expected a convolution or fully connected layer"
            )
        if value.dtype is not f32 or value.quantization is not None or value.shape is None:
            return self._refuse(depth, value, "expected f32 without quantization, and a known rank")
        if op in self.ops or op in self.layers:
            return None
        if isinstance(op, Layer):
            self.layers[op] = None
            return self._refuse(depth, value, _layer_refusal(op))
        if getattr(op, "act", Activation.NONE) is not Activation.NONE:
            return self._refuse(depth, value, f"act is {op.attribute_items()['act'].name}, expected NONE")
        choices = list(_operands_to_multiply(op))
        if not choices:
            return self._refuse(depth, value, f"comes from {type(op).__name__}, which is not linear")
        for operands in choices:  # a product needs only one of its factors multiplied
            saved = self.ops.copy(), self.layers.copy()
            self.ops[op] = operands
            if not any(self.add(operand, depth + 1) for operand in operands):
                return None
            self.ops, self.layers = saved
        return self.deepest[1]

    def _refuse(self, depth: int, value: Value, sentence: str | None) -> str | None:
        """Return ``sentence``, which is about ``value``; keep it in ``deepest`` if ``depth`` is larger."""
        if sentence is not None and depth > self.deepest[0]:
            self.deepest = depth, sentence if sentence.startswith("%") else f"%{value.name}: {sentence}"
        return sentence

    def outside_user(self) -> str | None:
        """Return a sentence on a user that needs the old elements of a multiplied value; None without one.

        Perhaps only some channels of a layer's result are multiplied.  So ``channels`` examines the results
        of layers, and the values that data movement makes of these results.
        """
        moved_values = {value for layer in self.layers for value, _ in _moved_values(layer)}
        for op in self.ops:
            for value in () if op is self.root else op.results:
                if value not in moved_values and (sentence := self._outside(value)):
                    return sentence
        return next((sentence for layer in self.layers if (sentence := self.channels(layer)[1])), None)

    def _outside(self, value: Value) -> str | None:
        """Return a sentence on a user of ``value`` that needs the old value; None if there is none."""
        if self.graph.is_output(value):
            return f"%{value.name}: is an output of the graph"
        outside = next((user for user in value.users if value not in self.ops.get(user, ())), None)
        return f"%{value.name}: is also read by {type(outside).__name__}" if outside else None

    def channels(self, layer: Layer) -> tuple[Array | None, str | None]:
        """Return (the numbers of the channels of ``layer`` to multiply, the sentence of a refusal).

        The channels are None if all are multiplied, or if there is a refusal.  The sentence says that another
        operator needs the old elements of these channels; it is None if no operator does.
        Example: ``layer`` has queries in the channels 0 to 3, keys in 4 to 7.  If only the slice of the
        queries is multiplied, return ([0, 1, 2, 3], None).
        """
        multiplied: list[Array | None] = []
        read_elsewhere: list[tuple[Array | None, str]] = []
        for value, numbers in _moved_values(layer):
            # ``_moved_values`` also yields what data movement makes of ``value``, so these users do not count
            users = [user for user in value.users if moved_operand(user) is not value]
            if any(value in self.ops.get(user, ()) for user in users):
                multiplied.append(numbers)
            if any(value not in self.ops.get(user, ()) for user in users) or self.graph.is_output(value):
                read_elsewhere.append((numbers, f"%{value.name}: its channels are also read elsewhere"))
        if not read_elsewhere:
            return None, None
        known = [numbers for numbers in multiplied if numbers is not None]
        if len(known) < len(multiplied):
            return None, read_elsewhere[0][1]
        channels = np.unique(np.concatenate([numbers.reshape(-1) for numbers in known]))
        for numbers, sentence in read_elsewhere:
            if numbers is None or np.isin(channels, numbers).any():
                return None, sentence
        return channels, None

    def constants(self, factor: float) -> list[tuple[Layer, int, Array]] | None:
        """Return the new weights and biases, each with its layer and the index of the operand.

        Return None if they leave the range of f32.
        """
        found: list[tuple[Layer, int, Array]] = []
        for layer in self.layers:
            arrays = _multiplied(layer, self.channels(layer)[0], factor)
            if arrays is None:
                return None
            found += [(layer, index, array) for index, array in arrays.items()]
        return found


def _operands_to_multiply(op: Op) -> Iterator[list[Value]]:
    """Yield lists of operands of ``op``: if all operands of one list are multiplied, so is the result.

    Yield nothing if ``op`` is not linear.
    """
    values = [value for value in op.inputs if value is not None]
    if isinstance(op, Add | Sub | Concatenation | Pack):
        yield values
    elif isinstance(op, Neg | Div):
        yield values[:1]
    elif isinstance(op, Mul | BatchMatMul):
        yield from ([value] for value in values if not value.is_const and values.count(value) == 1)
    elif op.data_movement and op.quantization_rule is not None and op.quantization_rule.results_follow:
        # ``results_follow``: the name of the operand whose elements ``op`` copies
        yield [getattr(op, op.quantization_rule.results_follow)]


def _weights(layer: Layer) -> Value:
    return layer.weights if isinstance(layer, FullyConnected) else layer.filter


def _layer_refusal(layer: Layer) -> str | None:
    """Return why the weights and the bias of ``layer`` cannot be multiplied; None if they can."""
    items = layer.attribute_items()
    if items["act"] is not Activation.NONE:
        return f"%{layer.output.name}: act is {items['act'].name}, expected NONE"
    if items.get("weights_format", WeightsFormat.DEFAULT) is not WeightsFormat.DEFAULT:
        return f"%{layer.output.name}: weights_format is {items['weights_format'].name}, expected DEFAULT"
    weights = _weights(layer)
    for value in (weights, layer.bias):
        if value is not None and not (value.is_plain and value.dtype is f32 and value.quantization is None):
            return f"%{value.name}: expected a constant of f32 without quantization"
    if weights.other_user([layer]) is not None:
        return f"%{weights.name}: has other users"
    return None


def _moved_values(layer: Layer) -> Iterator[tuple[Value, Array | None]]:
    """Yield (value, numbers) for the result of ``layer``, and for the values that data movement makes of it.

    ``numbers`` has, for each element of the value, the number of its channel in ``layer``; it is None if the
    shape of the result is unknown or has more than MAX_CHANNEL_NUMBERS elements.
    """
    result = layer.output
    numbers: Array | None = None
    if result.shape and result.is_static and result.numel <= MAX_CHANNEL_NUMBERS:
        numbers = np.broadcast_to(np.arange(result.static_shape[-1], dtype=np.int32), result.static_shape)
    todo = [(result, numbers)]
    while todo:
        value, numbers = todo.pop()
        yield value, numbers
        for op in dict.fromkeys(value.users):
            if moved_operand(op) is not value:
                continue
            moved: Any = [None] * len(op.results)
            if numbers is not None:  # let the kernel move the numbers in place of the elements
                operands = [None if v is None else numbers if v is value else v.array() for v in op.inputs]
                moved = op.kernel(*operands)
            todo += zip(op.results, moved if isinstance(moved, tuple | list) else (moved,), strict=True)


def _multiplied(layer: Layer, channels: Array | None, factor: float) -> dict[int, Array] | None:
    """Return the new weights and bias of ``layer``, by operand index; None if they leave the range of f32.

    ``channels``: the output channels to multiply by ``factor``, None for all.
    """
    constants: dict[int, Array] = {}
    weights = _weights(layer)
    for index, value in enumerate(layer.inputs):
        if value is None or value not in (weights, layer.bias):
            continue
        array = copied_to_file(value.array())
        is_depthwise = value is weights and isinstance(layer, DepthwiseConv2D)
        # ``rows`` is a view of ``array`` with the output channels first
        rows = array.reshape(-1, array.shape[-1]).T if is_depthwise else array
        if value is not weights:
            rows = array.reshape(-1)
        with np.errstate(all="ignore"):
            rows[slice(None) if channels is None else channels] *= np.float32(factor)
        largest = max(-float(array.min()), float(array.max())) if array.size else 1.0
        # all precision is lost if every element has become 0 or subnormal
        is_lost = factor != 0 and largest < np.finfo(np.float32).tiny and value.array().any()
        if is_lost or not np.isfinite(largest):
            return None
        constants[index] = array
    return constants
