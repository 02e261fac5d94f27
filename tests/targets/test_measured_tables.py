# SPDX-License-Identifier: Apache-2.0
"""The measured tables and the runtimes agree on a few models; ``tools.probe_targets`` checks more."""

from __future__ import annotations

from importlib.util import find_spec

import numpy as np
import pytest

import circlekit
from circlekit.equivalence.litert_undefined import undefined
from circlekit.io.write.save import to_bytes
from circlekit.ir.dtypes import boolean, f32
from circlekit.ir.enums import Activation
from circlekit.ir.graph import Model
from circlekit.ir.op import OpaqueOp
from circlekit.ir.value import Array, Value
from circlekit.ops.arithmetic.binary import Add
from circlekit.ops.arithmetic.comparison import Select
from circlekit.ops.arithmetic.unary import Ceil
from circlekit.ops.movement.space import BatchToSpaceND
from circlekit.targets.target import find_target
from circlekit.testing.model_builder import graph_of
from tools.probe_targets import probe
from tools.probe_targets.check import check
from tools.probe_targets.constraints import Observation, learn
from tools.probe_targets.probe import content_of
from tools.probe_targets.recurrent import RecurrentMaker
from tools.probe_targets.runtimes import RUNTIMES, Job, Ran, run_jobs

SEED = 5

MODELS = 12


@pytest.mark.parametrize(
    ("name", "package"),
    [("litert", "ai_edge_litert"), ("litert-xnnpack", "ai_edge_litert"), ("onert", "onert")],
)
def test_table_and_runtime_agree(name: str, package: str) -> None:
    if find_spec(package) is None:
        pytest.skip(f"{package} is not installed")
    found = check(name, MODELS, SEED)
    assert not found.differences, found.differences
    assert found.counts[True, True] > MODELS / 4  # the table takes the model, and the runtime runs it


def to_space(rank: int, blocks: int) -> BatchToSpaceND:
    """Return an operator that halves the batch; all dimensions of its input are 2.

    ``blocks``: the number of elements of ``block_shape``, for example [2, 1] for 2.
    """
    sizes, crops = np.array([2, *[1] * (blocks - 1)], np.int32), np.zeros((blocks, 2), np.int32)
    x = Value("x", f32, (2,) * rank)
    return BatchToSpaceND(x, Value.constant("b", sizes), Value.constant("c", crops))


def ceil(rank: int) -> Ceil:
    return Ceil(Value("x", f32, (2,) * rank))


@pytest.mark.parametrize(("rank", "blocks"), [(2, 1), (3, 1), (3, 2), (4, 1), (4, 2), (4, 3), (5, 3)])
def test_litert_has_one_number_of_blocks_for_each_rank(rank: int, blocks: int) -> None:
    op, runtime = to_space(rank, blocks), RUNTIMES["litert"]
    if find_spec(runtime.package.replace("-", "_")) is not None:
        job = Job(content_of(graph_of(to_space(rank, blocks)), "tflite"), [np.ones((2,) * rank, np.float32)])
        (ran,) = run_jobs(runtime, [job])
        assert (ran.outputs is not None) == (find_target("litert").refusal(op) is None)
    assert (find_target("litert").refusal(op) is None) == ((rank, blocks) in ((3, 1), (4, 2)))


def assert_runs(name: str, model: Model, inputs: list[Array], runs: bool) -> None:
    """Assert that ``runs`` says whether the runtime ``name`` runs the only operator of ``model``.

    Its table must say the same.
    """
    runtime = RUNTIMES[name]
    if find_spec(runtime.package.replace("-", "_")) is not None:
        (ran,) = run_jobs(runtime, [Job(content_of(model.main, "tflite"), inputs)])
        assert (ran.outputs is not None or ran.reason == "not delegated") == runs, ran.reason
    assert (find_target(name).refusal(model.main.ops[0]) is None) == runs


