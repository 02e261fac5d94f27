# SPDX-License-Identifier: Apache-2.0
"""Numbers inside recurrent operators, whose ranges calibration needs; what their integer kernels lack."""

from __future__ import annotations

import numpy as np
import pytest

from circlekit.ir.dtypes import f32, i8, i16
from circlekit.ir.enums import Activation
from circlekit.ir.op import REGISTRY, Op
from circlekit.ir.value import Array, Value
from circlekit.ops.recurrent.lstm import GATE_SCALE, Lstm, UnidirectionalSequenceLstm
from circlekit.ops.recurrent.lstm_float import GATES, HIDDEN, gate_sums
from circlekit.ops.recurrent.svdf import Svdf
from tests.ops.litert import const, var
from tests.ops.recurrent.test_lstm import FORMS, Maker, operands
from tests.ops.stateful import state

INPUTS, CELLS, BATCH, TIMES = 5, 6, 3, 4


def lstm(form: frozenset[str], x: Value | None = None, **attributes: object) -> UnidirectionalSequenceLstm:
    """Return an LSTM with the parts ``form``, time-major, on random weights."""
    x = x or Value("x", f32, (TIMES, BATCH, INPUTS))
    rest = operands(Maker(7), form, INPUTS, CELLS, BATCH)
    return UnidirectionalSequenceLstm(
        x,
        *rest,
        **{"act": Activation.TANH, "time_major": True, **attributes},  # type: ignore[arg-type]
    )


def arrays_of(op: Op, x: Array, rng: np.random.Generator) -> list[Array | None]:
    """Return an array for each operand: ``x``, the constants, and random states."""
    states = [
        rng.normal(0, 0.5, v.static_shape).astype(np.float32) if v is not None and v.is_variable else None
        for v in op.inputs
    ]
    found = [x if i == 0 else s if v is None or s is not None else v.array() for i, (v, s) in
             enumerate(zip(op.inputs, states, strict=True))]  # fmt: skip
    return found + [None] * (len(op.operands) - len(found))


def sigmoid(x: Array) -> Array:
    return np.asarray(1 / (1 + np.exp(-x)))


@pytest.mark.parametrize("form", FORMS, ids=lambda f: "+".join(sorted(f)) or "plain")
def test_an_lstm_shows_its_cell_states_sums_and_hidden_outputs(form: frozenset[str]) -> None:
    """The expected numbers follow the definition of an LSTM, step by step in float64."""
    rng, op = np.random.default_rng(8), lstm(form)
    x = rng.normal(0, 1, (TIMES, BATCH, INPUTS)).astype(np.float32)
    given = arrays_of(op, x, rng)
    names = [spec.name for spec in op.operands]
    w = {n: a.astype(np.float64) for n, a in zip(names, given, strict=True) if a is not None}
    hidden, cell = w["output_state"], w["cell_state"]
    wanted: dict[str, list[Array]] = {"cell_state": [cell]}
    for row in w["input"]:
        gate: dict[str, Array] = {}
        for name in GATES:
            if f"input_to_{name}_weights" not in w:
                continue
            total = row @ w[f"input_to_{name}_weights"].T + hidden @ w[f"recurrent_to_{name}_weights"].T
            peephole = w.get(f"cell_to_{name}_weights")
            if peephole is not None:
                total += peephole * (new_cell(gate, cell) if name == "output" else cell)
            if "norm" in form:
                wanted.setdefault(gate_sums(name), []).append(total)
                centered = total - total.mean(axis=1, keepdims=True)
                total = centered / np.sqrt((centered**2).mean(axis=1, keepdims=True) + 1e-8)
                total *= w[f"{name}_layer_norm_coefficients"]
            gate[name] = total + w[f"{name}_gate_bias"]
        cell = new_cell(gate, cell)
        wanted["cell_state"].append(cell)
        hidden = sigmoid(gate["output"]) * np.tanh(cell)
        if "projection" in form:
            wanted.setdefault(HIDDEN, []).append(hidden)
            hidden = hidden @ w["projection_weights"].T + w["projection_bias"]
    seen = op.inner_values(*given)
    assert set(seen) == set(wanted)
    for key, arrays in wanted.items():
        np.testing.assert_allclose(seen[key], np.stack(arrays), rtol=1e-4, atol=1e-4, err_msg=key)


def new_cell(gate: dict[str, Array], cell: Array) -> Array:
    forget = sigmoid(gate["forget"])
    update = sigmoid(gate["input"]) if "input" in gate else 1 - forget
    return np.asarray(forget * cell + update * np.tanh(gate["cell"]))


@pytest.mark.parametrize("form", FORMS, ids=lambda f: "+".join(sorted(f)) or "plain")
def test_inner_tensors_of_an_lstm(form: frozenset[str]) -> None:
    """The tensors with a range are those in ``inner_values``, which also has the cell state."""
    rng, op = np.random.default_rng(8), lstm(form)
    x = rng.normal(0, 1, (TIMES, BATCH, INPUTS)).astype(np.float32)
    inner = op.inner_tensors()
    assert [tensor.name for tensor in inner] == [*map(gate_sums, GATES), HIDDEN]
    with_range = {tensor.name for tensor in inner if tensor.has_range}
    assert with_range == set(op.inner_values(*arrays_of(op, x, rng))) - {"cell_state"}
    *sums, hidden = inner
    assert {tensor.fixed_scale for tensor in sums} <= {None, GATE_SCALE}
    assert not any(tensor.follows_result or tensor.negates_zero_point for tensor in sums)
    assert hidden.negates_zero_point
    assert hidden.follows_result == ("projection" not in form)
    assert hidden.fixed_scale is None


