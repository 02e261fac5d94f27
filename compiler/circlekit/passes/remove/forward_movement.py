# SPDX-License-Identifier: Apache-2.0
"""Move Reshapes and Transposes past operators that use their result, mostly elementwise ones."""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar

import numpy as np

from circlekit.ir.graph import Graph
from circlekit.ir.op import Op
from circlekit.ir.shape_inference import fits
from circlekit.ir.value import Value
from circlekit.ops.dimensions import normalized_axis
from circlekit.ops.movement.shape import Reshape, Transpose
from circlekit.ops.reduction.normalization import LogSoftmax, Softmax
from circlekit.ops.reduction.reduce import Mean
from circlekit.passes.remove.remove_reshape_around_elementwise import move, only_operand
from circlekit.passes.support.axes import constant_perm, inverse, is_movable, permuted_constant
from circlekit.passes.support.conditions import determined_shape, remove_unused, same_quantization
from circlekit.rewrite.base import Context, GraphPass
from circlekit.targets.cost import value_bytes


class SinkPass(GraphPass):
    """op(move(x))  ==  move(op(x)), repeated for the following operators until one has an obstacle.

    ``kind``: the class of ``move``, Reshape or Transpose.  ``op`` may read the results of several movements.
    A movement that has other users than ``op`` stays for these users; at least one movement must have no
    other user.  In a pipeline (``context.exact``), nothing changes if more data would be moved after ``op``
    than before it.
    """

    kind: ClassVar[type[Op]]

    def run_graph(self, graph: Graph, context: Context) -> int:
        return sum(self._forward(graph, op, context) for op in graph.ops if op.graph is graph)

    def _forward(self, graph: Graph, op: Op, context: Context) -> bool:
        """Move the movements before ``op`` after it if nothing refuses; return whether they moved.

        ``moved``, here and below: the operands of ``op`` that are results of movements.
        """
        moved = [v for v in op.inputs if v is not None and isinstance(v.producer, self.kind)]
        if not moved or len(op.results) != 1 or not fits(op):
            return False
        sentence = interior_obstacle(graph, op, moved) or self.obstacle(op, moved)
        if sentence is None and context.exact and value_bytes(op.output) > sum(map(value_bytes, moved)):
            sentence = f"%{op.output.name}: is larger than %{moved[0].name}, so more data would be moved"
        if not context.accepts(self.name, op, sentence):
            return False
        self.swap(graph, op, moved)
        return True

    @abstractmethod
    def obstacle(self, op: Op, moved: list[Value]) -> str | None:
        """Return why the producers of ``moved`` cannot move past ``op``; None if they can."""

    @abstractmethod
    def swap(self, graph: Graph, op: Op, moved: list[Value]) -> None:
        """Let ``op`` read what the movements read, and insert one movement after ``op``."""


def interior_obstacle(graph: Graph, op: Op, moved: list[Value]) -> str | None:
    """Return why no movement may move past ``op``, whatever its kind; None if there is no such reason.

    - One of ``moved``, or the result of ``op``, is quantized per channel.
    - A movement reads a variable.
    - Each of ``moved`` is an output of the graph or has other users, so no movement would disappear.
    """
    for value in (*moved, op.output):
        if value.quantization is not None and value.quantization.is_per_channel:
            return f"%{value.name}: is quantized along an axis"
    if (variable := next((v for v in map(_source, moved) if v.is_variable), None)) is not None:
        return f"%{variable.name}: is a variable, which may change before %{op.output.name} is computed"
    first = moved[0]
    if all(graph.is_output(v) or v.use_count > op.inputs.count(v) for v in moved):
        other = "is an output of the graph" if graph.is_output(first) else "has other users"
        return f"%{first.name}: {other}"
    return None


def put_after(graph: Graph, op: Op, movement: Op, inner: Value) -> None:
    """Insert ``movement`` after ``op``; ``op`` then produces ``inner``, and ``movement`` the old result."""
    result = op.output
    op.take_result(0, inner)
    movement.add_result(result)
    graph.insert_after(op, movement)


