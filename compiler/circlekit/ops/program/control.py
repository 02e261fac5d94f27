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


def _common_shape(a: Shape | None, b: Shape | None) -> Shape | None:
    """Return the dimensions that two shapes share, None where they differ."""
    if a is None or b is None or len(a) != len(b):
        return None
    return tuple(x if x == y else None for x, y in zip(a, b, strict=True))


def _require_same_types(what: str, left: Sequence[Value], right: Sequence[Value]) -> None:
    """Raise ShapeError unless both have the same number of values, with the same dtypes."""
    if len(left) != len(right):
        raise ShapeError(f"{what}: expected equal numbers of values, got {len(left)} and {len(right)}")
    for a, b in zip(left, right, strict=True):
        if a.dtype is not b.dtype:
            pair = f"%{a.name}: {a.dtype.short} and %{b.name}: {b.dtype.short}"
            raise ShapeError(f"{what}: expected equal dtypes, got {pair}")


def _is_true(array: Array) -> bool:
    if array.size != 1:
        raise ModelError(f"condition: expected one element, got {array.size}")
    return bool(array.reshape(-1)[0])


class While(Op, code="WHILE", variadic_results=True, pure=False):
    """``body``, applied to the operands repeatedly while ``cond`` is true for them."""

    input = variadic_operand(*ANY)

    cond: Graph = graph_attribute(field="cond_subgraph_index")
    body: Graph = graph_attribute(field="body_subgraph_index")

    def infer(self) -> tuple[TensorType, ...]:
        values = self.input
        _require_same_types("operands and inputs of the body", values, self.body.inputs)
        _require_same_types("operands and outputs of the body", values, self.body.outputs)
        pairs = zip(values, self.body.outputs, strict=True)
        return tuple(
            TensorType(v.dtype, _common_shape(v.shape, out.shape), v.quantization) for v, out in pairs
        )

    def call(self, run: Run, *args: Array) -> Sequence[Array]:
        state: Sequence[Array] = args
        while _is_true(run(self.cond, state)[0]):
            state = run(self.body, state)
        return state


class If(Op, code="IF", variadic_results=True, pure=False):
    """The outputs of ``then_graph`` if the condition is true, else those of ``else_graph``."""

    condition = operand(boolean)
    input = variadic_operand(*ANY)

    then_graph: Graph = graph_attribute(field="then_subgraph_index")
    else_graph: Graph = graph_attribute(field="else_subgraph_index")

    def infer(self) -> tuple[TensorType, ...]:
        if self.condition.dtype is not boolean:
            raise ShapeError(f"condition: expected bool, got {self.condition.dtype.short}")
        for branch in (self.then_graph, self.else_graph):
            _require_same_types("operands and inputs of a branch", self.input, branch.inputs)
        then, other = self.then_graph.outputs, self.else_graph.outputs
        _require_same_types("outputs of both branches", then, other)
        pairs = zip(then, other, strict=True)
        return tuple(TensorType(a.dtype, _common_shape(a.shape, b.shape), a.quantization) for a, b in pairs)

    def call(self, run: Run, *args: Array) -> Sequence[Array]:
        return run(self.then_graph if _is_true(args[0]) else self.else_graph, args[1:])


class CallOnce(Op, code="CALL_ONCE", results=(), pure=False):
    """Runs a graph that initializes resources, once until the state is reset."""

    init: Graph = graph_attribute(field="init_subgraph_index")

    def call(self, run: Run, *args: Array) -> Sequence[Array]:
        initialized = state_of(self, run).initialized
        if self.init not in initialized:
            initialized.add(self.init)
            run(self.init, ())
        return ()


class Callee(Op, variadic_results=True):
    """An operator whose results are the outputs of another graph for its operands."""

    input = variadic_operand(*ANY)

    def callee(self) -> Graph:
        """Return the graph to run."""
        raise UnsupportedError(f"{self.code} calls no graph")

    def infer(self) -> tuple[TensorType, ...]:
        _require_same_types(f"operands and inputs of {self.callee().name}", self.input, self.callee().inputs)
        return tuple(v.type for v in self.callee().outputs)

    def call(self, run: Run, *args: Array) -> Sequence[Array]:
        return run(self.callee(), args)


class Call(Callee, code="CALL", pure=False):
    """The outputs of ``subgraph``.  LiteRT has no kernel for it."""

    subgraph: Graph = graph_attribute(field="subgraph")

    def callee(self) -> Graph:
        return self.subgraph


class StablehloComposite(Callee, code="STABLEHLO_COMPOSITE", options="StableHLOCompositeOptions", pure=False):
    """A named operation, computed by the graph ``decomposition``."""

    name: str | None = attribute(None)
    decomposition: Graph = graph_attribute(field="decomposition_subgraph_index")
    composite_attributes: tuple[int, ...] | None = attribute(None)
    composite_attributes_format: CustomOptionsFormat = attribute(CustomOptionsFormat.FLEXBUFFERS)
    composite_version: int = attribute(0, field="version")

    def callee(self) -> Graph:
        return self.decomposition
