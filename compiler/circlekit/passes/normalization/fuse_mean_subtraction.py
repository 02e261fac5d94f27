# SPDX-License-Identifier: Apache-2.0
"""Remove subtractions of the mean in layer normalizations: center the weights of the layers before them.

A row is a vector along the last axis.  A row is centered if its mean is 0.  A value is centered if all its
rows are centered.  To center a row means to subtract its mean from each of its elements.

Here a layer is an operator that gives a centered result if its constants are centered (layer_centering.py).
A sum is an ADD or a SUB.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from circlekit.ir.dtypes import f32
from circlekit.ir.enums import Activation
from circlekit.ir.graph import Graph
from circlekit.ir.op import Op
from circlekit.ir.text.lines import short_op
from circlekit.ir.value import Value
from circlekit.ops.arithmetic.binary import Add, Sub
from circlekit.ops.constant_operands import static_int_vector
from circlekit.ops.dimensions import normalized_axis
from circlekit.ops.movement.join import Concatenation, Pack, SplitOperator, Unpack
from circlekit.ops.movement.shape import ExpandDims, Reshape, Squeeze, Transpose
from circlekit.ops.movement.slice import Slice, StridedSlice
from circlekit.ops.quantized_values import followed_operand
from circlekit.ops.reduction.reduce import Mean
from circlekit.passes.normalization.layer_centering import Layer, center_layer, centered, centering_refusal
from circlekit.passes.support.axes import constant_perm, last_axis_stride
from circlekit.passes.support.conditions import remove_unused
from circlekit.passes.support.insertion import Inserter
from circlekit.rewrite.base import Context, GraphPass

ROW_MOVEMENTS = (
    Reshape, Squeeze, ExpandDims, Transpose, Slice, StridedSlice, SplitOperator, Unpack, Concatenation, Pack
)  # fmt: skip
"""Operators that move whole rows, if the last axis keeps its size and ``_keeps_last_axis`` returns True."""


class FuseMeanSubtraction(GraphPass):
    """x - mean(x)  ==  y, where y is x computed with centered weights, so that its mean is 0 already.

    The mean is over the last axis.  x is a sum of results of layers, as in a transformer, where each layer
    normalization reads the sum of all blocks before.  The users of x must be subtractions of its mean,
    further sums, or movements of rows.  Where the layers cannot center an operand of a sum or movement, a new
    subtraction centers it; a centered constant replaces a constant operand.  The pass refuses unless more
    subtractions disappear than are added.
    """

    name = "fuse_mean_subtraction"

    def run_graph(self, graph: Graph, context: Context) -> int:
        count = 0
        done: set[Value] = set()
        for op in graph.ops:
            # an earlier rewrite may have removed ``op`` from the graph
            data = _centered_operand(op) if op.graph is graph else None
            if data is None or data in done:
                continue
            stream = _Stream(graph, data)
            done |= stream.seen
            sentence = stream.refusal(data)
            # ``progress`` ranks near misses: 2 for each operator that matched, Mean and Sub
            if context.accepts(self.name, op, sentence, progress=4):
                stream.center()
                count += 1
        return count


def _centered_operand(op: Op) -> Value | None:
    """Return x if ``op`` is x - mean(x) over the last axis of x; else None.

    x is f32, and its last dimension is known and above 1.
    """
    if not isinstance(op, Sub) or op.act is not Activation.NONE:
        return None
    x, mean = op.lhs, op.rhs.producer
    if not isinstance(mean, Mean) or mean.inputs[0] is not x or not mean.keep_dims or not x.shape:
        return None
    axes = static_int_vector(mean.inputs[1])
    is_last = axes in ([-1], [len(x.shape) - 1])
    return x if is_last and x.dtype is f32 and x.shape[-1] is not None and x.shape[-1] > 1 else None


class _Stream:
    """Values that are connected with the value ``start`` by sums and movements of rows.

    ``channels``: the number of elements of each row, the same for all these values.
    ``centered``: the values that can be centered together, as the keys of a dict, in order.
    ``seen``: all values that were examined.  ``obstacles``: for values that cannot be centered, the reason.
    """

    def __init__(self, graph: Graph, start: Value) -> None:
        self.graph = graph
        self.channels = start.known_shape[-1]
        self.obstacles: dict[Value, str] = {}
        self.seen: set[Value] = set()
        self.centered: dict[Value, None] = {}
        todo = [start]
        while todo:
            value = todo.pop()
            if value in self.seen:
                continue
            self.seen.add(value)
            if value.is_const or not self.has_rows(value):
                continue
            self.centered[value] = None
            todo += self.neighbors(value)
        self.shrink()

    def neighbors(self, value: Value) -> list[Value]:
        """Return the operands and results of the sums and movements that produce or read ``value``."""
        ops = [op for op in (value.producer, *value.users) if op is not None and self.keeps_rows(op)]
        return [v for op in ops for v in (*_row_operands(op), *op.results)]

    def has_rows(self, value: Value) -> bool:
        """Return whether ``value`` is f32, is not a variable, and has rows of ``channels`` elements."""
        shape = value.shape
        return (
            value.dtype is f32
            and shape is not None
            and shape[-1:] == (self.channels,)
            and not value.is_variable
        )

    def keeps_rows(self, op: Op) -> bool:
        """Return whether the rows of the results of ``op`` are rows of its operands, or sums of such rows.

        A StridedSlice may also reverse the elements of all rows.
        """
        if getattr(op, "act", Activation.NONE) is not Activation.NONE:
            return False
        if not isinstance(op, (Add, Sub, *ROW_MOVEMENTS)) or _centered_operand(op) is not None:
            return False
        return _keeps_last_axis(op) and all(self.has_rows(v) for v in (*_row_operands(op), *op.results))

    def shrink(self) -> None:
        """Remove from ``centered`` each value that has an obstacle.

        The removal may be an obstacle for the neighbors of the value, so these are examined again.
        """
        todo = list(self.centered)
        while todo:
            value = todo.pop()
            if value in self.centered and (sentence := self._obstacle(value)) is not None:
                self.obstacles[value] = sentence
                del self.centered[value]
                todo += self.neighbors(value)

    def _obstacle(self, value: Value) -> str | None:
        """Return why ``value`` cannot be centered with the other values in ``centered``; None if it can."""
        op = value.producer
        if op is None:
            return f"%{value.name}: is an input of the graph"
        # ``ends``: the subtractions of the mean; ``value`` will replace their results, and can replace only
        # one output of the graph
        ends = [user for user in value.users if _centered_operand(user) is value]
        if self.graph.is_output(value):
            return f"%{value.name}: is an output of the graph"
        if sum(self.graph.is_output(end.output) for end in ends) > 1:
            return f"%{value.name}: would have to stand for two outputs of the graph"
        if isinstance(op, Layer):
            sentence = centering_refusal(op)
            if sentence is not None:
                return sentence
        elif not self.keeps_rows(op):
            return f"%{value.name}: comes from {type(op).__name__}, expected a layer, a sum or moved rows"
        else:
            other = next((result for result in op.results if result not in self.centered), None)
            if other is not None:
                return f"%{value.name}: cannot be centered without %{other.name}, which cannot be centered"
        for user in value.users:
            if self._is_mean(user, value) or _centered_operand(user) is value:
                continue
            if not self.keeps_rows(user) or not all(result in self.centered for result in user.results):
                return f"%{value.name}: is also read by {short_op(user)}"
        return None

    def _is_mean(self, op: Op, value: Value) -> bool:
        """Return whether ``op`` is a mean of ``value`` that is only subtracted from ``value``."""
        return (
            isinstance(op, Mean)
            and not self.graph.is_output(op.output)
            and all(_centered_operand(user) is value for user in op.output.users)
        )

    def subtractions(self) -> list[Op]:
        """Return the subtractions of a mean that disappear."""
        return [user for value in self.centered for user in value.users if _centered_operand(user) is value]

    def uncentered(self) -> Iterator[tuple[Op, int, Value]]:
        """Yield (operator, index of the operand, operand) for each operand that needs a centered copy.

        The operator is a sum or movement of rows that computes a value in ``centered``; the operand has rows,
        but is not in ``centered``.
        """
        for op in dict.fromkeys(value.producer for value in self.centered):
            if not isinstance(op, (Add, Sub, *ROW_MOVEMENTS)):
                continue
            rows = list(_row_operands(op))
            for index, value in enumerate(op.inputs):
                if value is not None and value in rows and value not in self.centered:
                    yield op, index, value

    def refusal(self, start: Value) -> str | None:
        """Return why ``start`` cannot be centered, or why centering does not pay; None if it pays."""
        subtractions = self.subtractions()
        if not subtractions:
            return self.obstacles.get(start) or f"%{start.name}: is a constant or a variable"
        added = {value for _, _, value in self.uncentered() if not value.is_plain}
        # without values whose mean is subtracted already: ``_copy`` adds an equal subtraction, and
        # common_subexpression_elimination makes both one
        new = [v for v in added if not any(_centered_operand(user) is v for user in v.users)]
        if len(subtractions) > len(new):
            return None
        why = "that adds at least as many subtractions of a mean as are removed"
        return f"%{min(v.name for v in new)}: has to be centered, too; {why}"

    def center(self) -> None:
        """Center weights, tables and the operands of ``uncentered``; remove the subtractions of the mean."""
        copies: dict[Value, Value] = {}
        order = {op: index for index, op in enumerate(self.graph.ops)}
        for op, index, value in sorted(self.uncentered(), key=lambda entry: (order[entry[0]], entry[1])):
            if value not in copies:
                copies[value] = self._copy(op, value)
            op.set_input(index, copies[value])
        for layer in dict.fromkeys(value.producer for value in self.centered):
            if isinstance(layer, Layer):
                center_layer(self.graph, layer)
        for op in self.subtractions():
            x, mean = op.inputs
            if x is not None and mean is not None:
                self.graph.replace(op.output, x)
                self.graph.remove(op)
                remove_unused(self.graph, mean)

    def _copy(self, op: Op, value: Value) -> Value:
        """Return ``value`` minus its mean, as a constant or computed by new operators before ``op``."""
        new = Inserter(self.graph, op)
        if value.is_plain:
            return new.constant("centered", centered(value.array(), -1))
        # if the mean of ``value`` is subtracted already, take its axes, perhaps [2] instead of [-1]: then the
        # new operators equal the present ones
        ends = (user for user in value.users if _centered_operand(user) is value)
        present = next((end.rhs.producer for end in ends if isinstance(end, Sub)), None)
        last_axis = np.array([-1], np.int32)
        axis = present.axis if isinstance(present, Mean) else new.constant("axis", last_axis)
        return new.make(Sub(value, new.make(Mean(value, axis, keep_dims=True))))


def _keeps_last_axis(op: Op) -> bool:
    """Return whether a sum or movement leaves the last axis in place.

    The caller checks that the last axis keeps its size.  Another axis of the same size could have taken its
    place.
    """
    if isinstance(op, Transpose):
        perm = constant_perm(op)
        return perm is not None and perm[-1] == len(perm) - 1
    if isinstance(op, StridedSlice):
        return last_axis_stride(op) is not None
    if isinstance(op, Pack | Unpack):
        rank = (op.output if isinstance(op, Pack) else op.input).rank
        return rank is not None and normalized_axis(op.axis, rank) != rank - 1
    return True


def _row_operands(op: Op) -> Iterator[Value]:
    """Yield the operands of a sum or movement ``op`` that hold its data: not its axes, sizes or indices."""
    if isinstance(op, Add | Sub | Concatenation | Pack):
        yield from (value for value in op.inputs if value is not None)
    elif (copied := followed_operand(op)) is not None:
        yield copied
