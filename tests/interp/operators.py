# SPDX-License-Identifier: Apache-2.0
"""Operators and graphs for tests of the interpreter."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import Any

import numpy as np

from circlekit.ir.dtypes import f32
from circlekit.ir.graph import Graph, Model
from circlekit.ir.op import Op, OpaqueOp, Run, graph_attribute, operand, variadic_operand
from circlekit.ir.value import Array, TensorType, Value

X = np.array([1.0, 2.0, 3.0], np.float32)


class Twice(Op):
    """2 * x; keeps weak references to its results."""

    code = "TEST_TWICE"
    input = operand(f32)
    made: list[weakref.ref[Array]] = []

    def infer(self) -> TensorType:
        return TensorType(self.input.dtype, self.input.shape)

    def kernel(self, input: Array) -> Array:
        out: Array = input * 2
        Twice.made.append(weakref.ref(out))
        return out


class Total(Op):
    """The sum of all operands."""

    code = "TEST_TOTAL"
    inputs_ = variadic_operand(f32)

    def infer(self) -> TensorType:
        return TensorType(self.inputs_[0].dtype, self.inputs_[0].shape)

    def kernel(self, *inputs: Array) -> Array:
        return np.asarray(sum(inputs))


class Alias(Twice):
    """Returns its operand as a view."""

    code = "TEST_ALIAS"

    def kernel(self, input: Array) -> Array:
        return input.reshape(input.shape)


class Apply(Op):
    """The output of the graph ``body`` for the operand."""

    code = "TEST_APPLY"
    input = operand(f32)
    body = graph_attribute("body")

    def infer(self) -> TensorType:
        return TensorType(self.input.dtype, self.input.shape)

    def call(self, run: Run, *args: Any) -> Sequence[Array]:
        return run(self.body, args)


class Adding(Op):
    """The sum of the operands of all runs so far."""

    code = "TEST_ADDING"
    input = operand(f32)

    def infer(self) -> TensorType:
        return self.input.type

    def call(self, run: Any, *args: Array) -> list[Array]:
        total = run.state.streams.get(self, 0) + args[0]
        run.state.streams[self] = total
        return [total]


def chain(*kinds: type[Op], shape: tuple[int | None, ...] = (3,)) -> Graph:
    """Unary operators one after the other, from input %x."""
    value = Value("x", f32, shape)
    graph = Graph("main", [value])
    for kind in kinds:
        value = graph.append(kind(value)).output
    graph.outputs = [value]
    return graph


def model(*graphs: Graph, source: str | None = None) -> Model:
    return Model(list(graphs), source=source)


def opaque(code: str, custom_code: str | None = None) -> Model:
    """One operator without a declaration, on input %x: f32[3]."""
    x = Value("x", f32, (3,))
    graph = Graph("main", [x])
    graph.append(OpaqueOp(x, code=code, custom_code=custom_code, results=[Value("y", f32, (3,))]))
    graph.outputs = [graph.ops[0].output]
    return model(graph)
