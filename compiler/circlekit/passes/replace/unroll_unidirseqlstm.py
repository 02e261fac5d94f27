# SPDX-License-Identifier: Apache-2.0
"""An LSTM over a sequence of known length, written out step by step.

Over 120 lines because a step has gates, states and clipping, and what cannot be unrolled is said.
"""

from __future__ import annotations

import numpy as np

from circlekit.ir.dtypes import f32
from circlekit.ir.enums import Activation
from circlekit.ir.graph import Graph
from circlekit.ir.op import Op
from circlekit.ir.value import Array, Value
from circlekit.ops.activation import Logistic, Relu, Relu6, ReluN1To1, Tanh
from circlekit.ops.dense import FullyConnected
from circlekit.ops.elementwise import Add, Maximum, Minimum, Mul, Sub
from circlekit.ops.join import Pack, Split, Unpack
from circlekit.ops.lstm import UnidirectionalSequenceLstm as Lstm
from circlekit.rewrite.base import Context, GraphPass

ACTIVATIONS: dict[Activation, type[Op] | None] = {
    Activation.NONE: None,
    Activation.RELU: Relu,
    Activation.RELU6: Relu6,
    Activation.RELU_N1_TO_1: ReluN1To1,
    Activation.TANH: Tanh,
}
GATES = ("input", "forget", "output", "cell")
LACKING = (
    "cell_to_input_weights",
    "cell_to_forget_weights",
    "cell_to_output_weights",
    "projection_weights",
    "projection_bias",
    "input_layer_norm_coefficients",
    "forget_layer_norm_coefficients",
    "cell_layer_norm_coefficients",
    "output_layer_norm_coefficients",
)


class UnrollUnidirSeqLstm(GraphPass):
    """UNIDIRECTIONAL_SEQUENCE_LSTM of a known length, step by step; the state is zero before each run.

    (The operator itself keeps its state from one run to the next, where nobody resets it.)
    """

    name = "unroll_unidirseqlstm"

    def run_graph(self, graph: Graph, context: Context) -> int:
        count = 0
        for op in graph.ops:
            if not isinstance(op, Lstm):
                continue
            why = _obstacle(op)
            if why is not None:
                context.refuse(self.name, op, f"%{op.output.name}: {why}", 3)
            elif context.may_rewrite:
                context.rewrites(op)
                _Unroller(graph, op).unroll()
                count += 1
        return count


def _obstacle(op: Lstm) -> str | None:
    """Why ``op`` stays; None where it can be unrolled."""
    shape = op.input.shape
    if op.input.dtype is not f32 or shape is None or len(shape) != 3:
        return f"the input is {op.input.type}, f32 of rank 3 is wanted"
    if None in shape:
        return "its length, or another dimension, is not known before the run"
    for name, value in op.operand_items():
        if name in LACKING:
            return f"has {name}, which is not unrolled"
        constant = value.data is not None and value.dtype is f32
        if name.endswith(("weights", "bias")) and not constant:
            return f"{name} is no constant of f32"
        if name.endswith("state") and not (value.is_variable or _is_zero(value)):
            return f"{name} does not start at zero"
        if name.startswith("recurrent") and value.rank != 2:
            return f"{name} is a diagonal, a matrix is wanted"
    return None if op.act in ACTIVATIONS else f"act is {op.act.name}"


def _is_zero(value: Value) -> bool:
    return value.data is not None and not value.data.any()


class _Unroller:
    """Puts the steps of one LSTM before it, and then itself out.  All steps share their constants."""

    def __init__(self, graph: Graph, op: Lstm) -> None:
        self.graph = graph
        self.op = op
        self.constants: dict[str, Value] = {}
        self.gates = [g for g in GATES if g != "input" or op.input_to_input_weights is not None]
        self.recurrent = self.constant("recurrent", self.stacked("recurrent_to_{}_weights"))

    def unroll(self) -> None:
        op, axis = self.op, 0 if self.op.time_major else 1
        weights = self.constant("weights", self.stacked("input_to_{}_weights"))
        bias = self.constant("bias", self.biases())
        driven = self.put(FullyConnected(op.input, weights, bias, keep_num_dims=True))
        times = op.input.static_shape[axis]
        steps = Unpack(driven, num=times, axis=axis)
        self.graph.insert_before(op, steps)
        hidden: Value | None = None
        cell: Value | None = None
        outputs = []
        for value in tuple(steps.results):
            hidden, cell = self.step(value, hidden, cell)
            outputs.append(hidden)
        pack = Pack(*outputs, values_count=times, axis=axis)
        pack.take_result(0, op.output)
        self.graph.insert_before(op, pack)
        self.graph.remove(op)

    def step(self, driven: Value, hidden: Value | None, cell: Value | None) -> tuple[Value, Value]:
        """The states after one step; before the first there are none, which stands for zeros."""
        if hidden is not None:
            driven = self.put(Add(driven, self.put(FullyConnected(hidden, self.recurrent, None))))
        split = Split(self.constant("axis", np.array(1, np.int32)), driven, num_splits=len(self.gates))
        self.graph.insert_before(self.op, split)
        sums = dict(zip(self.gates, split.results, strict=True))
        candidate = self.activated(sums["cell"])
        forget = None if cell is None and "input" in sums else self.put(Logistic(sums["forget"]))
        if "input" in sums:
            entering = self.put(Logistic(sums["input"]))
        else:
            assert forget is not None
            entering = self.put(Sub(self.constant("one", np.array(1, np.float32)), forget))
        new = self.put(Mul(entering, candidate))
        if cell is not None and forget is not None:
            new = self.put(Add(self.put(Mul(forget, cell)), new))
        new = self.clipped(new)
        return self.put(Mul(self.put(Logistic(sums["output"])), self.activated(new))), new

    def activated(self, value: Value) -> Value:
        kind = ACTIVATIONS[self.op.act]
        return value if kind is None else self.put(kind(value))

    def clipped(self, value: Value) -> Value:
        limit = self.op.cell_clip
        if limit <= 0:
            return value
        low = self.constant("low", np.array(-limit, np.float32))
        high = self.constant("high", np.array(limit, np.float32))
        return self.put(Minimum(self.put(Maximum(value, low)), high))

    # -- constants -----------------------------------------------------------------------------

    def stacked(self, form: str) -> Array:
        return np.concatenate([getattr(self.op, form.format(gate)).array() for gate in self.gates])

    def biases(self) -> Array:
        cells = len(self.op.input_to_cell_weights.array()) if self.op.input_to_cell_weights else 0
        found = [getattr(self.op, f"{gate}_gate_bias") for gate in self.gates]
        return np.concatenate([np.zeros(cells, np.float32) if b is None else b.array() for b in found])

    def constant(self, name: str, array: Array) -> Value:
        """One constant for each ``name``."""
        if name not in self.constants:
            unique = self.graph.unique_name(f"{self.op.output.name}/{name}")
            self.constants[name] = Value.constant(unique, array)
        return self.constants[name]

    def put(self, op: Op) -> Value:
        """Insert ``op`` before the LSTM; its result."""
        op.output.name = self.graph.unique_name(f"{self.op.output.name}/{type(op).__name__}")
        return self.graph.insert_before(self.op, op).output