PER_CHANNEL = "quant(scale: [0.25, 0.25], axis: 0)"
OFFSET = "quant(scale: 0.25, zero_point: 1)"
OFFSETS = "quant(scale: [0.25, 0.25], zero_point: [1, 1], axis: 0)"
BIAS_PER_CHANNEL = "quant(scale: [0.125, 0.125], axis: 0)"


@pytest.mark.parametrize(
    ("filter", "bias", "litert", "xnnpack"),
    [
        (PER_CHANNEL, BIAS_PER_CHANNEL, True, True),
        (PER_CHANNEL, "", True, True),  # XNNPACK leaves it to LiteRT
        (PER_CHANNEL, "quant(scale: 0.125)", True, False),
        ("quant(scale: 0.25)", BIAS_PER_CHANNEL, True, False),
        ("quant(scale: 0.25)", "quant(scale: 0.125, zero_point: 1)", False, False),
        (PER_CHANNEL, "quant(scale: [0.125, 0.125], zero_point: [1, 1], axis: 0)", True, False),
        (OFFSETS, BIAS_PER_CHANNEL, False, False),
    ],
)
def test_xnnpack_fails_if_filter_and_bias_do_not_fit(
    filter: str, bias: str, litert: bool, xnnpack: bool
) -> None:
    model = circlekit.parse(
        f"""graph main(%x: i8[1,2,2,4] quant(scale: 0.5)) -> %y {{
          %w = const i8[2,1,1,4] {filter} constant(1)
          %b = const i32[2] {bias} [1, 2]
          %y = Conv2D(%x, %w, %b) {{padding: VALID}} : i8[1,2,2,2] quant(scale: 1.0)
        }}"""
    )
    inputs: list[Array] = [np.ones((1, 2, 2, 4), np.int8)]
    assert_runs("litert", model, inputs, litert)
    assert_runs("litert-xnnpack", model, inputs, xnnpack)


ROWS, BIAS = "f32[2,4]", "quant(scale: [0.125, 0.125], zero_point: [1, 1], axis: 0)"
INTEGER_ROWS, INTEGERS = "i8[2,4] quant(scale: 0.5)", "i8[2,2] quant(scale: 1.0)"


@pytest.mark.parametrize(
    ("data", "lines", "litert", "xnnpack"),
    [
        (ROWS, f"%w = const i8[2,4] {OFFSET} constant(1); FullyConnected(%x, %w) : f32[2,2]", True, False),
        (ROWS, f"%w = const i8[2,4] {OFFSETS} constant(1); FullyConnected(%x, %w) : f32[2,2]", True, False),
        (ROWS, f"%w = const i8[4,2] {OFFSET} constant(1); BatchMatMul(%x, %w) : f32[2,2]", True, False),
        (
            INTEGER_ROWS,
            f"%w = const i8[2,4] {OFFSET} constant(1); FullyConnected(%x, %w) : {INTEGERS}",
            True,
            True,  # XNNPACK leaves it to LiteRT
        ),
        (
            INTEGER_ROWS,
            f"%w = const i8[2,4] {OFFSETS} constant(1); FullyConnected(%x, %w) : {INTEGERS}",
            True,
            False,
        ),
        (
            INTEGER_ROWS,
            f"%w = const i8[2,4] {PER_CHANNEL} constant(1); %b = const i32[2] {BIAS} [1, 2];"
            f"FullyConnected(%x, %w, %b) : {INTEGERS}",
            True,
            False,
        ),
        (
            ROWS,
            f'%w = const i4[2,4] {OFFSET} raw("ERERERE="); FullyConnected(%x, %w) : f32[2,2]',
            False,
            False,
        ),
    ],
)
def test_zero_points_of_weights(data: str, lines: str, litert: bool, xnnpack: bool) -> None:
    *constants, layer = lines.split(";")
    model = circlekit.parse("\n".join([f"graph main(%x: {data}) -> %y {{", *constants, f"%y = {layer}", "}"]))
    inputs: list[Array] = [np.ones((2, 4), np.int8 if data is INTEGER_ROWS else np.float32)]
    assert_runs("litert", model, inputs, litert)
    assert_runs("litert-xnnpack", model, inputs, xnnpack)


