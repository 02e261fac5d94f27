# SPDX-License-Identifier: Apache-2.0
"""LSTM in all its forms, against LiteRT, over several runs that share a state."""

from __future__ import annotations

import numpy as np
import pytest

from circlekit.errors import ShapeError, UnsupportedError
from circlekit.interp import evaluate
from circlekit.interp.interpreter import Interpreter
from circlekit.ir.dtypes import f32, i8, i16
from circlekit.ir.enums import Activation, LSTMKernelType
from circlekit.ir.graph import Model
from circlekit.ir.value import Array, Value
from circlekit.ops.recurrent.bidirectional_lstm import BidirectionalSequenceLstm
from circlekit.ops.recurrent.lstm import Lstm, UnidirectionalSequenceLstm
from circlekit.ops.recurrent.lstm_float import normalized
from tests.ops.litert import FLOAT_TOLERANCE, check, const, graph_of, run_litert, var
from tests.ops.quantized import per_tensor
from tests.ops.stateful import check_runs, state

HYBRID_TOLERANCE = 2e-2
"""Each step quantizes the float state again: a rounding error can move an element by 1/127 of the range."""

GATES = ("input", "forget", "cell", "output")
FORMS = [frozenset(f) for f in ((), ("cifg",), ("peephole",), ("projection",), ("norm",))]
FORMS += [
    frozenset(("cifg", "peephole", "projection", "norm")),
    frozenset(("peephole", "projection", "norm")),
]
"""Sets of optional parts; "cifg": input and forget gate are coupled, and the input gate has no weights."""


class Maker:
    """Makes constants of one kind of weights, seeded."""

    def __init__(self, seed: int, kind: str = "float") -> None:
        self.rng = np.random.default_rng(seed)
        self.kind = kind

    def matrix(self, *shape: int) -> Value:
        if self.kind == "float":
            return const(self.rng.normal(0, 0.5, shape), np.float32)
        value = const(self.rng.integers(-127, 128, shape), np.int8)
        value.quantization = per_tensor(float(self.rng.uniform(0.003, 0.008)))
        return value

    def vector(self, size: int, around: float = 0.0) -> Value:
        return const(self.rng.normal(around, 0.3, size), np.float32)


def operands(make: Maker, form: frozenset[str], inputs: int, cells: int, batch: int) -> list[Value | None]:
    """Return operands 1 to 19 of a full LSTM, or 1 to 23 with layer normalization ("norm").

    For each gate: i weights of the input, r recurrent weights, b bias, n normalization, p peephole weights.
    """
    outputs = cells - 1 if "projection" in form else cells
    gates = GATES[1:] if "cifg" in form else GATES
    out: dict[str, Value | None] = {}
    for g in GATES:
        has = g in gates
        out[f"i_{g}"] = make.matrix(cells, inputs) if has else None
        out[f"r_{g}"] = make.matrix(cells, outputs) if has else None
        out[f"b_{g}"] = make.vector(cells) if has else None
        out[f"n_{g}"] = make.vector(cells, 1.0) if has and "norm" in form else None
        has_peephole = has and g != "cell" and "peephole" in form
        out[f"p_{g}"] = make.matrix(cells) if has_peephole else None
    order = [f"{k}_{g}" for k in "ir" for g in GATES] + ["p_input", "p_forget", "p_output"]
    listed = [out[name] for name in order] + [out[f"b_{g}"] for g in GATES]
    projected = "projection" in form
    listed += [
        make.matrix(outputs, cells) if projected else None,
        make.vector(outputs) if projected else None,
    ]
    listed += [state(f32, (batch, outputs)), state(f32, (batch, cells))]
    return listed + ([out[f"n_{g}"] for g in GATES] if "norm" in form else [])


def sequence(seed: int, *shape: int, runs: int = 2) -> list[list[Array]]:
    rng = np.random.default_rng(seed)
    return [[rng.normal(0, 1, shape).astype(np.float32)] for _ in range(runs)]


@pytest.mark.parametrize("form", FORMS, ids=lambda f: "+".join(sorted(f)) or "plain")
@pytest.mark.parametrize("time_major", [False, True])
@pytest.mark.parametrize("kind", ["float", "int8", "asymmetric"])
def test_unidirectional(form: frozenset[str], time_major: bool, kind: str) -> None:
    steps = sequence(3, 4, 3, 5)
    batch = 3 if time_major else 4
    rest = operands(Maker(1, kind), form, 5, 6, batch)
    op = UnidirectionalSequenceLstm(
        var(steps[0][0]), *rest, act=Activation.TANH, time_major=time_major, cell_clip=0.9, proj_clip=0.4,
        asymmetric_quantize_inputs=kind == "asymmetric",
    )  # fmt: skip
    assert op.results[0].shape == (4, 3, 5 if "projection" in form else 6)
    check_runs(op, steps, tolerance=FLOAT_TOLERANCE if kind == "float" else HYBRID_TOLERANCE)


