# SPDX-License-Identifier: Apache-2.0
"""Recurrent operators on integers: LiteRT runs them as our interpreter does, near the float model."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import circlekit
from circlekit import Interpreter, Model
from circlekit.equivalence.litert import make_interpreter, run_interpreter
from circlekit.errors import ModelError
from circlekit.io.write.save import to_bytes
from circlekit.ir.clone import clone
from circlekit.ir.dtypes import f32, i8, i16, i32
from circlekit.ir.enums import Activation, LSTMKernelType
from circlekit.ir.op import Op
from circlekit.ir.value import Array, Value
from circlekit.ops.movement.shape import Transpose
from circlekit.ops.recurrent.bidirectional_lstm import BidirectionalSequenceLstm
from circlekit.ops.recurrent.lstm import Lstm, UnidirectionalSequenceLstm
from circlekit.ops.recurrent.rnn import Rnn
from circlekit.ops.recurrent.svdf import Svdf
from circlekit.quant.calibration.calibration import inner_name
from circlekit.quant.plan import OperatorPlan
from circlekit.quant.technique_search import _obstacle
from tests.ops.litert import const, graph_of
from tests.ops.recurrent.test_lstm import Maker, operands
from tests.ops.stateful import state

FORMS = [
    *((), ("cifg",), ("peephole",), ("projection",), ("norm",)),
    ("cifg", "projection", "norm"),
    ("peephole", "norm", "cifg"),
]


def lstm(form: tuple[str, ...] = (), seed: int = 3, **attributes: Any) -> Model:
    """Return an LSTM over 6 steps of 5 inputs, with 8 cells (7 outputs if projected)."""
    x = Value("x", f32, (6, 1, 5) if attributes.get("time_major") else (1, 6, 5))
    rest = operands(Maker(seed), frozenset(form), 5, 8, 1)
    given = {"act": Activation.TANH, "cell_clip": 10.0, "proj_clip": 0.9, **attributes}
    op = UnidirectionalSequenceLstm(x, *rest, **given)
    return Model([graph_of(op)])


def records(model: Model, count: int, seed: int) -> list[list[Array]]:
    rng = np.random.default_rng(seed)
    shapes = [v.static_shape for v in model.main.inputs]
    return [[rng.normal(0, 1, shape).astype(np.float32) for shape in shapes] for _ in range(count)]


def runs(model: Model, samples: list[list[Array]]) -> list[Array]:
    """Return the outputs for each sample, run from the initial state; LiteRT must give the same."""
    content = to_bytes(model, "tflite")
    found = []
    for sample in samples:
        outputs = Interpreter(model).run(sample)
        wanted = run_interpreter(make_interpreter(content), [sample])[0]
        for ours, theirs in zip(outputs, wanted, strict=True):
            np.testing.assert_array_equal(ours, theirs)
        found.append(np.concatenate([array.ravel() for array in outputs]))
    return found


def sqnr(wanted: list[Array], got: list[Array]) -> float:
    noise = np.square(np.subtract(wanted, got)).sum()
    return float(10 * np.log10(np.square(wanted).sum() / noise))


def quantized_op(model: Model, count: int = 8) -> Op:
    """Quantize ``model`` with ``count`` samples; return its only operator beside QUANTIZE and DEQUANTIZE."""
    circlekit.quantize(model, "int8", samples=records(model, count, 1), auto=False)
    (op,) = [op for op in model.main if op.code not in ("QUANTIZE", "DEQUANTIZE")]
    return op


@pytest.mark.parametrize("form", FORMS, ids=lambda f: "+".join(f) or "plain")
def test_lstm(form: tuple[str, ...]) -> None:
    model = lstm(form, time_major=len(form) == 1)
    samples = records(model, 8, 2)
    wanted = [np.concatenate([a.ravel() for a in Interpreter(model).run(sample)]) for sample in samples]
    named = dict(quantized_op(model).operand_items())
    assert {v.dtype for name, v in named.items() if name.startswith(("input_to", "recurrent"))} == {i8}
    assert (named["output_state"].dtype, named["cell_state"].dtype) == (i8, i16)
    assert {v.dtype for name, v in named.items() if name.endswith("bias")} == {i32}
    assert sqnr(wanted, runs(model, samples)) > 25


def calibrated(model: Model, **ends: tuple[float, float]) -> tuple[circlekit.Calibration, OperatorPlan]:
    """Return a calibration in which tensors inside the operator have the ranges ``ends``, and the plan."""
    calibration = circlekit.calibrate(model, records(model, 4, 1))
    (op,) = model.main
    for name, (low, high) in ends.items():
        statistics = calibration[inner_name(op, name)]
        statistics.min, statistics.max = low, high
    report = circlekit.quantize(model, "int8", calibration=calibration)
    (plan,) = report.plan.main.operators.values()
    return calibration, plan


@pytest.mark.parametrize(("largest", "is_float"), [(63.9, False), (64.0, False), (64.1, True)])
def test_cell_states_have_steps_of_a_power_of_two(largest: float, is_float: bool) -> None:
    """The kernel takes steps of at most 2^-9, so an int16 reaches 2^15 * 2^-9 = 64."""
    _, plan = calibrated(lstm(), cell_state=(-1.0, largest))
    if is_float:
        assert "cell_state" in plan.reason
        assert "expected numbers of up to 64, got 64.1" in plan.reason
    else:
        assert plan.operands[19].scale == (2.0**-9,)


@pytest.mark.parametrize(("low", "zero_point"), [(0.0, 127), (-1.0, 0)])
def test_the_zero_point_of_the_hidden_tensor_is_negated(low: float, zero_point: int) -> None:
    """-128 has no opposite in int8; so the range from 0 to 1 is divided into 254 steps, not 255."""
    _, plan = calibrated(lstm(("projection",)), hidden=(low, 1.0))
    form = plan.inner["hidden"]
    assert abs(form.zero_point[0] - zero_point) <= 1
    steps = 254 if low == 0 else 255
    assert form.scale[0] == pytest.approx((1 - low) / steps, rel=1e-6)
    lowest = form.scale[0] * (-128 + form.zero_point[0])  # the kernel adds the zero point
    assert lowest <= low + form.scale[0] / 2
    assert form.scale[0] * (127 + form.zero_point[0]) >= 1 - form.scale[0] / 2


@pytest.mark.parametrize("form", [("projection", "norm"), ("peephole",)], ids="+".join)
def test_a_plan_applied_gives_the_bytes_of_its_run(form: tuple[str, ...]) -> None:
    """If the scale of the input is doubled in the plan, the scales of biases double, except with norm."""
    model, again, other = lstm(form), lstm(form), lstm(form)
    report = circlekit.quantize(model, "int8", samples=records(model, 4, 1), auto=False)
    circlekit.quantize(again, plan=report.plan)
    assert to_bytes(again, "tflite") == to_bytes(model, "tflite")
    tensors = report.plan.main.tensors
    (name,) = (value.name for value in lstm(form).main.inputs)
    tensors[name] = replace(tensors[name], scale=(2 * tensors[name].scale[0],))
    circlekit.quantize(other, plan=report.plan)
    scales = [
        {
            key: v.quantization.scale
            for key, v in dict(op.operand_items()).items()
            if v.quantization is not None
        }
        for m in (model, other)
        for op in m.main
        if isinstance(op, UnidirectionalSequenceLstm)
    ]
    factors = {key: float(scales[1][key][0] / scales[0][key][0]) for key in scales[0]}
    changed = {key for key, factor in factors.items() if factor != 1}
    biases = {f"{gate}_gate_bias" for gate in ("input", "forget", "cell", "output")}
    assert changed == {"input"} | (set() if "norm" in form else biases)
    assert all(factors[key] == 2 for key in changed)


def test_samples_of_an_lstm_are_held_back_for_trials() -> None:
    model = lstm()
    report = circlekit.quantize(model, "int8", samples=records(model, 8, 1))
    assert "held back" in str(report)
    runs(model, records(model, 2, 2))


def svdf(act: Activation = Activation.RELU) -> Model:
    make = Maker(5)
    x, memory = Value("x", f32, (1, 6)), state(f32, (1, 8 * 4))
    op = Svdf(x, make.matrix(8, 6), make.matrix(8, 4), make.vector(4), memory, rank=2, act=act)
    return Model([graph_of(op)])


def test_svdf() -> None:
    """Samples are consecutive steps: in calibration, as in use, earlier samples fill the memory."""
    model = svdf()
    samples = records(model, 64, 2)
    wanted = Interpreter(model)
    reference = [wanted.run(sample)[0].ravel() for sample in samples]
    observed = [circlekit.calibrate(model, samples, processes=n)["Svdf"] for n in (1, 2)]
    assert observed[0].max == observed[1].max == np.max(reference)
    op = quantized_op(model, 64)
    assert [v.dtype for v in op.inputs if v] == [i8, i8, i16, i32, i16]
    ours, theirs = Interpreter(model), make_interpreter(to_bytes(model, "tflite"))
    got = [ours.run(sample)[0].ravel() for sample in samples]
    np.testing.assert_array_equal(got, [r[0].ravel() for r in run_interpreter(theirs, samples)])
    assert sqnr(reference, got) > 20


@pytest.mark.parametrize(
    ("model", "reason"),
    [
        (lstm(act=Activation.RELU), "always has the activation TANH, got RELU"),
        (lstm(("peephole", "projection")), "needs as many outputs as cells for peephole weights"),
        (svdf(Activation.NONE), "needs the activation RELU, got NONE"),
    ],
    ids=["activation", "peephole and projection", "activation of SVDF"],
)
def test_what_integers_cannot_do_gets_int8_weights(model: Model, reason: str) -> None:
    report = circlekit.quantize(model, "int8", samples=records(model, 8, 1), auto=False)
    (plan,) = report.plan.main.operators.values()
    assert reason in plan.reason
    (op,) = model.main
    assert op.inputs[0] is not None
    assert op.inputs[0].dtype is f32
    assert {v.dtype for v in op.inputs if v is not None} == {f32, i8}


def basic_lstm() -> Model:
    make = Maker(6)
    before, cells = state(f32, (2, 4)), state(f32, (2, 4))
    x, weights, bias = Value("x", f32, (2, 3)), make.matrix(16, 7), make.vector(16)
    basic = LSTMKernelType.BASIC
    op = Lstm(x, before, weights, bias, cells, kernel_type=basic, act=Activation.TANH)
    return Model([graph_of(op)])


def bidirectional_lstm() -> Model:
    forwards, backwards = (operands(Maker(seed), frozenset(), 5, 8, 1) for seed in (1, 2))
    rest = [*forwards[:17], *backwards[:17], *forwards[17:19], *backwards[17:19], *[None] * 9]
    op = BidirectionalSequenceLstm(Value("x", f32, (6, 1, 5)), *rest, act=Activation.TANH)
    return Model([graph_of(op)])


@pytest.mark.parametrize("scheme", ["int8", "int16x8"])
@pytest.mark.parametrize(
    ("model", "reason"),
    [
        (basic_lstm(), "a basic LSTM has no int8 kernel"),
        (bidirectional_lstm(), "LiteRT has no integer kernel"),
    ],
    ids=["basic", "bidirectional"],
)
def test_the_report_says_why_an_lstm_stays_float(model: Model, reason: str, scheme: str) -> None:
    model = clone(model)
    report = circlekit.quantize(model, scheme, samples=records(model, 2, 1), auto=False)
    (op,) = report.floats
    assert reason in op.reason


def test_a_state_that_does_not_fit_is_an_error_of_the_run() -> None:
    model = lstm()
    dict(next(iter(model.main)).operand_items())["cell_state"].shape = (3, 8)
    with pytest.raises(ModelError, match="UNIDIRECTIONAL_SEQUENCE_LSTM failed on operands"):
        circlekit.calibrate(model, records(model, 1, 1))


def test_a_state_that_a_float_operator_shares_stays_float() -> None:
    model = lstm()
    first = next(iter(model.main))
    cell = dict(first.operand_items())["cell_state"]
    other = Value("z", f32, (1, 5))
    second = Lstm(other, *first.inputs[1:18], state(f32, (1, 8)), cell, act=Activation.RELU)
    model.main.inputs = (*model.main.inputs, other)
    model.main.append(second)
    model.main.outputs = (*model.main.outputs, *second.results)
    circlekit.quantize(model, "int8", samples=records(model, 4, 1), auto=False)
    assert {op.inputs[0].dtype for op in model.main if op.inputs[0]} == {f32}
    to_bytes(model, "tflite")  # can be written


def test_a_float_state_that_an_integer_operator_reads_stays_a_variable() -> None:
    make, hidden = Maker(7), state(f32, (1, 4))
    layer = Rnn(Value("x", f32, (1, 5)), make.matrix(4, 5), make.matrix(4, 4), make.vector(4), hidden)
    model = Model([graph_of(layer)])
    moved = Transpose(hidden, const([1, 0], np.int32))
    model.main.append(moved)
    model.main.outputs = (*layer.results, *moved.results)
    circlekit.quantize(model, "int8", samples=records(model, 4, 1), auto=False)
    assert hidden.dtype is f32
    assert "QUANTIZE" in {op.code for op in hidden.users}
    runs(model, records(model, 1, 2))


@pytest.mark.parametrize("change", ["nothing", "input", "constant", "other reader"])
def test_a_sequence_with_states_of_its_own_is_no_obstacle_for_a_search(change: str) -> None:
    """Its state is an obstacle if it is an input of the graph, a constant, or read by another operator."""
    model = lstm()
    cell = dict(next(iter(model.main)).operand_items())["cell_state"]
    assert cell is not None
    if change == "input":
        model.main.inputs = (*model.main.inputs, cell)
    elif change == "constant":
        cell.is_variable = False
    elif change == "other reader":
        model.main.append(Transpose(cell, const([1, 0], np.int32)))
    assert (_obstacle(model) is None) == (change == "nothing")
