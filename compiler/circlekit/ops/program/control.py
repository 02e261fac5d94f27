# SPDX-License-Identifier: Apache-2.0
"""Operators that run other graphs.  Source: TFLite while, if, call_once, stablehlo_composite."""

from __future__ import annotations

from collections.abc import Sequence

from circlekit.errors import ModelError, ShapeError, UnsupportedError
from circlekit.ir.dtypes import boolean
from circlekit.ir.enums import CustomOptionsFormat
from circlekit.ir.graph import Graph
from circlekit.ir.op import Op, Run, attribute, graph_attribute, operand, variadic_operand
from circlekit.ir.value import Array, Shape, TensorType, Value
from circlekit.ops.operand_dtypes import ANY
from circlekit.ops.program.state import state_of


def _either(a: Shape | None, b: Shape | None) -> Shape | None:
    """What two shapes have in common."""
    if a is None or b is None or len(a) != len(b):
        return None
    return tuple(x if x == y else None for x, y in zip(a, b, strict=True))


def _need_pairs(what: str, left: Sequence[Value], right: Sequence[Value]) -> None:
    """ShapeError unless both have the same number of values, of the same dtypes."""
    if len(left) != len(right):
        raise ShapeError(f"{what}: {len(left)} and {len(right)} values, equal counts are wanted")
    for a, b in zip(left, right, strict=True):
        if a.dtype is not b.dtype:
            raise ShapeError(f"{what}: %{a.name} is {a.dtype.short}, %{b.name} is {b.dtype.short}")


def _truth(array: Array) -> bool:
    if array.size != 1:
        raise ModelError(f"a condition has {array.size} elements, one is wanted")
    return bool(array.reshape(-1)[0])


class While(Op, code="WHILE", variadic_results=True, pure=False):
    """The operands through ``body`` again and again, as long as ``cond`` of them holds."""

    input = variadic_operand(*ANY)

    cond: Graph = graph_attribute(field="cond_subgraph_index")
    body: Graph = graph_attribute(field="body_subgraph_index")

    def infer(self) -> tuple[TensorType, ...]:
        values = self.input
        _need_pairs("operands and inputs of the body", values, self.body.inputs)
        _need_pairs("operands and outputs of the body", values, self.body.outputs)
        pairs = zip(values, self.body.outputs, strict=True)
        return tuple(TensorType(v.dtype, _either(v.shape, out.shape), v.quantization) for v, out in pairs)

    def call(self, run: Run, *args: Array) -> Sequence[Array]:
        state: Sequence[Array] = args
        while _truth(run(self.cond, state)[0]):
            state = run(self.body, state)
        return state


class If(Op, code="IF", variadic_results=True, pure=False):
    """The outputs of ``then_graph`` where the condition holds, else those of ``else_graph``."""

    condition = operand(boolean)
    input = variadic_operand(*ANY)

    then_graph: Graph = graph_attribute(field="then_subgraph_index")
    else_graph: Graph = graph_attribute(field="else_subgraph_index")

    def infer(self) -> tuple[TensorType, ...]:
        if self.condition.dtype is not boolean:
            raise ShapeError(f"condition is {self.condition.dtype.short}, bool is wanted")
        for branch in (self.then_graph, self.else_graph):
            _need_pairs("operands and inputs of a branch", self.input, branch.inputs)
        then, other = self.then_graph.outputs, self.else_graph.outputs
        _need_pairs("outputs of both branches", then, other)
        pairs = zip(then, other, strict=True)
        return tuple(TensorType(a.dtype, _either(a.shape, b.shape), a.quantization) for a, b in pairs)

    def call(self, run: Run, *args: Array) -> Sequence[Array]:
        return run(self.then_graph if _truth(args[0]) else self.else_graph, args[1:])


class CallOnce(Op, code="CALL_ONCE", results=(), pure=False):
    """A graph that sets up resources; it runs before the first run of the model."""

    init: Graph = graph_attribute(field="init_subgraph_index")

    def infer(self) -> tuple[TensorType, ...]:
        return ()

    def call(self, run: Run, *args: Array) -> Sequence[Array]:
        initialized = state_of(self, run).initialized
        if self.init not in initialized:
            initialized.add(self.init)
            run(self.init, ())
        return ()


class Callee(Op, variadic_results=True):
    """The outputs of another graph for the operands."""

    input = variadic_operand(*ANY)

    def callee(self) -> Graph:
        """The graph that it runs."""
        raise UnsupportedError(f"{self.code} calls no graph")

    def infer(self) -> tuple[TensorType, ...]:
        _need_pairs(f"operands and inputs of {self.callee().name}", self.input, self.callee().inputs)
        return tuple(v.type for v in self.callee().outputs)

    def call(self, run: Run, *args: Array) -> Sequence[Array]:
        return run(self.callee(), args)


class Call(Callee, code="CALL", pure=False):
    """Runs a graph.  LiteRT has no kernel for it."""

    subgraph: Graph = graph_attribute(field="subgraph")

    def callee(self) -> Graph:
        return self.subgraph


class StablehloComposite(Callee, code="STABLEHLO_COMPOSITE", options="StableHLOCompositeOptions", pure=False):
    """An operation with a name of its own, computed by the graph that decomposes it."""

    name: str | None = attribute(None)
    decomposition: Graph = graph_attribute(field="decomposition_subgraph_index")
    composite_attributes: tuple[int, ...] | None = attribute(None)
    composite_attributes_format: CustomOptionsFormat = attribute(CustomOptionsFormat.FLEXBUFFERS)
    composite_version: int = attribute(0, field="version")

    def callee(self) -> Graph:
        return self.decomposition
