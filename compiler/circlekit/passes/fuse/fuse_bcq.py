# SPDX-License-Identifier: Apache-2.0
"""Replace layers by BCQ operators, which read binary-coded quantized weights, if a model has such weights.

A row of BCQ weights is a sum of rows of +1 and -1 (codes), each multiplied by its scale.
"""

from __future__ import annotations

from circlekit.ir.dtypes import f32, i32
from circlekit.ir.enums import WeightsFormat
from circlekit.ir.graph import Graph, Model
from circlekit.ir.value import Value
from circlekit.ops.dimensions import normalized_axis
from circlekit.ops.matmul.circle_layers import BcqFullyConnected, BcqGather
from circlekit.ops.matmul.dense import FullyConnected
from circlekit.ops.movement.gather import Gather
from circlekit.passes.fold.remove_dead import RemoveDead
from circlekit.passes.support.binary_codes import MAX_RELATIVE_ERROR, Coded, Info, read_info
from circlekit.passes.support.insertion import Inserter
from circlekit.rewrite.base import Context, Pass

Operands = tuple[Value, Value, Value]
"""The constants that a BCQ operator reads: scales, codes, and clusters.

A cluster is a group of rows that have equally many codes.
"""


class FuseBcq(Pass):
    """Replace FULLY_CONNECTED and GATHER by BCQ operators if the model has binary codes of their weights.

    The codes are extra outputs of the model; the first output is a marker that says so
    (``passes/support/binary_codes.py``).  At the end the pass removes the marker and these outputs.  They
    stay if nothing was replaced and there was an obstacle: invalid codes, or an operator that must stay.
    Values change by the error of the codes; codes with a large error belong to other weights and are refused.
    """

    name = "fuse_bcq"
    makes_special_forms = True
    formats = frozenset({"circle"})
    changes_values = True
    changes_interface = True

    def run(self, model: Model, context: Context) -> int:
        info, first_op = read_info(model.main), next(model.ops(), None)
        if info is None or first_op is None:
            return 0
        if isinstance(info, str) or context.format != "circle":
            name = model.main.outputs[0].name
            sentence = info if isinstance(info, str) else f"%{name}: TFLite has no operators on binary codes"
            context.refuse(self.name, first_op, sentence)  # a refusal has to name an operator; any will do
            return 0
        for sentence in info.wrong:  # one for each set of outputs that is not a valid coded constant
            context.refuse(self.name, first_op, sentence)
        replacers = [_Replacer(graph, info, context) for graph in model.graphs]
        replaced = sum(replacer.run() for replacer in replacers)
        if not replaced and (info.wrong or any(r.refused for r in replacers) or not context.may_rewrite):
            return 0
        dropped = [v for v in model.main.outputs if v not in info.outputs]
        model.main.outputs = list(info.outputs)
        for signature in model.signatures:
            if signature.graph is model.main:
                signature.outputs = {k: v for k, v in signature.outputs.items() if v not in dropped}
        RemoveDead().run(model, Context(context.format))
        return replaced + 1  # the removal of the outputs counts as a change