@pytest.mark.parametrize("kind", ["float", "int8", "asymmetric"])
@pytest.mark.parametrize("shape", [(0, 3, 5), (4, 0, 5)])
def test_a_sequence_without_steps_or_without_a_batch(kind: str, shape: tuple[int, ...]) -> None:
    x, rest = np.zeros(shape, np.float32), operands(Maker(1, kind), FORMS[-1], 5, 6, shape[1])
    op = UnidirectionalSequenceLstm(
        var(x), *rest, act=Activation.TANH, time_major=True, asymmetric_quantize_inputs=kind == "asymmetric"
    )
    check_runs(op, [[x], [x]])


def test_an_input_of_rank_2_is_one_step() -> None:
    """LiteRT's check of operands reads a third dimension, so LiteRT gets the input with rank 3."""
    steps = sequence(3, 2, 3)
    op, same = (
        UnidirectionalSequenceLstm(var(x), *operands(Maker(2), FORMS[0], 3, 4, 2), act=Activation.TANH)
        for x in (steps[0][0], steps[0][0][:, None])
    )
    wanted = check_runs(same, [[x[:, None]] for (x,) in steps])
    interpreter = Interpreter(Model([graph_of(op)]))
    for (x,), (y,) in zip(steps, wanted, strict=True):
        np.testing.assert_array_equal(interpreter.run([x])[0], y[:, 0])


@pytest.mark.parametrize("act", [Activation.RELU, Activation.RELU6, Activation.RELU_N1_TO_1])
def test_activations(act: Activation) -> None:
    steps = sequence(4, 2, 5, 3)
    op = UnidirectionalSequenceLstm(var(steps[0][0]), *operands(Maker(2), FORMS[0], 3, 4, 2), act=act)
    check_runs(op, steps)


def test_diagonal_recurrent_weights() -> None:
    steps = sequence(4, 2, 5, 3)
    rest = operands(Maker(2), FORMS[0], 3, 4, 2)
    rest[4:8] = [Maker(i).vector(4) for i in range(4)]
    op = UnidirectionalSequenceLstm(
        var(steps[0][0]), *rest, act=Activation.TANH, diagonal_recurrent_tensors=True
    )
    assert op.required_version() == 4
    assert op.results[0].shape == (2, 5, 4)
    check_runs(op, steps)


@pytest.mark.parametrize("form", FORMS[:5], ids=lambda f: "+".join(sorted(f)) or "plain")
@pytest.mark.parametrize(("kind", "version"), [("float", 1), ("int8", 3), ("asymmetric", 4)])
def test_full(form: frozenset[str], kind: str, version: int) -> None:
    steps = sequence(5, 2, 5, runs=4)
    rest = operands(Maker(3, kind), form, 5, 4, 2)
    op = Lstm(var(steps[0][0]), *rest, act=Activation.TANH, asymmetric_quantize_inputs=kind == "asymmetric")
    assert op.required_version() == version
    check_runs(op, steps, tolerance=FLOAT_TOLERANCE if kind == "float" else HYBRID_TOLERANCE)


def test_basic() -> None:
    make, rng = Maker(6), np.random.default_rng(6)
    x, before, cells = (rng.normal(0, 1, (2, n)).astype(np.float32) for n in (3, 4, 4))
    weights, bias = make.matrix(16, 7), make.vector(16)
    op = Lstm(
        var(x), var(before), weights, bias, var(cells), kernel_type=LSTMKernelType.BASIC, act=Activation.TANH
    )
    assert op.required_version() == 2
    check(op, x, before, cells)


def test_basic_keeps_variables() -> None:
    make, steps = Maker(6), sequence(6, 2, 3, runs=3)
    before, cells = state(f32, (2, 4)), state(f32, (2, 4))
    op = Lstm(
        var(steps[0][0]), before, make.matrix(16, 7), make.vector(16), cells,
        kernel_type=LSTMKernelType.BASIC, act=Activation.TANH,
    )  # fmt: skip
    results = check_runs(op, steps)
    assert not np.array_equal(results[0][1], results[1][1])


