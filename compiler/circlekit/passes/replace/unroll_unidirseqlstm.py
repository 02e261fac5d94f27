# SPDX-License-Identifier: Apache-2.0
"""Unroll an LSTM over a sequence of known length into elementary operators.

Each step computes what ``FloatLstm.step`` in ``ops/recurrent/lstm_float.py`` computes.  In this file,
``cells`` is the size of the cell state, and the hidden state is the output of the previous step.
"""

from __future__ import annotations

import numpy as np

from circlekit.ir.dtypes import f32
from circlekit.ir.enums import Activation
from circlekit.ir.graph import Graph
from circlekit.ir.shape_inference import misfit
from circlekit.ir.value import Array, Value
from circlekit.ops.arithmetic.activation import Logistic
from circlekit.ops.arithmetic.binary import Add, Maximum, Minimum, Mul, Sub
from circlekit.ops.arithmetic.unary import Rsqrt, Square
from circlekit.ops.matmul.dense import FullyConnected
from circlekit.ops.movement.join import Pack, Split, Unpack
from circlekit.ops.recurrent.lstm import UnidirectionalSequenceLstm as Lstm
from circlekit.ops.reduction.reduce import Mean
from circlekit.passes.legal.split_activation import OPERATORS
from circlekit.passes.support.insertion import Inserter
from circlekit.rewrite.base import Context, GraphPass

GATES = ("input", "forget", "output", "cell")
"""The words for the gates in the names of operands.  ``cell`` is the candidate for the new cell state.

Weights of all gates are stacked in this order; any order would do.
"""


class _Unroller(Inserter):
    """Inserts the operators of all steps before ``op``.

    ``constants``: the constants that all steps share, by name.  ``gates``: those of GATES that have weights.
    ``is_normalized``: there is layer normalization of the gate sums.  ``is_diagonal``: the recurrent weights
    of each gate are a vector, the diagonal of a matrix.
    """

    def __init__(self, graph: Graph, op: Lstm) -> None:
        super().__init__(graph, op)
        self.lstm = op
        self.constants: dict[str, Value] = {}
        self.gates = [g for g in GATES if g != "input" or op.input_to_input_weights is not None]
        self.is_normalized = op.forget_layer_norm_coefficients is not None
        self.is_diagonal = self.operand("recurrent_to_output_weights").rank == 1

    def step(self, from_input: Value, hidden: Value | None, cell: Value | None) -> tuple[Value, Value]:
        """Insert one step and return its output and cell state; None stands for a state of zeros.

        ``from_input`` [batch, gates * cells]: input times weights, for all gates side by side.  The biases
        are included, except in a normalized LSTM, in which ``gate_sum`` adds them.
        ``hidden`` [batch, outputs], ``cell`` [batch, cells]: output and cell state of the previous step.
        """
        if hidden is not None and not self.is_diagonal:
            weights = self.constant("recurrent", self.stacked("recurrent_to_{}_weights"))
            from_input = self.make(Add(from_input, self.make(FullyConnected(hidden, weights, None))))
        split = Split(self.constant("axis", np.array(1, np.int32)), from_input, num_splits=len(self.gates))
        self.graph.insert_before(self.op, split)
        sums = dict(zip(self.gates, split.results, strict=True))
        if hidden is not None and self.is_diagonal:
            for gate in self.gates:
                weights = self.operand(f"recurrent_to_{gate}_weights")
                sums[gate] = self.make(Add(sums[gate], self.make(Mul(hidden, weights))))
        new_cell = self.cell(sums, cell)
        output = self.make(Mul(self.gate("output", sums, new_cell), self.activated(new_cell)))
        if self.lstm.projection_weights is not None:
            weights = self.lstm.projection_weights
            output = self.make(FullyConnected(output, weights, self.lstm.projection_bias))
            output = self.clipped(output, self.lstm.proj_clip, "projection")
        return output, new_cell

    def cell(self, sums: dict[str, Value], cell: Value | None) -> Value:
        """Return the new cell state: forget gate * old state + input gate * candidate.

        ``sums``: for each gate, the sum of its weighted inputs, its weighted hidden state and, unless
        ``is_normalized``, its bias.
        """
        candidate = self.activated(self.gate_sum("cell", sums["cell"], None))
        # with a state of zeros, the forget gate is needed only if the input gate is computed from it
        forget = None if cell is None and "input" in sums else self.gate("forget", sums, cell)
        if "input" in sums:
            input_gate = self.gate("input", sums, cell)
        else:  # without weights of its own, the input gate is coupled to the forget gate
            assert forget is not None
            input_gate = self.make(Sub(self.constant("one", np.array(1, np.float32)), forget))
        new = self.make(Mul(input_gate, candidate))
        if cell is not None and forget is not None:
            new = self.make(Add(self.make(Mul(forget, cell)), new))
        return self.clipped(new, self.lstm.cell_clip, "cell")

    def gate(self, name: str, sums: dict[str, Value], cell: Value | None) -> Value:
        """Return the gate ``name``: the logistic function of its sum, from 0 to 1."""
        return self.make(Logistic(self.gate_sum(name, sums[name], cell)))

    def gate_sum(self, name: str, total: Value, cell: Value | None) -> Value:
        """Return ``total`` plus ``cell`` times the peephole weights of the gate, if it has such weights.

        In a normalized LSTM, this sum is then normalized over its last axis and scaled, and the bias of the
        gate is added.
        """
        if cell is not None and getattr(self.lstm, f"cell_to_{name}_weights") is not None:
            total = self.make(Add(total, self.make(Mul(cell, self.operand(f"cell_to_{name}_weights")))))
        if not self.is_normalized:
            return total
        last = self.constant("last", np.array([-1], np.int32))
        centered = self.make(Sub(total, self.make(Mean(total, last, keep_dims=True))))
        variance = self.make(Mean(self.make(Square(centered)), last, keep_dims=True))
        epsilon = self.constant("epsilon", np.array(1e-8, np.float32))
        root = self.make(Rsqrt(self.make(Add(variance, epsilon))))
        normalized = self.make(Mul(centered, root))
        scaled = self.make(Mul(normalized, self.operand(f"{name}_layer_norm_coefficients")))
        return self.make(Add(scaled, self.operand(f"{name}_gate_bias")))

    def activated(self, value: Value) -> Value:
        """Return ``value`` after the activation of the LSTM."""
        act = self.lstm.act
        return value if act is Activation.NONE else self.make(OPERATORS[act](value))

    def clipped(self, value: Value, limit: float, name: str) -> Value:
        """Return ``value`` clipped to -limit to limit; a limit of 0 or less clips nothing."""
        if limit <= 0:
            return value
        low = self.constant(f"{name}_low", np.array(-limit, np.float32))
        high = self.constant(f"{name}_high", np.array(limit, np.float32))
        return self.make(Minimum(self.make(Maximum(value, low)), high))

    # -- constants -----------------------------------------------------------------------------

    def operand(self, name: str) -> Value:
        """Return the operand called ``name``, which must be present."""
        value: Value = getattr(self.lstm, name)
        return value

    def stacked(self, name_pattern: str) -> Array:
        """Return an operand of all gates, concatenated; ``name_pattern``: its name, with {} for the gate."""
        return np.concatenate([self.operand(name_pattern.format(gate)).array() for gate in self.gates])

    def constant(self, name: str, array: Array) -> Value:
        """Return the constant called ``name``; the first call makes it from ``array``."""
        if name not in self.constants:
            self.constants[name] = super().constant(name, array)
        return self.constants[name]