@pytest.mark.parametrize("is_constant", [True, False])
@pytest.mark.parametrize("adj_x", ["true", "false"])
def test_xnnpack_computes_wrong_products_of_floats_with_computed_integers(
    is_constant: bool, adj_x: str
) -> None:
    """XNNPACK takes such a BATCH_MATMUL, and packs the weights before the integers are there."""
    integers = np.arange(16, dtype=np.int8).reshape(4, 4)
    form = "i8[4,4] quant(scale: 0.25)"
    inputs = "" if is_constant else f", %w: {form}"
    constant = f"%w = const {form} {integers.tolist()}" if is_constant else ""
    model = circlekit.parse(
        f"""graph main(%x: f32[4,4]{inputs}) -> %y {{
          {constant}
          %y = BatchMatMul(%x, %w) {{adj_x: {adj_x}}}
        }}"""
    )
    assert (find_target("litert-xnnpack").refusal(model.main.ops[0]) is None) == is_constant
    runtime = RUNTIMES["litert-xnnpack"]
    if find_spec("ai_edge_litert") is not None:
        x: Array = np.eye(4, dtype=np.float32)
        arrays = [x] if is_constant else [x, integers]
        (ran,) = run_jobs(runtime, [Job(content_of(model.main, "tflite"), arrays)])
        assert ran.outputs is not None, ran.reason
        assert np.allclose(ran.outputs[0], integers * 0.25, atol=0.1) == is_constant


@pytest.mark.parametrize(
    ("line", "shape", "runs"),
    [
        ("Softmax(%x) {beta: 1.0}", (1, 1, 1, 1, 1, 2), True),
        ("Softmax(%x) {beta: 1.0}", (1, 1, 1, 1, 1, 1, 2), False),
        ("Softmax(%x) {beta: 0.5}", (1, 1, 1, 1, 1, 1, 2), True),  # XNNPACK leaves it to LiteRT
        ("Mean(%x, [1])", (1, 2, 1, 1, 1, 1, 2), False),
        ("Mean(%x, [])", (1, 2, 1, 1, 1, 1, 2), True),
        ("Exp(%x)", (1, 1, 1, 1, 1, 1, 2), True),
    ],
)
def test_xnnpack_fails_on_some_operators_of_high_rank(line: str, shape: tuple[int, ...], runs: bool) -> None:
    dims = ",".join(map(str, shape))
    model = circlekit.parse(f"graph main(%x: f32[{dims}]) -> %y {{ %y = {line} }}")
    assert_runs("litert-xnnpack", model, [np.ones(shape, np.float32)], runs)


CUSTOM = 'details: {"": "CustomQuantization", custom: array(u8, [1, 2])}'
MULTI_AXIS = 'details: {"": "MultiAxisQuantization", scales: %s, zero_points: %z, quantized_dimensions: [0]}'
"""A quantization whose scales are in other tensors; LiteRT reads no other scales of the tensor."""


