# SPDX-License-Identifier: Apache-2.0
"""Replace FULLY_CONNECTED by BATCH_MATMUL if its weights are not constant."""

from __future__ import annotations

from circlekit.errors import counted
from circlekit.ir.dtypes import f32
from circlekit.ir.enums import Activation, WeightsFormat
from circlekit.ir.graph import Graph
from circlekit.ir.value import Value
from circlekit.ops.arithmetic.binary import Add
from circlekit.ops.matmul.dense import BatchMatMul, FullyConnected
from circlekit.ops.movement.shape import Transpose
from circlekit.passes.legal.split_activation import OPERATORS
from circlekit.passes.support.axes import constant_perm
from circlekit.passes.support.conditions import remove_unused
from circlekit.passes.support.insertion import Inserter
from circlekit.rewrite.base import Context, GraphPass
from circlekit.rewrite.build import misfit_refusal


class ReplaceNonConstFullyConnected(GraphPass):
    """fc(x, w, b)  ==  x @ transpose(w) + b, if w is not constant and all values are f32.

    If w, or an x that needs no Reshape, is the result of a Transpose of the last two axes, the BATCH_MATMUL
    reads the operand of the Transpose instead, with the right adj_x or adj_y (see ``swapped_source``).  There
    is no picture, because only some layers need a Reshape, an ADD or an activation.  A pipeline replaces the
    layer only if the number of operators does not grow.
    """

    name = "replace_non_const_fc_with_batch_matmul"
    formats = frozenset({"circle"})  # in .tflite the layer may stay: LiteRT supports computed weights

    def run_graph(self, graph: Graph, context: Context) -> int:
        return sum(self._replace(graph, op, context) for op in graph.ops if isinstance(op, FullyConnected))

    def _replace(self, graph: Graph, op: FullyConnected, context: Context) -> bool:
        """Replace ``op`` unless there is an obstacle; return whether it was replaced."""
        if op.weights.is_const:
            if context.partial_matches:
                context.refuse(self.name, op, f"%{op.weights.name}: is constant")
            return False
        sentence = self.obstacle(op) or misfit_refusal(op)
        # ``exact``: the pass runs in a pipeline
        if sentence is None and context.exact and (added := growth(graph, op)) > 0:
            sentence = f"%{op.output.name}: would add {counted(added, 'operator')}"
        if not context.accepts(self.name, op, sentence):
            return False
        producers = [v.producer for v in op.inputs if v is not None and v.producer is not None]
        inserter = Inserter(graph, op)
        inserter.finish(_product(inserter, op))
        for producer in producers:
            if isinstance(producer, Transpose):
                remove_unused(graph, *producer.results)
        return True

    def obstacle(self, op: FullyConnected) -> str | None:
        """Return why ``op`` cannot be replaced; None if it can."""
        name = f"%{op.output.name}"
        floats = [v for v in (op.input, op.weights, op.bias, *op.results) if v is not None]
        other = next((v for v in floats if v.dtype is not f32), None)
        if other is not None:
            return f"%{other.name}: expected f32, got {other.dtype.short}"
        if op.weights_format is not WeightsFormat.DEFAULT:
            return f"{name}: expected weights of format DEFAULT, got {op.weights_format.name}"
        if len(op.results) > 1:
            return f"{name}: expected one result, got {len(op.results)}"
        if op.act not in (Activation.NONE, *OPERATORS):
            return f"{name}: act is {op.act.name}, for which there is no operator"
        if op.input.shape is None or op.weights.rank != 2 or op.output.shape is None:
            return f"{name}: has operands or a result of unknown rank"
        if op.bias is not None and op.bias.rank != 1 and not op.bias.is_plain:
            return f"%{op.bias.name}: expected a bias of rank 1 or a plain constant, got {op.bias.type}"
        columns = op.weights.known_shape[1]
        if not takes_matrices(op) and not columns:
            number = "an unknown number of" if columns is None else "no"
            return f"%{op.weights.name}: has {number} columns, so no Reshape can give matrices"
        if product_rank(op) != op.output.rank and op.output.shape.count(None) > 1:
            return f"{name}: has more than one unknown dimension, which no Reshape can restore"
        return None