class _Replacer:
    """Replaces operators of one graph; ``refused``: whether an operator on coded weights had an obstacle."""

    def __init__(self, graph: Graph, info: Info, context: Context) -> None:
        self.graph, self.info, self.context = graph, info, context
        self.operands: dict[int, Operands] = {}
        self.refused = False

    def run(self) -> int:
        return sum(self.fuse(op) for op in self.graph.ops if isinstance(op, FullyConnected | Gather))

    def fuse(self, op: FullyConnected | Gather) -> bool:
        """Replace ``op`` if it reads coded weights and has no obstacle; return whether it did."""
        if (pair := self.find(op)) is None:
            return False
        coded, constant = pair
        error, error_transposed = coded.distance(constant.array()), coded.distance(constant.array().T)
        is_transposed = error_transposed < error
        error = min(error, error_transposed)
        sentence = obstacle(op, constant, is_transposed)
        if not error < MAX_RELATIVE_ERROR:  # also if it is NaN, as for infinite weights or scales
            found = f"the codes differ from the weights by {error:.0%}"
            sentence = f"%{constant.name}: {found}, the limit is {MAX_RELATIVE_ERROR:.0%}"
        self.refused |= sentence is not None
        if not self.context.accepts(FuseBcq.name, op, sentence):
            return False
        new = Inserter(self.graph, op)
        if isinstance(op, Gather):
            new.finish(self.gathered(new, op, coded, is_transposed))
        else:
            new.finish(self.connected(new, op, coded, constant))
        return True

    def find(self, op: FullyConnected | Gather) -> tuple[Coded, Value] | None:
        """Return (codes, constant) for a constant that ``op`` reads; None if none of them has codes."""
        for value in (op.params,) if isinstance(op, Gather) else (op.weights, op.input):
            if value.is_plain and value.rank == 2 and value.dtype is f32:
                array = value.array()
                coded = next((c for c in self.info.coded if c.is_source_of(array)), None)
                if coded is not None:
                    return coded, value
        return None

    # -- creating operators ----------------------------------------------------------------------

    def operands_for(self, coded: Coded) -> Operands:
        """Return the operands of BCQ operators for ``coded``, shared by all operators of the graph."""
        operands = self.operands.get(id(coded))
        if operands is None:
            arrays = {"scales": coded.scales, "binary": coded.binary, "clusters": coded.clusters}
            scales, binary, clusters = (
                Value.constant(self.graph.unique_name(f"{coded.name}/{name}"), array)
                for name, array in arrays.items()
            )
            operands = self.operands[id(coded)] = (scales, binary, clusters)
        return operands

    def connected(self, new: Inserter, op: FullyConnected, coded: Coded, constant: Value) -> Value:
        """Insert the product coded @ transpose(x) and return the value that replaces the result of ``op``.

        x is the weights or the input of ``op``, whichever is not ``constant``.  If ``constant`` is the input,
        ``op`` computes just this product.  If it is the weights, ``op`` computes the transpose of the
        product, so a Transpose follows.
        """
        scales, binary, clusters = self.operands_for(coded)
        # the columns of the coded weights
        hidden = constant.static_shape[1]
        is_input = constant is op.input
        x = op.weights if is_input else op.input
        if x.rank != 2 or x.known_shape[-1] != hidden:
            x = new.reshaped(x, [-1, hidden])
        transposed = new.transposed(x, [1, 0])
        product = BcqFullyConnected(
            transposed, scales, binary, op.bias, clusters, weights_hidden_size=hidden, act=op.act
        )
        y = new.make(product)
        if is_input:
            return y
        y = new.transposed(y, [1, 0])
        return y if op.output.rank == 2 else new.reshaped(y, op.output.shape or ())

    def gathered(self, new: Inserter, op: Gather, coded: Coded, transposed: bool) -> Value:
        """Insert BCQ_GATHER and return its result.

        ``transposed``: whether the codes are of the transposed constant; then a Transpose follows.
        """
        scales, binary, clusters = self.operands_for(coded)
        axis, rank = normalized_axis(op.axis, 2), op.indices.known_rank
        hidden = op.params.static_shape[0 if transposed else 1]
        coded_axis = 1 - axis if transposed else axis
        gather = BcqGather(scales, binary, op.indices, clusters, input_hidden_size=hidden, axis=coded_axis)
        value = new.make(gather)
        if not transposed or not rank:
            return value
        # the axis that is not gathered moves to the other end; it is first if ``coded_axis`` is 1, else last
        return new.transposed(value, [*range(1, rank + 1), 0] if coded_axis else [rank, *range(rank)])


def obstacle(op: FullyConnected | Gather, constant: Value, transposed: bool) -> str | None:
    """Return why a BCQ operator cannot replace ``op``; None if it can.

    ``constant``: the operand that has codes.  ``transposed``: whether the codes are those of its transpose.
    """
    name = f"%{op.output.name}"
    if isinstance(op, Gather):
        if op.batch_dims or op.indices.rank is None or op.indices.dtype is not i32:
            return f"{name}: expected indices of i32 with a known rank, and no batch dimensions"
        return None
    if transposed:
        return f"{name}: expected codes of the rows of %{constant.name}, got codes of its columns"
    if op.weights_format is not WeightsFormat.DEFAULT:
        return f"{name}: expected weights of format DEFAULT, got {op.weights_format.name}"
    if len(op.results) != 1:
        return f"{name}: expected one result, got {len(op.results)}"
    if constant is op.input:
        if op.weights.is_const or op.weights.rank != 2 or op.bias is not None:
            reason = "because BCQ_FULLY_CONNECTED adds a bias to rows, not to columns"
            return f"{name}: expected computed weights of rank 2, and no bias, {reason}"
        if op.weights.known_shape[1] != constant.static_shape[1]:
            return f"%{op.weights.name}: expected rows as long as those of %{constant.name}"
        return None
    shape = op.output.shape
    if op.input.rank is None or shape is None or shape.count(None) > 1:
        return f"{name}: has operands or a result of unknown shape"
    return None
