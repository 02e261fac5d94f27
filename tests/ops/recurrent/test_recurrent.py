# SPDX-License-Identifier: Apache-2.0
"""RNN and SVDF against LiteRT over several runs that share a state; GRU against the equations of Keras."""

from __future__ import annotations

import numpy as np
import pytest

from circlekit.errors import ModelError, ShapeError, UnsupportedError
from circlekit.interp.interpreter import Interpreter
from circlekit.ir.dtypes import DType, f32, i8, i16
from circlekit.ir.enums import Activation
from circlekit.ir.graph import Model
from circlekit.ir.value import Array, Value
from circlekit.ops.recurrent.rnn import BidirectionalSequenceRnn, Gru, Rnn, UnidirectionalSequenceRnn
from circlekit.ops.recurrent.svdf import Svdf
from tests.ops.litert import FLOAT_TOLERANCE, assert_close, const, graph_of, kernel_results, run_litert, var
from tests.ops.quantized import per_tensor
from tests.ops.stateful import check_runs, state

HYBRID_TOLERANCE = 2e-2
"""Each step quantizes the float state again: a rounding error can move an element by 1/127 of the range."""

KINDS = {"float": 1, "int8": 2, "asymmetric": 3}
"""Kinds of weights, and the version of RNN operators that has them."""


def tolerance(kind: str) -> float:
    return FLOAT_TOLERANCE if kind == "float" else HYBRID_TOLERANCE


def matrix(rng: np.random.Generator, kind: str, *shape: int) -> Value:
    if kind == "float":
        return const(rng.normal(0, 0.5, shape), np.float32)
    value = const(rng.integers(-127, 128, shape), np.int8)
    value.quantization = per_tensor(float(rng.uniform(0.003, 0.008)))
    return value


def floats(rng: np.random.Generator, *shape: int, runs: int = 3) -> list[list[Array]]:
    return [[rng.normal(0, 1, shape).astype(np.float32)] for _ in range(runs)]


def gate(rng: np.random.Generator, kind: str, inputs: int, units: int, batch: int) -> list[Value]:
    """Return the operands of one direction: weights, recurrent weights, bias and state."""
    weights = [matrix(rng, kind, units, n) for n in (inputs, units)]
    return [*weights, const(rng.normal(0, 1, units), np.float32), state(f32, (batch, units))]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("act", [Activation.NONE, Activation.RELU, Activation.TANH, Activation.SIGN_BIT])
def test_rnn(kind: str, act: Activation) -> None:
    rng = np.random.default_rng(1)
    steps = floats(rng, 2, 5)
    op = Rnn(
        var(steps[0][0]), *gate(rng, kind, 5, 3, 2), act=act, asymmetric_quantize_inputs=kind == "asymmetric"
    )
    assert op.required_version() == KINDS[kind]
    check_runs(op, steps, tolerance(kind))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("time_major", [False, True])
def test_unidirectional(kind: str, time_major: bool) -> None:
    rng = np.random.default_rng(2)
    steps = floats(rng, 4, 3, 5)
    op = UnidirectionalSequenceRnn(
        var(steps[0][0]), *gate(rng, kind, 5, 6, 3 if time_major else 4), act=Activation.TANH,
        time_major=time_major, asymmetric_quantize_inputs=kind == "asymmetric",
    )  # fmt: skip
    assert op.required_version() == KINDS[kind]
    assert op.output.shape == (4, 3, 6)
    check_runs(op, steps, tolerance(kind))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("time_major", [False, True])
@pytest.mark.parametrize("merge", [False, True])
@pytest.mark.parametrize("second", ["none", "cross", "aux"])
def test_bidirectional(kind: str, time_major: bool, merge: bool, second: str) -> None:
    if kind == "int8" and merge and time_major:
        pytest.skip("LiteRT reads beyond the end of its zero points")
    rng = np.random.default_rng(3)
    steps = [a + b for a, b in zip(floats(rng, 4, 3, 5), floats(rng, 4, 3, 5), strict=True)]
    batch = 3 if time_major else 4
    rest: list[Value | None] = [*gate(rng, kind, 5, 6, batch), *gate(rng, kind, 5, 2, batch)]
    if second == "none":
        steps = [s[:1] for s in steps]
        rest += [None] * 3
    else:
        aux = [matrix(rng, kind, 6, 5), matrix(rng, kind, 2, 5)] if second == "aux" else [None, None]
        rest += [var(steps[0][1]), *aux]
    op = BidirectionalSequenceRnn(
        var(steps[0][0]), *rest, act=Activation.TANH, time_major=time_major, merge_outputs=merge,
        asymmetric_quantize_inputs=kind == "asymmetric",
    )  # fmt: skip
    assert op.required_version() == KINDS[kind]
    assert [v.shape for v in op.results] == ([(4, 3, 8)] if merge else [(4, 3, 6), (4, 3, 2)])
    check_runs(op, steps, tolerance(kind))