@pytest.mark.parametrize("seed", range(12))
def test_basic_integers(seed: int) -> None:
    rng = np.random.default_rng(seed)
    x, before = (rng.integers(0, 256, (2, n)).astype(np.uint8) for n in (3, 4))
    cells = rng.integers(-32768, 32768, (2, 4)).astype(np.int16)
    weights, bias = (
        const(rng.integers(0, 256, (16, 7)), np.uint8),
        const(rng.integers(-9000, 9000, 16), np.int32),
    )
    values = [var(x), var(before), weights, bias, var(cells)]
    scales = [(1 / 128, 128), (1 / 128, 128), (0.01, 119), (0.01 / 128, 0), (2**-11, 0)]
    for value, (scale, zero) in zip(values, scales, strict=True):
        value.quantization = per_tensor(scale, zero)
    op = Lstm(*values, kernel_type=LSTMKernelType.BASIC, act=Activation.TANH)
    for value, (scale, zero) in zip(op.results, [scales[0], scales[4], scales[0], (2**-12, 0)], strict=True):
        value.quantization = per_tensor(scale, zero)
    check_runs(op, [[x, before, cells]])


@pytest.mark.parametrize("merge", [False, True])
@pytest.mark.parametrize("second", ["none", "cross", "aux"])
@pytest.mark.parametrize("kind", ["float", "int8", "asymmetric"])
def test_bidirectional(merge: bool, second: str, kind: str) -> None:
    time_major = True  # with False and merged results, LiteRT writes beyond the end of the state
    steps = [a + b for a, b in zip(sequence(7, 4, 3, 5), sequence(8, 4, 3, 5), strict=True)]
    make = Maker(9, kind)
    fw, bw = (operands(make, frozenset(("peephole", "projection")), 5, 6, 3) for _ in range(2))
    rest: list[Value | None] = [*fw[:17], *bw[:17], *fw[17:19], *bw[17:19]]
    if second == "none":
        steps = [s[:1] for s in steps]
        rest += [None] * 9
    else:
        aux = [make.matrix(6, 5) if second == "aux" else None for _ in range(8)]
        rest += [var(steps[0][1]), *aux]
    op = BidirectionalSequenceLstm(
        var(steps[0][0]), *rest, act=Activation.TANH, merge_outputs=merge, time_major=time_major,
        asymmetric_quantize_inputs=kind == "asymmetric",
    )  # fmt: skip
    assert [v.shape for v in op.results] == ([(4, 3, 10)] if merge else [(4, 3, 5)] * 2)
    check_runs(op, steps, tolerance=FLOAT_TOLERANCE if kind == "float" else HYBRID_TOLERANCE)


def test_bidirectional_batch_major() -> None:
    steps = sequence(7, 3, 4, 5)
    fw, bw = (operands(Maker(i), frozenset(), 5, 6, 3) for i in range(2))
    rest = [*fw[:17], *bw[:17], *fw[17:19], *bw[17:19], *[None] * 9]
    op = BidirectionalSequenceLstm(var(steps[0][0]), *rest, act=Activation.TANH, time_major=False)
    check_runs(op, steps)


def test_equal_sums_are_normalized_to_zero() -> None:
    """The variance of such a row is 0, to which LiteRT adds 1e-8; 1 and -1 have the variance 1."""
    rows = normalized(np.array([[3, 3], [1, -1]], np.float32))
    np.testing.assert_allclose(rows, [[0, 0], [1, -1]], rtol=1e-6)


# -- errors ------------------------------------------------------------------------------------


def test_an_lstm_needs_recurrent_weights_and_an_interpreter() -> None:
    x = Value("x", f32, (2, 4, 3))
    with pytest.raises(ShapeError, match="expected recurrent weights and both states"):
        Lstm(x, None, *[Maker(0).matrix(4, 3) for _ in range(3)])
    op = UnidirectionalSequenceLstm(x, *operands(Maker(0), FORMS[0], 3, 4, 2))
    with pytest.raises(
        UnsupportedError,
        match="LSTM keeps state and cannot be computed outside",
    ):
        evaluate(op, [np.zeros(v.static_shape, np.float32) if v else None for v in op.inputs])


def test_an_lstm_of_int16_has_version_5_and_is_not_pure() -> None:
    x = Value("x", i16, (2, 4, 3))
    op = UnidirectionalSequenceLstm(x, *operands(Maker(0, "int8"), FORMS[0], 3, 4, 2))
    assert op.required_version() == 5
    assert not op.pure


