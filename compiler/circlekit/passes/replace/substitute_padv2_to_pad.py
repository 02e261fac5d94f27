# SPDX-License-Identifier: Apache-2.0
"""Write PADV2 before a max pool as PAD."""

from __future__ import annotations

from circlekit.ir.dtypes import f32
from circlekit.ir.enums import Activation, Padding
from circlekit.ir.graph import Graph
from circlekit.ir.op import Op
from circlekit.ir.value import Value
from circlekit.ops.arithmetic.activation import Logistic, Relu, Relu0To1, Relu6
from circlekit.ops.arithmetic.unary import Abs, Exp, Square
from circlekit.ops.convolution.pool import MaxPool2D
from circlekit.ops.dimensions import normalized_axis
from circlekit.ops.movement.shape import Transpose
from circlekit.ops.movement.slice import Pad, PadV2
from circlekit.rewrite.base import Context, GraphPass

NEVER_NEGATIVE = (Relu, Relu6, Relu0To1, Logistic, Abs, Exp, Square)


class SubstitutePadV2ToPad(GraphPass):
    """max_pool(padv2(x, c))  ==  max_pool(pad(x)) for x >= 0 >= c, where every window contains elements of x.

    The maximum is then an element of x in both cases.  Transposes may stand before and behind the PADV2.  A
    plain pass, because all users are checked, through any number of Transposes.
    """

    name = "substitute_padv2_to_pad"

    def run_graph(self, graph: Graph, context: Context) -> int:
        return sum(self._substitute(graph, op, context) for op in graph.ops if isinstance(op, PadV2))

    def _substitute(self, graph: Graph, op: PadV2, context: Context) -> bool:
        sentence = _obstacle(graph, op)
        if sentence is not None:
            context.refuse(self.name, op, sentence, 2)
            return False
        if not context.may_rewrite:
            return False
        context.rewrites(op)
        pad = Pad(op.input, op.paddings)
        pad.take_result(0, op.output)
        graph.insert_before(op, pad)
        graph.remove(op)
        return True


def _obstacle(graph: Graph, op: PadV2) -> str | None:
    name, value, paddings = f"%{op.output.name}", op.constant_values, op.paddings
    if op.input.dtype is not f32 or not value.is_plain or not paddings.is_plain or op.input.rank != 4:
        return f"{name}: expected f32 of rank 4 with constant paddings and a constant value"
    if float(value.array().reshape(-1)[0]) > 0:
        return f"%{value.name}: expected 0 or less, got {float(value.array().reshape(-1)[0]):g}"
    if not _is_never_negative(op.input):
        return f"%{op.input.name}: may be negative, so 0 may be greater"
    edges = [tuple(int(n) for n in pair) for pair in paddings.array().tolist()]
    return _reader_obstacle(graph, op.output, edges)


def _is_never_negative(value: Value) -> bool:
    op = value.producer
    while isinstance(op, Transpose):
        op = op.inputs[0].producer if op.inputs[0] is not None else None
    limited = (Activation.RELU, Activation.RELU6)
    return isinstance(op, NEVER_NEGATIVE) or (
        op is not None and op.fuses_activation and op.attribute_items()["act"] in limited
    )


def _reader_obstacle(graph: Graph, value: Value, edges: list[tuple[int, ...]]) -> str | None:
    """Why some user would get other values; ``edges``: the padding of each axis of ``value``."""
    if graph.is_output(value):
        return f"%{value.name}: is an output of the graph"
    for user in value.users:
        if isinstance(user, Transpose) and user.perm.is_plain:
            perm = [normalized_axis(int(a), 4) for a in user.perm.array()]
            sentence = _reader_obstacle(graph, user.output, [edges[a] for a in perm])
        else:
            sentence = _pool_obstacle(user, value, edges)
        if sentence is not None:
            return sentence
    return None


def _pool_obstacle(user: Op, value: Value, edges: list[tuple[int, ...]]) -> str | None:
    if not isinstance(user, MaxPool2D) or user.padding is not Padding.VALID:
        return f"%{user.output.name}: expected a MaxPool2D with VALID padding, got {type(user).__name__}"
    for axis, taps in ((0, 1), (1, user.filter_height), (2, user.filter_width), (3, 1)):
        if max(edges[axis]) >= taps:
            return f"%{value.name}: some windows of %{user.output.name} are inside the padding of axis {axis}"
    return None