@pytest.mark.parametrize("has_weights", [(True, False), (False, True)])
def test_a_second_input_has_weights_in_both_directions_or_in_none(has_weights: tuple[bool, bool]) -> None:
    rng = np.random.default_rng(3)
    x, aux = (floats(rng, 4, 3, 5)[0][0] for _ in range(2))
    fw, bw = (matrix(rng, "float", n, 5) if has else None for n, has in zip((6, 2), has_weights, strict=True))
    rest = [*gate(rng, "float", 5, 6, 3), *gate(rng, "float", 5, 2, 3), var(aux), fw, bw]
    model = graph_of(BidirectionalSequenceRnn(var(x), *rest, act=Activation.TANH, time_major=True))
    with pytest.raises(RuntimeError, match="aux_inputs_weights_or_none"):
        run_litert(model, [x, aux])
    with pytest.raises(ModelError, match="expected weights for aux_input in both directions or in none"):
        Interpreter(Model([model])).run([x, aux])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shape", [(0, 3, 5), (4, 0, 5)])
def test_a_sequence_without_steps_or_without_a_batch(kind: str, shape: tuple[int, ...]) -> None:
    rng, x = np.random.default_rng(2), np.zeros(shape, np.float32)
    op = UnidirectionalSequenceRnn(
        var(x), *gate(rng, kind, 5, 6, shape[1]), act=Activation.TANH,
        time_major=True, asymmetric_quantize_inputs=kind == "asymmetric",
    )  # fmt: skip
    check_runs(op, [[x], [x]])


@pytest.mark.parametrize("act", [Activation.RELU, Activation.RELU6, Activation.RELU_N1_TO_1, Activation.NONE])
def test_nan_becomes_the_lower_bound_of_the_activation(act: Activation) -> None:
    rng = np.random.default_rng(1)
    x = np.array([[np.nan, 1, 2, 3, 4], [np.inf, -1, 2, 3, 4]], np.float32)
    check_runs(Rnn(var(x), *gate(rng, "float", 5, 3, 2), act=act), [[x]])
    weights = [matrix(rng, "float", 6, n) for n in (5, 4)]
    check_runs(Svdf(var(x), *weights, None, state(f32, (2, 24)), rank=2, act=act), [[x]])


@pytest.mark.parametrize("kind", KINDS)
def test_an_integer_bias_of_float_data_has_no_kernel(kind: str) -> None:
    """LiteRT reads the bits of its integers as floats."""
    rng, x = np.random.default_rng(1), np.ones((2, 5), np.float32)
    weights, recurrent, _, memory = gate(rng, kind, 5, 3, 2)
    bias = const(np.ones(3), np.int32)
    svdf = Svdf(var(x), weights, matrix(rng, kind, 3, 4), bias, state(f32, (2, 12)), rank=1)
    for op in (Rnn(var(x), weights, recurrent, bias, memory), svdf):
        with pytest.raises(UnsupportedError, match="on float32, int32 has no kernel"):
            Interpreter(Model([graph_of(op)])).run([x])


# -- SVDF --------------------------------------------------------------------------------------