@pytest.mark.parametrize("absent", [8, 18, 19])  # recurrent weights of a gate, output and cell state
def test_a_full_lstm_needs_its_recurrent_weights_and_states(absent: int) -> None:
    values: list[Value | None] = [Value("x", f32, (2, 4, 3)), *operands(Maker(0), FORMS[0], 3, 4, 2)]
    assert UnidirectionalSequenceLstm(*values).results[0].shape == (2, 4, 4)
    values[absent] = None
    with pytest.raises(ShapeError, match="expected recurrent weights and both states to be present"):
        UnidirectionalSequenceLstm(*values)


def test_optional_operands_of_both_directions() -> None:
    """The input gate (coupled gates have none), peepholes, projections and the second input may be absent."""
    optional = {spec.name for spec in BidirectionalSequenceLstm.operands if spec.optional}
    names = {"input_to_input_weights", "recurrent_to_input_weights", "input_gate_bias", "projection_weights"}
    names |= {"projection_bias"} | {f"cell_to_{gate}_weights" for gate in ("input", "forget", "output")}
    names |= {f"aux_input_to_{gate}_weights" for gate in GATES}
    assert optional == {"aux_input"} | {d + name for d in ("fw_", "bw_") for name in names}
    assert len(BidirectionalSequenceLstm.operands) == 48


@pytest.mark.parametrize("kind", ["float", "int8"])
@pytest.mark.parametrize("index", [12, 16])
def test_an_integer_bias_of_float_data_has_no_kernel(kind: str, index: int) -> None:
    ((x,),) = sequence(3, 4, 3, 5, runs=1)
    rest = operands(Maker(1, kind), frozenset({"projection"}), 5, 6, 3)
    old = rest[index]
    assert old is not None
    rest[index] = const(np.ones(old.shape), np.int32)
    graph = graph_of(UnidirectionalSequenceLstm(var(x), *rest, act=Activation.TANH, time_major=True))
    with pytest.raises(RuntimeError, match="INT32 != FLOAT32"):
        run_litert(graph, [x])
    with pytest.raises(UnsupportedError, match="on float32, int32 has no kernel"):
        Interpreter(Model([graph])).run([x])


def test_bidirectional_integers_have_no_kernel() -> None:
    fw, bw = (operands(Maker(i), frozenset(), 5, 6, 3) for i in range(2))
    rest = [*fw[:17], *bw[:17], *fw[17:19], *bw[17:19], *[None] * 9]
    op = BidirectionalSequenceLstm(Value("x", i8, (4, 3, 5)), *rest)
    with pytest.raises(UnsupportedError, match="BIDIRECTIONAL_SEQUENCE_LSTM on i8 has no kernel"):
        op.cell({}, np.zeros((4, 3, 5), np.int8), None)


@pytest.mark.parametrize("absent", range(5))
def test_a_basic_lstm_needs_its_operands(absent: int) -> None:
    values: list[Value | None] = [Value("v", f32, (1, 4)) for _ in range(5)]
    values[absent] = None
    with pytest.raises(ShapeError, match="a basic LSTM: expected input, previous output, weights, bias"):
        Lstm(*values, kernel_type=LSTMKernelType.BASIC)


@pytest.mark.parametrize(("index", "name"), [(0, "input"), (2, "weights")])
def test_a_basic_lstm_needs_matrices(index: int, name: str) -> None:
    values = [Value("v", f32, (1, 4)) for _ in range(5)]
    values[index].shape = (4,)
    with pytest.raises(ShapeError, match=rf"expected {name} of rank 2, got shape \[4\]"):
        Lstm(*values, kernel_type=LSTMKernelType.BASIC)


@pytest.mark.parametrize(
    ("shape", "time_major", "is_one_step"),
    [
        ((1, 6, 5), False, False),
        ((6, 1, 5), False, True),
        ((1, 6, 5), True, True),
        ((6, 1, 5), True, False),
        (None, False, False),
    ],
)
def test_a_sequence_of_one_step(shape: tuple[int, ...] | None, time_major: bool, is_one_step: bool) -> None:
    batch = 1 if shape is None else shape[1 if time_major else 0]
    rest = operands(Maker(3), frozenset(), 5, 8, batch)
    op = UnidirectionalSequenceLstm(Value("x", f32, shape), *rest, act=Activation.TANH, time_major=time_major)
    assert op.is_one_step is is_one_step
