# SPDX-License-Identifier: Apache-2.0
"""Unroll an LSTM over a sequence of known length."""

from __future__ import annotations

from circlekit.ir.dtypes import f32
from circlekit.ir.graph import Graph
from circlekit.ir.value import Value, format_shape
from circlekit.ops.matmul.dense import FullyConnected
from circlekit.ops.movement.join import Pack, Unpack
from circlekit.ops.recurrent.lstm import UnidirectionalSequenceLstm as Lstm
from circlekit.passes.support.lstm_step import ACTIVATIONS, Step
from circlekit.rewrite.base import Context, GraphPass


class UnrollUnidirSeqLstm(GraphPass):
    """Unroll UNIDIRECTIONAL_SEQUENCE_LSTM of a known length; the state is zero before each run.

    The operator itself keeps its state from one run to the next unless it is reset.  Peepholes, projection,
    layer normalization, clipping and diagonal weights are supported.
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
                _unroll(graph, op)
                count += 1
        return count


def _unroll(graph: Graph, op: Lstm) -> None:
    """Insert the steps of ``op`` before it, and remove it."""
    step, axis = Step(graph, op), 0 if op.time_major else 1
    weights = step.constant("weights", step.stacked("input_to_{}_weights"))
    bias = None if step.is_normalized else step.constant("bias", step.stacked("{}_gate_bias"))
    driven = step.put(FullyConnected(op.input, weights, bias, keep_num_dims=True))
    times = op.input.static_shape[axis]
    steps = Unpack(driven, num=times, axis=axis)
    graph.insert_before(op, steps)
    hidden: Value | None = None
    cell: Value | None = None
    outputs = []
    for value in tuple(steps.results):
        hidden, cell = step.step(value, hidden, cell)
        outputs.append(hidden)
    pack = Pack(*outputs, values_count=times, axis=axis)
    pack.take_result(0, op.output)
    graph.insert_before(op, pack)
    graph.remove(op)


MAX_STEPS = 1 << 12
"""Longest sequence that is unrolled; each step is about a dozen operators."""


def _obstacle(op: Lstm) -> str | None:
    """Why ``op`` cannot be unrolled, or None."""
    shape = op.input.shape
    if op.input.dtype is not f32 or shape is None or len(shape) != 3:
        return f"expected an input of f32 and rank 3, got {op.input.type}"
    if None in shape or 0 in shape:
        return "expected an input without unknown dimensions or 0"
    if shape[0 if op.time_major else 1] > MAX_STEPS:  # type: ignore[operator]  # no dimension is None
        return f"expected at most {MAX_STEPS} steps, got {shape[0 if op.time_major else 1]}"
    for name, value in op.operand_items():
        if name.endswith(("weights", "bias", "coefficients")) and not (value.is_plain and value.dtype is f32):
            return f"{name} %{value.name} is not a constant of f32"
        if name.endswith("state") and not (value.is_variable or _is_zero(value)):
            return f"{name} %{value.name} does not start at zero"
    return _misfit(op) or (None if op.act in ACTIVATIONS else f"act is {op.act.name}")


def _is_zero(value: Value) -> bool:
    return value.data is not None and not value.data.any()


def _misfit(op: Lstm) -> str | None:
    """A sentence about the first weight or bias that is missing or has another shape than it should."""
    assert op.input_to_cell_weights is not None  # its declaration says so
    gates = [g for g in ("input", "forget", "cell", "output") if g != "input" or op.input_to_input_weights]
    cells = op.input_to_cell_weights.static_shape[0]
    inputs = op.input.static_shape[-1]
    outputs = cells if op.projection_weights is None else op.projection_weights.static_shape[0]
    recurrent = op.recurrent_to_output_weights
    square = (cells,) if recurrent is not None and recurrent.rank == 1 else (cells, outputs)
    required: dict[str, tuple[int, ...]] = {}
    for gate in gates:
        required[f"input_to_{gate}_weights"] = (cells, inputs)
        required[f"recurrent_to_{gate}_weights"] = square
        required[f"{gate}_gate_bias"] = (cells,)
        if op.cell_layer_norm_coefficients is not None:
            required[f"{gate}_layer_norm_coefficients"] = (cells,)
    optional: dict[str, tuple[int, ...]] = {f"cell_to_{gate}_weights": (cells,) for gate in gates}
    optional |= {"projection_weights": (outputs, cells), "projection_bias": (outputs,)}
    for name, expected in {**required, **optional}.items():
        value = getattr(op, name, None)
        if value is None and name in required:
            return f"has no {name}"
        if value is not None and value.shape != expected:
            return f"{name} expected shape {format_shape(expected)}, got {format_shape(value.shape)}"
    return None
