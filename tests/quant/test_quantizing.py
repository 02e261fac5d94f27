# SPDX-License-Identifier: Apache-2.0
"""Quantize small models: the results are near those of the float model, and equal those of LiteRT."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import circlekit
from circlekit.quant import calibration
from circlekit.quant.calibration.ranges import ESTIMATORS
from circlekit.targets.delegation import find_delegation
from circlekit.targets.target import find_target
from circlekit.testing import is_available, run_litert, tflite_of

NET = """
graph main(%x: f32[1,4,4,3]) -> %y {
  %w = const f32[8,3,3,3] gaussian(0, 0.3)
  %b = const f32[8] gaussian(0, 0.1)
  %c = Conv2D(%x, %w, %b) {act: RELU6} : f32[1,4,4,8]
  %p = AveragePool2D(%c) {stride_w: 2, stride_h: 2, filter_width: 2, filter_height: 2} : f32[1,2,2,8]
  %s = Logistic(%p) : f32[1,2,2,8]
  %y = Concatenation(%p, %s) {axis: 3} : f32[1,2,2,16]
}
"""


def samples(count: int = 4) -> list[list[np.ndarray]]:
    random = np.random.default_rng(7)
    return [[random.uniform(-1, 1, (1, 4, 4, 3)).astype(np.float32)] for _ in range(count)]


def sqnr(reference: np.ndarray, result: np.ndarray) -> float:
    """Return the ratio of signal to quantization noise in dB."""
    return float(10 * np.log10(np.square(reference).sum() / np.square(reference - result).sum()))


@pytest.mark.parametrize(("scheme", "least"), [("int8", 30), ("int8_per_tensor", 30), ("int16x8", 40)])
def test_all_operators_become_integers(scheme: str, least: float) -> None:
    model = circlekit.parse(NET)
    expected = circlekit.run(model, samples()[0])[0]
    report = circlekit.quantize(model, scheme, samples(), auto=False)
    assert not report.floats
    assert report.after.ops.get("DEQUANTIZE") == 1
    assert [v.dtype.short for v in (*model.main.inputs, *model.main.outputs)] == ["f32", "f32"]
    assert sqnr(expected, circlekit.run(model, samples()[0])[0]) > least


@pytest.mark.parametrize(
    ("scheme", "least"), [("dynamic_int8", 35), ("weight_int8", 40), ("weight_int4", 15), ("float16", 60)]
)
def test_schemes_with_float_activations_need_no_samples(scheme: str, least: float) -> None:
    model = circlekit.parse(NET)
    expected = circlekit.run(model, samples()[0])[0]
    report = circlekit.quantize(model, scheme)
    assert list(report.schemes) == [scheme]
    assert (report.after.file_size or 0) < (report.before.file_size or 0)
    assert sqnr(expected, circlekit.run(model, samples()[0])[0]) > least


@pytest.mark.parametrize(
    ("channels", "units", "layers"),
    [(113, 900, 1), (114, 900, 2), (113, 890, 2)],  # TensorFlow's limit is 1024 weights, ours also 1 % of all
)
def test_layers_with_few_weights_do_not_get_dynamic_ranges(channels: int, units: int, layers: int) -> None:
    text = f"""
    graph main(%x: f32[1,1,1,{channels}]) -> %y {{
      %w = const f32[1,3,3,{channels}] gaussian(0, 0.3)
      %v = const f32[{units},{channels}] gaussian(0, 0.3)
      %c = DepthwiseConv2D(%x, %w)
      %y = FullyConnected(%c, %v)
    }}
    """
    report = circlekit.quantize(circlekit.parse(text), "dynamic_int8")
    assert report.schemes["dynamic_int8"] == layers
    expected = ["it has only 1017 weights, so dynamic ranges would save few bytes"]
    assert [op.reason for op in report.floats] == expected[layers - 1 :]
    asked = circlekit.quantize(circlekit.parse(text), "dynamic_int8", only=["re:"])
    assert asked.schemes == {"dynamic_int8": 2}


@pytest.mark.parametrize("scheme", ["int8", "int16x8", "uint8"])
def test_prelu_leaky_relu_and_neg_become_integers_that_litert_computes(scheme: str) -> None:
    text = """
    graph main(%x: f32[1,4,4,3]) -> %y {
      %a = const f32[1,1,3] uniform(0, 1)
      %p = PRelu(%x, %a)
      %l = LeakyRelu(%p) {alpha: 0.25}
      %n = Neg(%l)
      %y = Reshape(%n) {new_shape: [1,48]}
    }
    """
    model = circlekit.parse(text)
    expected = circlekit.run(model, samples()[0])[0]
    report = circlekit.quantize(model, scheme, samples(), auto=False)
    assert not report.floats
    result = circlekit.run(model, samples()[0])[0]
    assert sqnr(expected, result) > 35
    if is_available():
        np.testing.assert_array_equal(run_litert(tflite_of(model), samples()[0])[0], result)


@pytest.mark.parametrize("scheme", ["int8", "int16x8"])
def test_powers_become_integers_that_litert_computes(scheme: str) -> None:
    """The powers are those of a global response normalization, of GELU, and of normalizations by PyTorch."""
    text = """
    graph main(%x: f32[1,4,4,3]) -> %y, %c, %r {
      %s = Pow(%x, 2.0)
      %t = Sum(%s, [1, 2]) {keep_dims: true}
      %n = Pow(%t, 0.5)
      %y = Mul(%x, %n)
      %c = Pow(%x, 3.0)
      %e = Add(%t, 1.0)
      %r = Pow(%e, -0.5)
    }
    """
    model = circlekit.parse(text)
    expected = circlekit.run(model, samples()[0])
    report = circlekit.quantize(model, scheme, samples(), auto=False)
    assert not report.floats
    results = circlekit.run(model, samples()[0])
    assert min(map(sqnr, expected, results)) > 30
    if is_available():
        for found, result in zip(run_litert(tflite_of(model), samples()[0]), results, strict=True):
            np.testing.assert_array_equal(found, result)


def test_a_call_stays_float_beside_tensors_of_one_name_and_float16_weights() -> None:
    text = """
    graph main(%x: f32[1,4,4,3], %flag: bool[]) -> %y {
      %w = const f16[8,3,3,3] gaussian(0, 0.3)
      %d = Dequantize(%w)
      %b = const f32[8] gaussian(0, 0.1)
      %c = Conv2D(%x, %d, %b) : f32[1,4,4,8]
      %i = If(%flag, %c) {then_graph: @then, else_graph: @else} : f32[1,4,4,8]
      %y = Relu(%i)
    }

    graph then(%a: f32[1,4,4,8]) -> %r {
      %r = Logistic(%a)
    }

    graph else(%a: f32[1,4,4,8]) -> %r {
      %r = Relu6(%a)
    }
    """
    model = circlekit.parse(text)
    model.main.ops[1].results[0].name = "b"  # the bias has this name, too
    given = [[*sample, np.array(index % 2 == 0)] for index, sample in enumerate(samples())]
    expected = circlekit.run(model, given[0])[0]
    report = circlekit.quantize(model, "int8", given, auto=False)
    assert [op.code for op in report.floats] == ["IF"]
    assert sqnr(expected, circlekit.run(model, given[0])[0]) > 30
    assert all(v.dtype.short == "f32" for graph in model.graphs for v in graph.outputs)


def test_tables_are_stored_as_integers() -> None:
    text = """
    graph main(%i: i32[3]) -> %y {
      %t = const f32[40,16] gaussian(0, 1)
      %y = EmbeddingLookup(%i, %t)
    }
    """
    for scheme in ("int8", "dynamic_int8", "weight_int8"):
        model = circlekit.parse(text)
        given = [[np.array([0, 7, 39], np.int32)]]
        expected = circlekit.run(model, given[0])[0]
        assert not circlekit.quantize(model, scheme, given, auto=False).floats
        assert [v.dtype.short for v in model.main.values() if v.is_const] == ["i8"]
        assert sqnr(expected, circlekit.run(model, given[0])[0]) > 35


@pytest.mark.parametrize(("scheme", "dtype"), [("int8", "i8"), ("int16x8", "i16"), ("uint8", "f32")])
def test_a_table_with_keys_is_quantized_around_zero(scheme: str, dtype: str) -> None:
    """For a key that is missing, the kernel writes zeros.

    As uint8, these zeros would stand for another number, so the table stays float.
    """
    model = circlekit.parse("""
    graph main(%i: i32[3]) -> %y, %h {
      %k = const i32[5] [1, 3, 5, 7, 9]
      %t = const f32[5,64] gaussian(1, 1)
      %y, %h = HashtableLookup(%i, %k, %t)
    }
    """)
    given = [np.array([9, 4, 1], np.int32)]
    expected = circlekit.run(model, given)
    circlekit.quantize(model, scheme, [given], auto=False)
    assert model.main.ops[0].inputs[2] is not None
    assert model.main.ops[0].inputs[2].dtype.short == dtype
    got = circlekit.run(model, given)
    np.testing.assert_allclose(got[0], expected[0], atol=0.02)
    assert not got[0][1].any()
    if is_available():
        theirs = run_litert(tflite_of(model), given)
        assert all(map(np.array_equal, got, theirs))


def test_what_only_the_float_delegate_takes_stays_float() -> None:
    """XNNPACK has AVERAGE_POOL_2D for floats only; if the pool stays float, the model is one partition."""
    parts = {}
    for target in ("litert", "litert-xnnpack"):
        model = circlekit.parse(NET)
        report = circlekit.quantize(model, "int8", samples(), auto=False, target=target)
        delegation = find_delegation(model.main, find_target("litert-xnnpack"))
        assert delegation is not None
        floats = [(op.name, op.reason.partition(" for ")[0]) for op in report.floats]
        parts[target] = floats, delegation.partitions, dict(delegation.refused)
    assert parts["litert"] == ([], 2, {"AVERAGE_POOL_2D": 1})
    reason = "the delegate of LiteRT with XNNPACK has no AVERAGE_POOL_2D"
    assert parts["litert-xnnpack"] == ([("p", reason)], 1, {})


def test_a_delegate_that_takes_no_integers_of_the_scheme_changes_nothing() -> None:
    report = circlekit.quantize(
        circlekit.parse(NET), "int16x8", samples(), auto=False, target="litert-xnnpack"
    )
    assert not report.floats


@pytest.mark.parametrize(("batch", "scheme"), [(1, "dynamic_int8"), (2, "weight_int8")])
def test_rows_are_quantized_at_run_time_only_where_litert_finds_their_scales(batch: int, scheme: str) -> None:
    """LiteRT looks up the scales of a matrix by the sum of its batch indices: equal for [0,1] and [1,0]."""
    model = circlekit.parse(f"""
    graph main(%x: f32[{batch},3,8,16]) -> %y {{
      %w = const f32[{batch},3,16,32] gaussian(0, 0.3)
      %y = BatchMatMul(%x, %w)
    }}
    """)
    given = [np.random.default_rng(3).normal(size=(batch, 3, 8, 16)).astype(np.float32)]
    expected = circlekit.run(model, given)[0]
    assert circlekit.quantize(model, "dynamic_int8").schemes == {scheme: 1}
    assert sqnr(expected, circlekit.run(model, given)[0]) > 35
    if is_available():
        assert sqnr(expected, run_litert(tflite_of(model), given)[0]) > 35


@pytest.mark.parametrize("estimator", ESTIMATORS)
@pytest.mark.parametrize("options", [{"auto": False}, {"seconds": 1.0}, {"budget": "20%", "auto": False}])
def test_every_estimator_quantizes(estimator: str, options: dict[str, Any]) -> None:
    model = circlekit.parse(NET)
    expected = circlekit.run(model, samples()[0])[0]
    circlekit.quantize(model, "int8", samples(), estimator=estimator, **options)
    assert sqnr(expected, circlekit.run(model, samples()[0])[0]) > 15


@pytest.mark.parametrize("estimator", ["mse", "octav"])
@pytest.mark.parametrize("options", [{"auto": False}, {"seconds": 1.0}])
def test_ranges_for_16_bits_hardly_clip(estimator: str, options: dict[str, Any]) -> None:
    """The tails of the samples are heavy: ranges for 8 bits would lower 69 dB to 32 (mse) or 26 (octav)."""
    text = "graph main(%x: f32[1,4096]) -> %y { %y = Neg(%x) }"
    given = [np.random.default_rng(n).standard_t(2, (1, 4096)).astype(np.float32) for n in range(4)]
    noise = []
    for name in ("min_max", estimator):
        model = circlekit.parse(text)
        circlekit.quantize(model, "int16x8", [[array] for array in given], estimator=name, **options)
        noise.append(sqnr(-given[0], circlekit.run(model, [given[0]])[0]))
    assert noise[1] > noise[0] - 1


@pytest.mark.parametrize(
    ("scheme", "operators", "is_calibrated"),
    [
        ("float16", {}, False),
        ("float16", {"LOGISTIC": "float"}, False),
        ("float16", {"CONV_2D": "int8"}, True),
    ],
)
def test_samples_are_run_only_if_a_scheme_reads_ranges(
    monkeypatch: pytest.MonkeyPatch, scheme: str, operators: dict[str, str], is_calibrated: bool
) -> None:
    runs: list[object] = []

    def collect(*args: Any, **options: Any) -> Any:
        runs.append(args)
        return calibration.collect(*args, **options)

    monkeypatch.setattr("circlekit.api.quantization_choice.collect", collect)
    circlekit.quantize(circlekit.parse(NET), scheme, samples=samples(), operators=operators)
    assert bool(runs) == is_calibrated


@pytest.mark.parametrize("join", ["Concatenation(%a, %b, %c, %e)", "Pack(%a, %b, %c) {values_count: 3}"])
@pytest.mark.parametrize("observed", ["a b", "b z", "a z"])
def test_missing_ranges_at_a_join_follow_from_known_ranges(join: str, observed: str) -> None:
    """A joined tensor without a range covers all operands.

    An operand without a range gets that of the joined tensor.  %e is empty.
    """
    text = f"""graph main(%a: f32[2], %b: f32[2]) -> %z {{
      %c = const f32[2] [-20.0, 0.0]
      %e = const f32[0] []
      %z = {join}
    }}"""
    model = circlekit.parse(text)
    given = [np.array(x, np.float32) for x in ([0, 1], [0, 100])]
    full = circlekit.calibrate(model, [given])
    known = calibration.Calibration([{name: full[name] for name in observed.split()}])
    (expected,) = circlekit.run(model, given)
    circlekit.quantize(model, calibration=known)
    assert {op.code for op in model.main} >= {"QUANTIZE", "DEQUANTIZE"}
    # half a step of the range -20 to 100
    np.testing.assert_allclose(circlekit.run(model, given)[0], expected, atol=120 / 255 / 2 + 1e-3)


@pytest.mark.parametrize("user", ["output", "float operator"])
def test_a_quantized_copy_has_another_name_than_a_constant_that_stays(user: str) -> None:
    line, outputs = ("", "%y, %w") if user == "output" else ("%z = Exp(%w)", "%y, %z")
    text = f"graph main(%x: f32[2]) -> {outputs} {{ %w = const f32[2] [1.0, 2.0] %y = Add(%x, %w) {line} }}"
    model = circlekit.parse(text)
    floats = {"z": "float"} if line else {}
    circlekit.quantize(model, "int8", [[np.ones(2, np.float32)]], operators=floats, passes=(), auto=False)
    constants = {(value.name, value.dtype.short) for value in model.main.values() if value.is_const}
    assert constants == {("w", "f32"), ("w_i8", "i8")}


def test_operators_whose_operands_the_target_cannot_convert_stay_float() -> None:
    """LiteRT has no QUANTIZE from int16 to uint8."""
    model = circlekit.parse("""
    graph main(%x: f32[1,8]) -> %y {
      %t = Tanh(%x)
      %y = Add(%t, %t)
    }
    """)
    data = [np.linspace(-2, 2, 8, dtype=np.float32)[None]]
    expected = circlekit.run(model, data)[0]
    report = circlekit.quantize(model, "uint8", [data], operators={"TANH": "int16x8"}, auto=False)
    assert [op.reason.partition(";")[0] for op in report.floats] == ["LiteRT has no QUANTIZE for i16q:u8q"]
    result = run_litert(tflite_of(model), data)[0] if is_available() else circlekit.run(model, data)[0]
    np.testing.assert_allclose(result, expected, atol=0.001)