class FuseTransposeWithFullyConnected(ReplaceNonConstFullyConnected):
    """fc(x, transpose(w))  ==  x @ w, and the same for a transposed x, if one operator replaces two.

    So the layer must have no bias and no activation, and the BATCH_MATMUL must not need a Reshape.  The
    weights must not be constant.
    """

    name = "fuse_transpose_with_fullyconnected"
    formats = frozenset({"circle", "tflite"})

    def obstacle(self, op: FullyConnected) -> str | None:
        graph = op.graph
        assert graph is not None  # the pass looks at operators of a graph
        lone = [v for v in (op.input, op.weights) if v.use_count == 1 and not graph.is_output(v)]
        if all(swapped_source(value) is None for value in lone):
            kind = "a Transpose that swaps the last two axes, is used once and reads no variable"
            return f"%{op.output.name}: expected an operand from {kind}"
        if op.bias is not None or (op.input.rank != 2 and not op.keep_num_dims):
            return f"%{op.output.name}: would need an ADD or a Reshape, so nothing is gained"
        if op.act is not Activation.NONE:
            return f"%{op.output.name}: act is {op.act.name}, which would need another operator"
        sentence = super().obstacle(op)
        if sentence is None and not takes_matrices(op):
            return f"%{op.input.name}: would need a Reshape, so nothing is gained"
        return sentence


def growth(graph: Graph, op: FullyConnected) -> int:
    """Return by how many operators ``graph`` grows if ``op`` is replaced; negative if it shrinks."""
    reshapes = (not takes_matrices(op)) + (product_rank(op) != op.output.rank)
    # the operands of which the BATCH_MATMUL can absorb a Transpose
    absorbable = {op.weights, op.input} if takes_matrices(op) else {op.weights}
    unused = [v for v in absorbable if v.use_count == op.inputs.count(v) and not graph.is_output(v)]
    removed = [v for v in unused if swapped_source(v) is not None]
    return reshapes + (op.bias is not None or op.act is not Activation.NONE) - len(removed)


def product_rank(op: FullyConnected) -> int:
    """Return the rank of the result of the BATCH_MATMUL that replaces ``op``."""
    return op.input.known_rank if takes_matrices(op) else 2


def swapped_source(value: Value) -> Value | None:
    """Return x if ``value`` is a Transpose of x that swaps only the last two axes; else None.

    Return None also if x is a variable, which may change after the Transpose.
    """
    op = value.producer
    perm = constant_perm(op)
    if not isinstance(op, Transpose) or perm is None or len(perm) < 2 or op.input.is_variable:
        return None
    *batch, rows, columns = range(len(perm))
    return op.input if perm == (*batch, columns, rows) else None


def takes_matrices(op: FullyConnected) -> bool:
    """Return whether the input is known to be a batch of matrices that fit the weights.

    If so, it needs no Reshape.  If not, FULLY_CONNECTED reads the input as rows of the width of the weights.
    """
    columns = op.weights.known_shape[1]
    is_equal = op.input.known_shape[-1:] == (columns,)
    # with keep_num_dims, FULLY_CONNECTED demands that they are equal, even if both are unknown
    return op.input.known_rank >= 2 and is_equal and (columns is not None or op.keep_num_dims)


def _product(new: Inserter, op: FullyConnected) -> Value:
    """Insert the operators that replace ``op``; return the result of the last one."""
    x, adj_x = op.input, False
    if not takes_matrices(op):
        x = new.reshaped(x, [-1, op.weights.known_shape[1]])
    elif (source := swapped_source(x)) is not None:
        x, adj_x = source, True
    source = swapped_source(op.weights)
    y = new.make(BatchMatMul(x, source or op.weights, adj_x=adj_x, adj_y=source is None))
    if y.rank != op.output.rank:
        y = new.reshaped(y, op.output.known_shape)
    bias = op.bias
    if bias is None:
        return y if op.act is Activation.NONE else new.make(OPERATORS[op.act](y))
    if bias.rank != 1:  # FULLY_CONNECTED accepts any rank, but an ADD might broadcast the product to it
        bias = Value.constant(new.graph.unique_name(bias.name), bias.array().reshape(-1))
    return new.make(Add(y, bias, act=op.act))
