# SPDX-License-Identifier: Apache-2.0
"""Move fused activations, if the runtimes of a format ignore or reject them, to operators of their own.

Integers for which there is no activation operator (RELU_N1_TO_1 of int16, any of int32) are limited by
MAXIMUM and MINIMUM.  TANH does not limit integers, as in TFLite's kernels.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from circlekit.ir.enums import Activation
from circlekit.ir.graph import Graph
from circlekit.ir.op import Op
from circlekit.ir.value import Quantization, Value
from circlekit.ops.arithmetic.activation import Clamped, Relu, Relu6, ReluN1To1, Tanh
from circlekit.ops.arithmetic.binary import Maximum, Minimum
from circlekit.ops.convolution.conv import TransposeConv
from circlekit.ops.movement.join import Concatenation
from circlekit.ops.numerics.fixed_point import quantized_activation_range
from circlekit.ops.quantization import dtype_limits
from circlekit.passes.engine.legalize import Legalization
from circlekit.rewrite.base import Context

OPERATORS: dict[Activation, type[Op]] = {
    Activation.RELU: Relu,
    Activation.RELU6: Relu6,
    Activation.RELU_N1_TO_1: ReluN1To1,
    Activation.TANH: Tanh,
}


class SplitActivation(Legalization):
    """op(x) with RELU fused  ==  relu(op(x)); all values have the quantization of the result."""

    kind: ClassVar[type[Op]]

    def run_graph(self, graph: Graph, context: Context) -> int:
        ops = [op for op in graph.ops if isinstance(op, self.kind) and _activation(op) in OPERATORS]
        for op in ops:
            _split(graph, op)
        return len(ops)


class SplitTransposeConvActivation(SplitActivation):
    """For TRANSPOSE_CONV, whose activation ONE's runtime ignores."""

    targets = frozenset({"circle"})
    lowers = "fused_activations"
    kind = TransposeConv


class SplitConcatenationActivation(SplitActivation):
    """For CONCATENATION, whose activation LiteRT and ONE's interpreter reject."""

    targets = frozenset({"circle", "tflite"})
    kind = Concatenation


def _activation(op: Op) -> Activation:
    act: Activation = op.attribute_items()["act"]
    return act


def _split(graph: Graph, op: Op) -> None:
    result, act = op.output, _activation(op)
    op.act = Activation.NONE  # type: ignore[attr-defined]  # the kinds above have it
    kinds: list[tuple[type[Op], list[Value]]]
    single = OPERATORS[act]
    has_kernel = issubclass(single, Clamped) and result.dtype in single.quantized_dtypes
    if result.dtype.is_float or (result.quantization is not None and has_kernel):
        kinds = [(single, [])]
    else:
        kinds = [(kind, [_number(graph, result, n)]) for kind, n in _limits(act, result)]
    for kind, others in kinds:
        name = graph.unique_name(f"{result.name}/{type(op).__name__}")
        value = Value(name, result.dtype, result.shape, None, result.quantization)
        op.take_result(0, value)
        activation = kind(value, *others, results=[result])
        graph.insert_after(op, activation)
        op = activation


def _limits(act: Activation, value: Value) -> list[tuple[type[Op], int]]:
    """Return the operators, each with its constant, that limit integers to the range of ``act``."""
    if value.dtype.numpy is None or value.dtype.numpy.kind not in "iu":
        return []
    grid = value
    if value.quantization is None or not value.quantization.scale.size:
        grid = Value("", value.dtype, (), None, Quantization(np.ones(1, np.float32), np.zeros(1, np.int64)))
    low, high = quantized_activation_range(act, grid)
    lowest, highest = dtype_limits(value.dtype)
    return [*([(Maximum, low)] if low > lowest else []), *([(Minimum, high)] if high < highest else [])]


def _number(graph: Graph, value: Value, number: int) -> Value:
    """Return a new constant of one element, with the type of ``value``."""
    name = graph.unique_name(f"{value.name}/limit")
    return Value.constant(name, np.array(number, value.dtype.numpy), value.quantization)