class UnrollUnidirSeqLstm(GraphPass):
    """Unroll UNIDIRECTIONAL_SEQUENCE_LSTM of a known length.

    The unrolled LSTM begins each run with a state of zeros.  The original operator keeps its state from one
    run to the next until a reset, so only the first run after a reset gives the same result.

    Peepholes, projection, layer normalization, clipping and diagonal weights are supported.  The input must
    be f32 of rank 3, the weights and biases f32 constants, and the length at most MAX_STEPS.  The states must
    be variables, or constants of zeros.
    """

    name = "unroll_unidirseqlstm"
    drops_state = True

    def run_graph(self, graph: Graph, context: Context) -> int:
        count = 0
        for op in graph.ops:
            if isinstance(op, Lstm):
                why = _obstacle(op)
                if context.accepts(self.name, op, why and f"%{op.output.name}: {why}"):
                    _unroll(graph, op)
                    count += 1
        return count


def _unroll(graph: Graph, op: Lstm) -> None:
    """Insert the steps of ``op`` before it, and remove it."""
    new, axis = _Unroller(graph, op), 0 if op.time_major else 1
    weights = new.constant("weights", new.stacked("input_to_{}_weights"))
    bias = None if new.is_normalized else new.constant("bias", new.stacked("{}_gate_bias"))
    from_input = new.make(FullyConnected(op.input, weights, bias, keep_num_dims=True))
    step_count = op.input.known_shape[axis]
    steps = Unpack(from_input, num=step_count, axis=axis)
    graph.insert_before(op, steps)
    hidden: Value | None = None
    cell: Value | None = None
    outputs = []
    for value in tuple(steps.results):
        hidden, cell = new.step(value, hidden, cell)
        outputs.append(hidden)
    new.replace(Pack(*outputs, values_count=step_count, axis=axis))


MAX_STEPS = 1 << 12
"""Length of the longest sequence that is unrolled; each step takes about a dozen operators."""


def _obstacle(op: Lstm) -> str | None:
    """Return why ``op`` cannot be unrolled; None if it can."""
    shape = op.input.shape
    if op.input.dtype is not f32 or shape is None or len(shape) != 3:
        return f"expected an input of f32 and rank 3, got {op.input.type}"
    steps = shape[0 if op.time_major else 1]
    if steps is None or 0 in shape:
        return f"expected a known length and no empty dimension, got {op.input.type}"
    if steps > MAX_STEPS:
        return f"expected at most {MAX_STEPS} steps, got {steps}"
    for name, value in op.operand_items():
        if name.endswith(("weights", "bias", "coefficients")) and not (value.is_plain and value.dtype is f32):
            return f"{name} %{value.name} is not a constant of f32"
        is_zero = value.data is not None and not value.data.any()
        if name.endswith("state") and not (value.is_variable or is_zero):
            return f"{name} %{value.name} does not start at zero"
    if op.act not in (Activation.NONE, *OPERATORS):
        return f"act is {op.act.name}, for which there is no operator"
    return _missing_weight(op) or misfit(op)


def _missing_weight(op: Lstm) -> str | None:
    """Return a sentence about the first missing weight or bias of a gate; None if all are present."""
    gates = [gate for gate in GATES if gate != "input" or op.input_to_input_weights is not None]
    kinds = ["input_to_{}_weights", "recurrent_to_{}_weights", "{}_gate_bias"]
    norm = "{}_layer_norm_coefficients"
    if any(getattr(op, norm.format(gate)) is not None for gate in gates):
        kinds.append(norm)
    names = (kind.format(gate) for gate in gates for kind in kinds)
    return next((f"has no {name}" for name in names if getattr(op, name) is None), None)
