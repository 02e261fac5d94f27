# SPDX-License-Identifier: Apache-2.0
"""Operators that run other graphs.  Source: TFLite while, if, call_once, stablehlo_composite.

They define ``call`` in place of a kernel.  Its parameter ``run`` is a function that runs a graph: it takes
the graph and its inputs, and returns the outputs.
"""

from __future__ import annotations

from collections.abc import Sequence

from circlekit.errors import ModelError, ShapeError
from circlekit.ir.dtypes import boolean
from circlekit.ir.enums import CustomOptionsFormat
from circlekit.ir.graph import Graph
from circlekit.ir.op import Op, Run, attribute, graph_attribute, operand, variadic_operand
from circlekit.ir.value import Array, TensorType, Value
from circlekit.ops.operand_dtypes import ANY
from circlekit.ops.program.state import state_of


def _common_types(names: str, left: Sequence[Value], right: Sequence[Value]) -> tuple[TensorType, ...]:
    """Return the types of ``left``, with an unknown dimension wherever ``right`` has another dimension.

    If the ranks of two values differ or are unknown, the shape is unknown.  Raise ShapeError if ``right`` has
    another number of values or other dtypes.  ``names``: what the two lists are, for the message.
    """
    if len(left) != len(right):
        raise ShapeError(f"{names}: expected equal numbers of values, got {len(left)} and {len(right)}")
    types = []
    for a, b in zip(left, right, strict=True):
        if a.dtype is not b.dtype:
            pair = f"%{a.name}: {a.dtype.short} and %{b.name}: {b.dtype.short}"
            raise ShapeError(f"{names}: expected equal dtypes, got {pair}")
        shape = None
        if a.shape is not None and b.shape is not None and len(a.shape) == len(b.shape):
            shape = tuple(d if d == e else None for d, e in zip(a.shape, b.shape, strict=True))
        types.append(TensorType(a.dtype, shape, a.quantization))
    return tuple(types)


def _is_true(array: Array) -> bool:
    if array.size != 1:
        raise ModelError(f"condition: expected one element, got {array.size}")
    return bool(array.reshape(-1)[0])


class While(Op, code="WHILE", variadic_results=True):
    """A loop: as long as ``cond`` is true for the operands, the outputs of ``body`` replace the operands.

    The results are the last operands.
    """

    input = variadic_operand(*ANY)

    cond: Graph = graph_attribute(field="cond_subgraph_index")
    body: Graph = graph_attribute(field="body_subgraph_index")

    def infer(self) -> tuple[TensorType, ...]:
        _common_types("operands and inputs of the condition", self.input, self.cond.inputs)  # only the check
        if [v.dtype for v in self.cond.outputs] != [boolean]:
            found = ", ".join(v.dtype.short for v in self.cond.outputs) or "none"
            raise ShapeError(f"outputs of the condition: expected one bool, got {found}")
        _common_types("operands and inputs of the body", self.input, self.body.inputs)  # only the check
        return _common_types("operands and outputs of the body", self.input, self.body.outputs)

    def call(self, run: Run, *args: Array) -> Sequence[Array]:
        state: Sequence[Array] = args
        while _is_true(run(self.cond, state)[0]):
            state = run(self.body, state)
        return state


class If(Op, code="IF", variadic_results=True):
    """The outputs of ``then_graph`` if the condition is true, else those of ``else_graph``."""

    condition = operand(boolean)
    input = variadic_operand(*ANY)

    then_graph: Graph = graph_attribute(field="then_subgraph_index")
    else_graph: Graph = graph_attribute(field="else_subgraph_index")

    def infer(self) -> tuple[TensorType, ...]:
        if self.condition.dtype is not boolean:
            raise ShapeError(f"condition: expected bool, got {self.condition.dtype.short}")
        for branch in (self.then_graph, self.else_graph):
            _common_types("operands and inputs of a branch", self.input, branch.inputs)  # only the check
        return _common_types("outputs of both branches", self.then_graph.outputs, self.else_graph.outputs)

    def call(self, run: Run, *args: Array) -> Sequence[Array]:
        return run(self.then_graph if _is_true(args[0]) else self.else_graph, args[1:])


class CallOnce(Op, code="CALL_ONCE", results=()):
    """Runs the graph ``init``, which initializes variables and tables, once after each reset.

    A reset gives the interpreter a new state.  ``initialized`` in the state holds the graphs that CALL_ONCE
    has run since then.
    """

    init: Graph = graph_attribute(field="init_subgraph_index")

    def call(self, run: Run, *args: Array) -> Sequence[Array]:
        initialized = state_of(self, run).initialized
        if self.init not in initialized:
            initialized.add(self.init)
            run(self.init, ())
        return ()


class GraphCall(Op, variadic_results=True):
    """Base class of operators that call one graph, their only graph attribute, with their operands."""

    input = variadic_operand(*ANY)

    def infer(self) -> tuple[TensorType, ...]:
        (graph,) = self.called_graphs()
        _common_types(f"operands and inputs of {graph.name}", self.input, graph.inputs)
        return tuple(v.type for v in graph.outputs)

    def call(self, run: Run, *args: Array) -> Sequence[Array]:
        return run(self.called_graphs()[0], args)


class Call(GraphCall, code="CALL"):
    """The outputs of ``subgraph`` for the operands.  LiteRT has no kernel for it."""

    subgraph: Graph = graph_attribute(field="subgraph")


class StablehloComposite(GraphCall, code="STABLEHLO_COMPOSITE", options="StableHLOCompositeOptions"):
    """The outputs of the graph ``decomposition``, which defines the composite operator ``name``.

    ``composite_attributes``: the attributes of the composite operator, as the bytes of a flexbuffer.
    """

    name: str | None = attribute(None)
    decomposition: Graph = graph_attribute(field="decomposition_subgraph_index")
    composite_attributes: tuple[int, ...] | None = attribute(None)
    composite_attributes_format: CustomOptionsFormat = attribute(CustomOptionsFormat.FLEXBUFFERS)
    composite_version: int = attribute(0, field="version")