@pytest.mark.parametrize(
    ("shape", "form", "runs"),
    [
        ("[2,3]", "quant(scale: [0.5, 0.25], axis: 0)", True),
        ("[2,3]", "quant(scale: [0.5, 0.25], axis: 1)", False),
        ("[2,3]", "quant(scale: [0.5, 0.25], axis: 2)", False),
        ("[2,3]", "quant(scale: 0.5, axis: 1)", True),
        ("[2,3]", "quant(scale: [0.5, 0.25], zero_point: 1, axis: 0)", False),
        ("[2,3]", "quant(scale: 0.5, zero_point: [], axis: 0)", False),
        ("[2,3]", "quant(scale: 0.5, zero_point: [1, 1], axis: 0)", False),
        ("[2,3]", "quant(zero_point: 1, axis: 3)", True),
        ("[2,3]", "quant(scale: 0.5, axis: 2)", False),  # as in the biases of old models for microcontrollers
        ("[?,3]", "quant(scale: 0.5, axis: 1)", True),
        ("[?,3]", "quant(scale: [0.5, 0.25], axis: 0)", False),  # an unknown dimension is 1 in the file
        ("[]", "quant(scale: 0.5, axis: 3)", True),
        ("[]", "quant(scale: 0.5, axis: -1)", False),
        ("[2,3]", f"quant(scale: [0.5, 0.25], axis: 0, {CUSTOM})", True),
        ("[2,3]", f"quant(scale: [0.5, 0.25], axis: 1, {CUSTOM})", False),
        ("[2,3]", f"quant(scale: 0.5, axis: 5, {CUSTOM})", False),
        ("[2,3]", f"quant(axis: 5, {CUSTOM})", True),
        ("[2,3]", f"quant(scale: 0.5, axis: 5, {MULTI_AXIS})", True),
    ],
)
@pytest.mark.parametrize("target", ["litert", "litert-xnnpack"])
def test_litert_loads_no_tensor_whose_scales_do_not_fit(
    shape: str, form: str, runs: bool, target: str
) -> None:
    model = circlekit.parse(
        f"""graph main(%x: i8{shape} {form}) -> %y {{
          %y = Shape(%x) {{out_type: i32}}
          %s = const f32[2] [0.5, 0.25]
          %z = const i32[2] [0, 0]
        }}"""
    )
    rank = 0 if shape == "[]" else 2
    if find_spec("ai_edge_litert") is not None:
        job = Job(content_of(model.main, "tflite"), [np.ones((2, 3)[:rank], np.int8)])
        (ran,) = run_jobs(RUNTIMES["litert"], [job])
        assert (ran.outputs is not None) == runs, ran.reason
    refusal = find_target(target).refusal(model.main.ops[0]) or ""
    assert ("only with scales that fit its shape and zero points" in refusal) == (not runs)


@pytest.mark.parametrize(("code", "runs"), [("TFLite_Detection_PostProcess", True), ("XC_pad", False)])
def test_custom_operators_of_litert(code: str, runs: bool) -> None:
    """It has a few, of which a wrong use ends the process."""
    op = OpaqueOp(Value("x", f32, (2,)), code="CUSTOM", custom_code=code, results=[Value("y", f32, (2,))])
    if find_spec("ai_edge_litert") is not None:
        content = to_bytes(Model([graph_of(op)]), "tflite")
        (ran,) = run_jobs(RUNTIMES["litert"], [Job(content, [np.ones(2, np.float32)])])
        assert ("unresolved custom op" not in ran.reason) == runs, ran.reason
    assert all((find_target(name).refusal(op) is None) == runs for name in ("litert", "litert-xnnpack"))


@pytest.mark.parametrize(("act", "runs"), [("RELU", True), ("NONE", False), ("RELU6", False)])
def test_litert_runs_an_integer_svdf_with_relu_only(act: str, runs: bool) -> None:
    model = circlekit.parse(
        f"""graph main(%x: i8[1,3] quant(scale: 0.1)) -> %y {{
          %feature = const i8[2,3] quant(scale: 0.01) constant(2)
          %time = const i16[2,4] quant(scale: 0.001) constant(100)
          %memory: i16[1,8] quant(scale: 0.001) variable
          %y = Svdf(%x, %feature, %time, none, %memory) {{rank: 1, act: {act}}} : i8[1,2] quant(scale: 0.1)
        }}"""
    )
    assert_runs("litert", model, [np.ones((1, 3), np.int8)], runs)