@pytest.mark.parametrize(("kind", "version"), [("float", 1), ("int8", 2), ("asymmetric", 4)])
@pytest.mark.parametrize("rank", [1, 2])
@pytest.mark.parametrize("has_bias", [False, True])
def test_svdf(kind: str, version: int, rank: int, has_bias: bool) -> None:
    rng = np.random.default_rng(4)
    steps = floats(rng, 2, 5, runs=6)
    filters, memory = 6, 4
    bias = const(rng.normal(0, 1, filters // rank), np.float32) if has_bias else None
    op = Svdf(
        var(steps[0][0]), matrix(rng, kind, filters, 5), matrix(rng, kind, filters, memory), bias,
        state(f32, (2, filters * memory)), rank=rank, act=Activation.RELU if has_bias else Activation.NONE,
        asymmetric_quantize_inputs=kind == "asymmetric",
    )  # fmt: skip
    assert op.required_version() == version
    assert op.output.shape == (2, filters // rank)
    check_runs(op, steps)


@pytest.mark.parametrize("rank", [1, 2])
@pytest.mark.parametrize("scale", [0.0005, 0.005, 0.1])
def test_integer_svdf(rank: int, scale: float) -> None:
    """With the smallest scale, the memory saturates at both limits of int16."""
    rng = np.random.default_rng(5)
    filters, memory = 6, 4
    feature = const(rng.integers(-127, 128, (filters, 5)), np.int8)
    feature.quantization = per_tensor(0.02)
    time = const(rng.integers(-32767, 32768, (filters, memory)), np.int16)
    time.quantization = per_tensor(1e-4)
    bias = const(rng.integers(-1000, 1000, filters // rank), np.int32)
    bias.quantization = per_tensor(1e-7)
    x = Value("x", i8, (2, 5), None, per_tensor(0.03, -4))
    out = Value("y", i8, (2, filters // rank), None, per_tensor(scale * 40, 9))
    memory_tensor = state(i16, (2, filters * memory), per_tensor(scale / 30))
    op = Svdf(x, feature, time, bias, memory_tensor, rank=rank, act=Activation.RELU, results=[out])
    assert op.required_version() == 3
    check_runs(op, [[rng.integers(-128, 128, (2, 5)).astype(np.int8)] for _ in range(6)])


@pytest.mark.parametrize(("time", "memory"), [(np.int16, i8), (np.int8, i16)])
def test_integer_svdf_needs_time_weights_and_a_state_of_int16(time: type, memory: DType) -> None:
    """LiteRT reads them as int16, whatever their dtype is: its results then are arbitrary numbers."""
    x, feature = np.ones((1, 2), np.int8), const(np.ones((3, 2)), np.int8)
    op = Svdf(
        var(x), feature, const(np.ones((3, 4)), time), None, state(memory, (1, 12), per_tensor(1.0)),
        rank=1, act=Activation.RELU, results=[Value("y", i8, (1, 3), None, per_tensor(1.0))],
    )  # fmt: skip
    with pytest.raises(UnsupportedError, match=r"SVDF on i8, with .* and a state of .*, has no kernel"):
        Interpreter(Model([graph_of(op)])).run([x])


@pytest.mark.parametrize(
    ("rank", "sentence"),
    [(4, "rank: expected a divisor of 6 filters, got 4"), (0, "rank: expected 1 or more, got 0")],
)
def test_rank_divides_the_filters(rank: int, sentence: str) -> None:
    rng = np.random.default_rng(4)
    with pytest.raises(ShapeError, match=sentence):
        Svdf(
            Value("x", f32, (2, 5)), matrix(rng, "float", 6, 5), matrix(rng, "float", 6, 4), None,
            state(f32, (2, 24)), rank=rank,
        )  # fmt: skip


# -- GRU ---------------------------------------------------------------------------------------


def logistic(x: Array) -> Array:
    return np.asarray(1 / (1 + np.exp(-x)))


def test_gru_equals_that_of_keras() -> None:
    """LiteRT has no GRU: the equations of Keras' layer (reset_after) in float64, gate by gate."""
    rng = np.random.default_rng(6)
    x, h = rng.normal(0, 1, (5, 1, 3)), rng.normal(0, 1, (1, 4))
    kernels, recurrent = rng.normal(0, 1, (3, 4, 3)), rng.normal(0, 1, (3, 4, 4))
    bias, recurrent_bias = rng.normal(0, 1, (3, 4)), rng.normal(0, 1, (3, 4))
    data = [a.astype(np.float32) for a in (x, kernels, bias, recurrent, recurrent_bias, h)]
    op = Gru(
        var(data[0]), const(data[1].reshape(12, 3)), const(data[2].reshape(12)),
        const(data[3].reshape(12, 4)), const(data[4].reshape(12)), var(data[5]),
    )  # fmt: skip
    assert op.output.shape == (1, 4)
    (got,) = kernel_results(op, [data[0], data[5]])
    for step in x:
        z, r = (
            logistic(step @ kernels[i].T + bias[i] + h @ recurrent[i].T + recurrent_bias[i]) for i in (0, 1)
        )
        inner = h @ recurrent[2].T + recurrent_bias[2]
        h = z * h + (1 - z) * np.tanh(step @ kernels[2].T + bias[2] + r * inner)
    assert_close(got, h.astype(np.float32))


def test_gru_refuses_wrong_shapes_and_return_sequences() -> None:
    rng = np.random.default_rng(6)
    values = [Value("x", f32, (5, 1, 3)), *gate(rng, "float", 3, 4, 1)]
    with pytest.raises(ShapeError, match="hidden_hidden: expected 3 columns, one per input, got 4"):
        Gru(values[0], values[2], None, values[2], None, values[4])
    with pytest.raises(ShapeError, match="state: expected 2 rows, one per sequence of the batch, got 1"):
        Gru(Value("x", f32, (5, 2, 3)), values[1], None, values[2], None, values[4])
    with pytest.raises(ShapeError, match=r"state: expected rank 1 or more, got shape \[\]"):
        Gru(values[0], values[1], None, values[2], None, Value("s", f32, ()))
    weights = [Value("", f32, shape) for shape in ((12, 3), (12, 4))]
    with pytest.raises(ShapeError, match=r"expected hidden_input of shape \[12,4\], got \[12,3\]"):
        Gru(values[0], weights[0], None, weights[0], None, values[4])
    with pytest.raises(ShapeError, match=r"expected bias of 12 elements, .*, got 11"):
        Gru(values[0], weights[0], Value("b", f32, (11,)), weights[1], None, values[4])
    op = Gru(values[0], weights[0], None, weights[1], None, values[4], return_sequences=True)
    with pytest.raises(UnsupportedError, match="GRU with return_sequences"):
        kernel_results(op, [np.zeros(v.static_shape, np.float32) for v in op.inputs if v is not None])
    op = Gru(values[0], weights[0], const(np.zeros(12, np.int32)), weights[1], None, values[4])
    with pytest.raises(UnsupportedError, match="GRU on float32, int32 has no kernel"):
        kernel_results(op, [np.zeros(v.static_shape, np.float32) for v in op.inputs if v and not v.is_const])