def test_an_lstm_of_one_step_shows_what_a_sequence_of_one_step_shows() -> None:
    rng, form = np.random.default_rng(8), frozenset(("projection", "norm"))
    sequence = lstm(form, Value("x", f32, (1, BATCH, INPUTS)))
    x = rng.normal(0, 1, (1, BATCH, INPUTS)).astype(np.float32)
    given = arrays_of(sequence, x, rng)
    step = Lstm(Value("x", f32, (BATCH, INPUTS)), *sequence.inputs[1:], act=Activation.TANH)
    wanted, seen = sequence.inner_values(*given), step.inner_values(x[0], *given[1:])
    assert set(seen) == set(wanted)
    for key, array in wanted.items():
        np.testing.assert_array_equal(seen[key], array, err_msg=key)


@pytest.mark.parametrize("kind", [i8, i16])
def test_integer_operators_show_no_inner_values(kind: object) -> None:
    """Their inner tensors have scales already."""
    op = lstm(frozenset(), Value("x", kind, (TIMES, BATCH, INPUTS)))  # type: ignore[arg-type]
    assert op.inner_values() == {}
    memory = Svdf(
        Value("x", kind, (2, 3)),  # type: ignore[arg-type]
        Value("w", i8, (4, 3)), Value("t", i16, (4, 5)), None, state(i16, (2, 20)), rank=2,
    )  # fmt: skip
    assert memory.inner_values() == {}


def test_the_memory_of_an_svdf_moves_by_one_step() -> None:
    rng = np.random.default_rng(3)
    x, feature, time = (rng.normal(0, 1, shape).astype(np.float32) for shape in ((2, 3), (4, 3), (4, 5)))
    before = rng.normal(0, 1, (2, 20)).astype(np.float32)
    op = Svdf(var(x), const(feature), const(time), None, state(f32, (2, 20)), rank=2)
    seen = op.inner_values(x, feature, time, None, before)
    moved = np.concatenate([before.reshape(2, 4, 5)[..., 1:], (x @ feature.T)[..., None]], axis=2)
    assert list(seen) == ["state"]
    np.testing.assert_allclose(seen["state"], [before, moved.reshape(2, 20)], rtol=1e-5, atol=1e-6)


# -- integers ----------------------------------------------------------------------------------


@pytest.mark.parametrize("act", list(Activation))
def test_activations_that_integer_kernels_lack_are_faults(act: Activation) -> None:
    """The integer kernel of SVDF accepts RELU only, in LiteRT; LSTM always applies TANH."""
    svdf = Svdf(
        Value("x", f32, (2, 3)), Value("w", f32, (4, 3)), Value("t", f32, (4, 5)), None, state(f32, (2, 20)),
        rank=2, act=act,
    )  # fmt: skip
    fault = svdf.integer_fault() or ""
    assert ("needs the activation RELU" in fault) == (act is not Activation.RELU)
    fault = lstm(frozenset(), act=act).integer_fault() or ""
    assert ("always has the activation TANH" in fault) == (act is not Activation.TANH)


@pytest.mark.parametrize("form", FORMS, ids=lambda f: "+".join(sorted(f)) or "plain")
def test_peephole_weights_need_outputs_as_wide_as_the_cells(form: frozenset[str]) -> None:
    fault = lstm(form).integer_fault()
    if {"peephole", "projection"} <= form:
        assert fault is not None
        assert "needs as many outputs as cells for peephole weights, got" in fault
    else:
        assert fault is None


def test_a_projection_of_the_same_width_allows_peephole_weights() -> None:
    make = Maker(7)
    rest = operands(make, frozenset(("peephole",)), INPUTS, CELLS, BATCH)
    rest[15] = make.matrix(CELLS, CELLS)
    x = Value("x", f32, (TIMES, BATCH, INPUTS))
    op = UnidirectionalSequenceLstm(x, *rest, act=Activation.TANH, time_major=True)
    assert op.projection_weights is rest[15]
    assert op.integer_fault() is None


@pytest.mark.parametrize(
    "name", ["input_to_input_weights", "recurrent_to_output_weights", "projection_weights"]
)
def test_integer_kernels_need_constant_weights(name: str) -> None:
    op = lstm(frozenset(("projection",)))
    setattr(op, name, Value("w", f32, getattr(op, name).shape))
    assert op.integer_fault() == (
        "UNIDIRECTIONAL_SEQUENCE_LSTM on integers needs constant weights: "
        "its kernel adds them up before a run"
    )


def test_every_operator_with_inner_values_is_tried() -> None:
    kinds = {kind for kind in REGISTRY.values() if kind.inner_values is not Op.inner_values}
    assert kinds == {UnidirectionalSequenceLstm, Lstm, Svdf}