class ForwardReshapeToUnaryOp(SinkPass):
    """f(reshape(x))  ==  reshape(f(x)) for an elementwise f of x and constants of one element.

    f may also be a MEAN with keep_dims over leading axes that the Reshape keeps, or a softmax if the Reshape
    keeps the last axis.  A pipeline moves no Reshape if the result of f has more bytes than that of the
    Reshape.
    """

    name = "forward_reshape_to_unaryop"
    kind = Reshape

    def obstacle(self, op: Op, moved: list[Value]) -> str | None:
        value, result = moved[0], op.output
        name, source, found = f"%{result.name}", _source(value), type(op).__name__
        if (unknown := next((v for v in (source, value) if v.shape is None), None)) is not None:
            return f"%{unknown.name}: has an unknown rank"
        if (why := same_quantization(source, value) or determined_shape(result)) is not None:
            return why
        if isinstance(op, Mean):
            return _mean_obstacle(op, source, value)
        if isinstance(op, Softmax | LogSoftmax):
            last = source.known_shape[-1:]
            kept = last == value.known_shape[-1:] and None not in last
            return None if kept else f"{name}: works along the last axis, which %{value.name} changes"
        if only_operand(op) is not value:
            expected = "an elementwise operator of one value and constants of one element"
            return f"{name}: expected {expected}, got {found}"
        return None if value.rank == result.rank else f"{name}: is broadcast to another rank"

    def swap(self, graph: Graph, op: Op, moved: list[Value]) -> None:
        value, result = moved[0], op.output
        source, shape = _source(value), [-1 if d is None else d for d in result.known_shape]  # -1: unknown
        name = graph.unique_name(f"{result.name}/{type(op).__name__}")
        inner = Value(name, result.dtype, source.shape, None, result.quantization)
        target = Value.constant(graph.unique_name(f"{result.name}/shape"), np.array(shape, np.int32))
        put_after(graph, op, Reshape(inner, target, results=[], new_shape=tuple(shape)), inner)
        if isinstance(op, Mean):
            rank = value.known_rank
            # the source may have another rank, so axes must not be counted from the end
            axes = np.array([a % rank for a in op.axis.array().reshape(-1)], np.int32)
            op.set_input(0, source)
            op.set_input(1, Value.constant(graph.unique_name(f"{result.name}/axis"), axes))
            inner.shape = op.inferred()[0].shape
        else:
            move(graph, op, {value: source}, source.known_shape, value)
        remove_unused(graph, *moved)


def _source(value: Value) -> Value:
    """Return the operand of the movement that produces ``value``."""
    assert isinstance(value.producer, Reshape | Transpose)  # _forward selects these
    return value.producer.input


def _mean_obstacle(op: Mean, source: Value, value: Value) -> str | None:
    """Return a sentence unless ``op`` averages over leading axes that the Reshape before it keeps.

    ``source``, ``value``: the operand and the result of the Reshape.
    """
    name = f"%{op.output.name}"
    if not op.keep_dims or not op.axis.is_plain or op.input is not value:
        return f"{name}: expected a mean with keep_dims over constant axes"
    before, after = source.known_shape, value.known_shape
    pairs = zip(before, after, strict=False)
    # the number of leading axes that the Reshape keeps
    kept = next((i for i, (a, b) in enumerate(pairs) if a != b or a is None), min(len(before), len(after)))
    axes = sorted(normalized_axis(int(a), len(after)) for a in op.axis.array().reshape(-1))
    if all(axis < kept for axis in axes):
        return None
    return f"{name}: expected a mean over axes below {kept}, which the Reshape keeps, got {axes}"


class ForwardTranspose(SinkPass):
    """f(transpose(x))  ==  transpose(f(x)) for an elementwise f.

    Each further operand of f must be the result of a Transpose with the same perm, or a constant, to which
    the inverse perm is applied.
    """

    name = "forward_transpose_op"
    kind = Transpose

    def obstacle(self, op: Op, moved: list[Value]) -> str | None:
        name = f"%{op.output.name}"
        if not op.elementwise:
            return f"{name}: expected an elementwise operator, got {type(op).__name__}"
        perms = [constant_perm(v.producer) for v in moved]
        if None in perms:
            return f"%{moved[perms.index(None)].name}: expected a constant perm and a known rank"
        if any(p != perms[0] for p in perms):
            found = [list(perm) for perm in perms if perm is not None]
            return f"{name}: expected one constant perm for all operands, got {found}"
        rescaled = next((s for v in moved if (s := same_quantization(_source(v), v)) is not None), None)
        if rescaled is not None:
            return rescaled
        for value in op.inputs:
            if value is not None and value not in moved and not (value.is_plain and is_movable(value)):
                return f"%{value.name}: expected a constant or the result of a Transpose"
        if any(v.rank != op.output.rank for v in moved):
            return f"{name}: expected rank {moved[0].rank}, as %{moved[0].name} has, got {op.output.rank}"
        if any(v is not None and len(v.shape or ()) > len(moved[0].shape or ()) for v in op.inputs):
            return f"{name}: a constant has more dimensions than %{moved[0].name}"
        return None

    def swap(self, graph: Graph, op: Op, moved: list[Value]) -> None:
        first = moved[0].producer
        assert isinstance(first, Transpose)  # _forward selects these
        perm, permutation = constant_perm(first), first.perm
        assert perm is not None  # obstacle has checked it
        for index, value in enumerate(list(op.inputs)):
            assert value is not None  # elementwise operators have no optional operands
            if isinstance(value.producer, Transpose):
                op.set_input(index, _source(value))
            elif value.numel != 1:  # a constant
                moved_back = permuted_constant(value, inverse(perm))
                moved_back.name = graph.unique_name(f"{value.name}/Transpose")
                op.set_input(index, moved_back)
        result = op.output
        name = graph.unique_name(f"{result.name}/{type(op).__name__}")
        inner = Value(name, result.dtype, op.inferred()[0].shape, None, result.quantization)
        put_after(graph, op, Transpose(inner, permutation, results=[]), inner)
        remove_unused(graph, *moved)