@pytest.mark.parametrize(
    ("data", "line", "runs"),
    [
        ("i16[1,4] quant(scale: 0.001)", f"Softmax(%x) : i16[1,4] quant(scale: {1 / 32767})", True),
        ("i16[1,4] quant(scale: 0.001)", f"Softmax(%x) : i16[1,4] quant(scale: {1 / 32000})", False),
        ("i8[1,4] quant(scale: 0.1)", "Softmax(%x) : i8[1,4] quant(scale: 0.003908, zero_point: -128)", True),
        ("i8[1,4] quant(scale: 0.1)", "Softmax(%x) : i8[1,4] quant(scale: 0.0039, zero_point: -128)", False),
        (
            "i8[1,4] quant(scale: 0.1)",
            f"Softmax(%x) : i16[1,4] quant(scale: {1 / 65535}, zero_point: -32768)",
            True,
        ),
        ("i16[1,4] quant(scale: 0.001)", f"Tanh(%x) : i16[1,4] quant(scale: {1 / 32767})", True),
        ("i16[1,4] quant(scale: 0.001)", f"Tanh(%x) : i16[1,4] quant(scale: {1 / 32700})", False),
        ("i16[1,4] quant(scale: 0.001)", f"Logistic(%x) : i16[1,4] quant(scale: {1 / 32767})", False),
        ("i16[1,4] quant(scale: 0.01)", "Quantize(%x) : i32[1,4] quant(scale: 0.001)", True),
        ("i16[1,4] quant(scale: 0.01)", "Quantize(%x) : i32[1,4]", False),
        ("i32[1,4] quant(scale: 0.01)", "Quantize(%x) : i16[1,4] quant(scale: 0.01)", True),
        ("i32[1,4] quant(scale: 0.01)", "Quantize(%x) : u8[1,4] quant(scale: 0.01)", False),
    ],
)
def test_litert_takes_some_scales_of_integers(data: str, line: str, runs: bool) -> None:
    model = circlekit.parse(f"graph main(%x: {data}) -> %y {{ %y = {line} }}")
    array = np.ones((1, 4), model.main.inputs[0].dtype.numpy)
    assert_runs("litert", model, [array], runs)


@pytest.mark.parametrize("code", ["LSTM", "UNIDIRECTIONAL_SEQUENCE_LSTM", "BIDIRECTIONAL_SEQUENCE_LSTM"])
@pytest.mark.parametrize("act", [Activation.NONE, Activation.RELU, Activation.TANH])
def test_litert_computes_a_float_lstm_only_with_an_activation(code: str, act: Activation) -> None:
    """Without one, its kernel leaves out a step, and reads memory that it has not set."""
    merged = {"merge_outputs": True} if code.startswith("BIDIRECTIONAL") else {}
    sample = RecurrentMaker(code, f32, f32, ["aux_", "projection_"], SEED).sample(merged)
    runtime = RUNTIMES["litert"]
    sample.op.act = act  # type: ignore[attr-defined]
    is_right = act is not Activation.NONE
    if find_spec(runtime.package.replace("-", "_")) is not None:
        (ran,) = run_jobs(runtime, [Job(content_of(sample.graph, "tflite"), sample.inputs)])
        assert (probe.judged(runtime, sample, ran) == "") == is_right
    assert (find_target("litert").refusal(sample.op) is None) == is_right
    assert (undefined(Model([sample.graph])) is None) == is_right


@pytest.mark.parametrize(
    ("condition", "data", "runs"),
    [((2,), (2, 3), True), ((1,), (), True), ((), (2,), True), ((2,), (), False), ((2,), (1,), False)],
)
def test_litert_selects_rows_by_a_vector(
    condition: tuple[int, ...], data: tuple[int, ...], runs: bool
) -> None:
    x, y = Value("x", f32, data), Value("y", f32, data)
    op = Select(Value("condition", boolean, condition), x, y)
    inputs: list[Array] = [np.ones(condition, bool), np.ones(data, np.float32), np.zeros(data, np.float32)]
    assert_runs("litert", Model([graph_of(op)]), inputs, runs)


