# SPDX-License-Identifier: Apache-2.0
"""Fold a multiplication by a single number into the weights of an earlier layer, across other operators.

As in ``forward_batchnorm``, the number moves to the front, toward the inputs of the graph.
An example is the scale of an attention.  A model may multiply by this scale after the matrix product of
queries and keys, before a mask, or after a rotary embedding.  If one layer computes queries, keys and values,
the model may multiply only the queries.  PyTorch multiplies queries and keys by the root of the scale; if the
keys come from a cache, which no layer computes, their factor goes to the queries.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from circlekit.ir.dtypes import f32
from circlekit.ir.enums import Activation
from circlekit.ir.graph import Graph
from circlekit.ir.op import Op
from circlekit.ir.shape_inference import misfit
from circlekit.ir.value import Array, Value
from circlekit.ops.arithmetic.binary import Add, Mul, Sub
from circlekit.ops.arithmetic.division import Div
from circlekit.ops.arithmetic.unary import Neg
from circlekit.ops.dimensions import element_count
from circlekit.ops.matmul.dense import BatchMatMul
from circlekit.ops.movement.join import Concatenation, Pack
from circlekit.ops.quantized_values import followed_operand
from circlekit.ops.reduction.normalization import RoPE
from circlekit.passes.fuse.fuse_constants import quotient_refusal
from circlekit.passes.support.axis_indices import moved_operand
from circlekit.passes.support.scaled_layer import (
    Layer,
    has_channels,
    layer_refusal,
    moved_channels,
    scaled_constants,
)
from circlekit.rewrite.base import Context, GraphPass
from circlekit.rewrite.match import origin

MAX_OPERATORS = 256
"""The search for the layers before one product examines at most this many operators, to limit the time."""


class ForwardNumber(GraphPass):
    """f(layer(x)) * c  ==  f(c * layer(x)) for some linear operators f between the layer and the factor.

    c is a constant of one element; a division by such a constant counts as a product.  The weights and the
    bias of the layer are multiplied by c, and the product disappears.  A layer may also be an RMS_NORM, or a
    product with a constant.  If only some output channels of the layer reach the product, only their weights
    and biases are multiplied.  f consists of data movement, sums, differences, products (also of matrices),
    divisions by constants, negations and rotary embeddings.  It may have other operands, for example keys or
    tables of sines.  If the product, or what data movement makes of it, has a single user, and this user
    multiplies it by another operand, that operand may be multiplied by c instead.  The pass refuses if a
    value whose elements change is an output of the graph, or if any other operator reads these elements.
    """

    name = "forward_number"

    def run_graph(self, graph: Graph, context: Context) -> int:
        products = [op for op in graph.ops if isinstance(op, Mul | Div)]
        # the largest first: of two products that can go into each other, the smaller one stays
        products.sort(key=lambda op: -element_count(op.output.shape))
        return sum(self._fold(graph, op, context) for op in products if op.graph is graph)

    def _fold(self, graph: Graph, op: Mul | Div, context: Context) -> bool:
        """Fold ``op`` into the layers before it if there is no obstacle; return whether it did."""
        number, data = op.rhs, op.lhs
        if isinstance(op, Mul) and data.is_const:
            number, data = data, number
        if not number.is_plain or number.numel != 1 or data.is_const or op.output.dtype is not f32:
            return False
        region = _Region(graph, op, data)
        sentence = _factor_refusal(graph, op, data, number)
        if sentence is None and (sentence := region.refusal()) and (start := _other_factor(graph, op.output)):
            other = _Region(graph, *start)
            if other.refusal() is None:
                region, sentence = other, None
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
        return f"%{op.output.name}: expected the shape of %{data.name}, {data.type}, got {op.output.type}"
    if not graph.can_stand_for(op.output, data):
        return f"%{op.output.name}: is an output of the graph, and %{data.name} is an input or an output, too"
    return quotient_refusal(data)


def _other_factor(graph: Graph, value: Value) -> tuple[Op, Value] | None:
    """Return (product, its other operand) for the product that alone reads ``value``; None without one.

    The product may also read what data movement makes of ``value``.
    """
    while value.use_count == 1 and not graph.is_output(value):
        (user,) = value.users
        if isinstance(user, Mul):
            return user, user.rhs if value is user.lhs else user.lhs
        if isinstance(user, BatchMatMul):
            return user, user.y if value is user.x else user.x
        if moved_operand(user) is not value or len(user.results) != 1:
            return None
        value = user.results[0]
    return None


class _Region:
    """The linear operators between some layers and the value ``data``, which is to be multiplied by a number.

    ``root``: the operator that reads ``data``: the product to remove, or another product (``_other_factor``).
    ``ops``: {operator: the operands to multiply}, for ``root`` and the linear operators before it.  The
    results of the linear operators are multiplied then, too.
    ``layers``: the layers (an ordered set) whose weights and bias have to be multiplied.
    ``found``: {examined operator: the operands to multiply ([] for a layer), or the sentence of a refusal}.
    ``deepest``: depth and sentence of the refusal that is farthest from ``root``.
    """

    def __init__(self, graph: Graph, root: Op, data: Value) -> None:
        self.graph, self.root, self.data = graph, root, data
        self.ops: dict[Op, list[Value]] = {root: [data]}
        self.layers: dict[Layer, None] = {}
        self.found: dict[Op, list[Value] | str] = {}
        self.deepest = -1, ""

    def refusal(self) -> str | None:
        """Return why ``data`` cannot be multiplied; None if it can.

        Fill ``ops`` and ``layers``, unless the search before ``data`` fails.
        """
        if self._search(self.data, 0) is not None:
            return self.deepest[1]  # of several refusals, the one nearest to the layers
        todo = [self.data]
        while todo:
            op = todo.pop().producer
            if op is None or op in self.ops:
                continue
            operands = self.found[op]
            assert not isinstance(operands, str)  # the search has accepted the operator
            if operands:
                self.ops[op] = operands
                todo += reversed(operands)
            elif isinstance(op, Layer):
                self.layers[op] = None
        return self.outside_user()

    def _search(self, value: Value, depth: int) -> str | None:
        """Examine the operators before ``value``, each once; return why ``value`` cannot be multiplied.

        Return None if it can.  ``depth``: the number of operators between ``value`` and ``root``.
        """
        op = value.producer
        if op is None:
            expected = "expected a layer with constant weights, or a product with a constant"
            return self._refuse(depth, value, f"comes from {origin(value)}, {expected}")
        if op not in self.found and len(self.found) >= MAX_OPERATORS:
            return self._refuse(depth, value, f"the search ends here, after {MAX_OPERATORS} operators")
        if value.dtype is not f32 or value.quantization is not None or value.shape is None:
            return self._refuse(depth, value, "expected f32 without quantization, and a known rank")
        if op not in self.found:
            self.found[op] = ""  # it counts as examined while the search is at its operands
            self.found[op] = self._operands_or_refusal(op, value, depth)
        found = self.found[op]
        return found if isinstance(found, str) else None

    def _operands_or_refusal(self, op: Op, value: Value, depth: int) -> list[Value] | str:
        """Return which operands of ``op`` to multiply, or why its result ``value`` cannot be multiplied.

        Return [] if ``op`` is a layer whose parameters can be multiplied.
        """
        if (sentence := quotient_refusal(value)) is not None:
            return self._refuse(depth, value, sentence)
        sentence = (layer_refusal(op) or misfit(op)) if isinstance(op, Layer) else ""
        if isinstance(op, Layer) and not isinstance(op, Mul):
            return [] if sentence is None else self._refuse(depth, value, sentence)
        if getattr(op, "act", Activation.NONE) is not Activation.NONE:
            return self._refuse(depth, value, f"act is {op.attribute_items()['act'].name}, expected NONE")
        choices = list(_operands_to_multiply(op))
        if not choices:
            kind = type(op).__name__
            return self._refuse(depth, value, f"comes from {kind}, past which the pass moves no factor")
        for operands in choices:  # a product needs only one of its factors multiplied
            for operand in operands:
                if self._search(operand, depth + 1) is not None:
                    break
            else:
                return operands
        # no layer before ``op`` can be multiplied; a product with a constant is a layer itself
        return [] if sentence is None else self.deepest[1]

    def _refuse(self, depth: int, value: Value, sentence: str) -> str:
        """Return ``sentence``, which is about ``value``; keep it in ``deepest`` if ``depth`` is larger."""
        if depth > self.deepest[0]:
            self.deepest = depth, sentence if sentence.startswith("%") else f"%{value.name}: {sentence}"
        return sentence

    def outside_user(self) -> str | None:
        """Return a sentence on a user that needs the old elements of a multiplied value; None without one.

        In a layer's result, and in what data movement makes of it, perhaps only some channels are multiplied.
        ``channels`` examines these values, channel by channel.  All other values are examined here as a
        whole.
        """
        moved_values = {value for layer in self.layers for value, _ in moved_channels(layer)}
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
        for value, numbers in moved_channels(layer):
            # a user that only moves ``value`` does not count: ``moved_channels`` yields its result, too
            users = [user for user in value.users if moved_operand(user) is not value]
            if any(value in self.ops.get(user, ()) for user in users):
                multiplied.append(numbers)
            if any(value not in self.ops.get(user, ()) for user in users) or self.graph.is_output(value):
                read_elsewhere.append((numbers, f"%{value.name}: its channels are also read elsewhere"))
        if not read_elsewhere:
            return None, None
        known = [numbers for numbers in multiplied if numbers is not None]
        if len(known) < len(multiplied) or not has_channels(layer):
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
            arrays = scaled_constants(layer, self.channels(layer)[0], factor)
            if arrays is None:
                return None
            found += [(layer, index, array) for index, array in arrays.items()]
        return found


def _operands_to_multiply(op: Op) -> Iterator[list[Value]]:
    """Yield lists of operands of ``op``: if all operands of one list are multiplied, so is the result.

    Yield nothing if ``op`` is not linear, or is none of the operators below.
    """
    values = [value for value in op.inputs if value is not None]
    if isinstance(op, Add | Sub | Neg | Concatenation | Pack):
        yield values
    elif isinstance(op, Div):
        yield values[:1]
    elif isinstance(op, RoPE):
        yield [op.input]
    elif isinstance(op, Mul | BatchMatMul):
        yield from ([value] for value in values if not value.is_const and values.count(value) == 1)
    elif op.data_movement and (copied := followed_operand(op)) is not None:
        yield [copied]