@pytest.mark.parametrize(
    ("line", "shape", "runs"),
    [
        ("Softmax(%x)", (2, 0), False),
        ("LogSoftmax(%x)", (2, 0), False),
        ("Relu(%x)", (2, 0), True),
        ("ReverseV2(%x, [0])", (2, 0), False),
        ("Dilate(%x, [2, 2], 0.0)", (2, 0), False),
        ("Unpack(%x) {num: 1, axis: 0}", (1, 0), False),
        ("TransposeConv([1,2,2,1], [[[[1.0]]]], %x) {padding: VALID}", (1, 2, 0, 1), False),
        ("TransposeConv([0,2,2,1], [[[[1.0]]]], %x) {padding: VALID}", (0, 2, 2, 1), True),
    ],
)
def test_litert_needs_elements_in_some_operands(line: str, shape: tuple[int, ...], runs: bool) -> None:
    dims = ",".join(map(str, shape))
    model = circlekit.parse(f"graph main(%x: f32[{dims}]) -> %y {{ %y = {line} }}")
    assert_runs("litert", model, [np.ones(shape, np.float32)], runs)


@pytest.mark.parametrize(
    ("line", "shape", "runs"),
    [
        ("Reshape(%x, [2,1])", "[2]", True),
        ("Equal(%x, %x)", "[2]", True),
        ("Tile(%x, [2])", "[2]", True),
        ("Gather(%x, [[1],[0]])", "[2]", True),
        ("Gather(%x, [1]) {axis: 1}", "[1,2]", False),
        ("GatherNd(%x, [[0,1]])", "[1,2]", True),
        ("Pack(%x, %x) {values_count: 2}", "[2]", False),
        ("SelectV2([true], %x, %x)", "[2]", False),
    ],
)
def test_litert_runs_some_operators_on_strings(line: str, shape: str, runs: bool) -> None:
    model = circlekit.parse(f"graph main(%x: str{shape}) -> %y {{ %y = {line} }}")
    assert_runs(
        "litert", model, [np.array([b"a", b"\xff b"], object).reshape(model.main.inputs[0].shape)], runs
    )


@pytest.mark.parametrize(("rank", "runs"), [(2, True), (5, True), (6, False)])
def test_litert_gives_sums_of_int8_products(rank: int, runs: bool) -> None:
    dims = ",".join(["2"] * rank)
    text = f"graph main(%x: i8[{dims}]) -> %y {{ %y = BatchMatMul(%x, %x) : i32[{dims}] }}"
    assert_runs("litert", circlekit.parse(text), [np.full((2,) * rank, 100, np.int8)], runs)


def test_the_number_of_blocks_for_each_rank_is_learned() -> None:
    observed = [Observation(to_space(3, 1), True), Observation(to_space(4, 2), True)]
    observed += [
        Observation(to_space(rank, blocks), False) for rank, blocks in ((3, 2), (4, 1), (4, 3), (5, 2))
    ]
    three = {"ranks": {"input": [3]}, "dims": [["block_shape", 0, 1]]}
    four = {"ranks": {"input": [4]}, "dims": [["block_shape", 0, 2]]}
    assert learn(observed) == {"any_of": [[three, four]]}


def test_without_failures_nothing_is_learned_about_attributes() -> None:
    x = Value("x", f32, (2,))
    assert learn([Observation(Add(x, x), True)]) == {}


def test_a_runtime_that_runs_no_form_of_a_recurrent_operator(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probe, "run_jobs", lambda runtime, jobs: [Ran(None, "no kernel") for _ in jobs])
    measured = probe.measure("RNN", "litert", SEED)
    assert measured is not None
    assert (measured.version, measured.forms) == (None, {})
    assert set(measured.reasons.values()) == {"no kernel"}


def test_ranks_that_were_not_tried_are_allowed() -> None:
    """Ranks 2 and 3 pass.  If 6 fails, 5 is the largest that may pass; if 0 fails, 1 to 8 may pass."""
    passed = [Observation(ceil(rank), True) for rank in (2, 3)]
    assert learn([*passed, Observation(ceil(6), False)]) == {"rank": 5}
    ranks = learn([*passed, Observation(ceil(0), False)])["ranks"]
    assert ranks in ({"input": list(range(1, 9))}, {"output": list(range(1, 9))})
    assert learn(passed) == {}
