# SPDX-License-Identifier: Apache-2.0
"""Unusual models and samples are quantized right, stay float with a reason, or end with an error."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pytest

import circlekit
from circlekit.cli.front_door import main
from circlekit.errors import ModelError, ShapeError, UnsupportedError
from circlekit.ir.value import Array
from circlekit.quant.calibration import TensorStatistics
from circlekit.quant.quantization_report import QuantizationReport
from circlekit.testing import is_available, run_litert, tflite_of

LAYER = """
graph main(%x: f32[1,8]) -> %y {
  %w = const f32[4,8] gaussian(0, 0.3)
  %b = const f32[4] gaussian(0, 0.1)
  %y = FullyConnected(%x, %w, %b)
}
"""
SCHEMES = ["int8", "int16x8", "uint8"]
Model = circlekit.Model
Samples = list[list[np.ndarray]]


def samples(scale: float = 1.0, count: int = 3) -> Samples:
    random = np.random.default_rng(3)
    return [[random.normal(0, scale, (1, 8)).astype(np.float32)] for _ in range(count)]


def changed(index: int, change: Callable[[np.ndarray], None]) -> Model:
    """Return LAYER after ``change`` of its operand ``index``: 1 is the weights, 2 the bias."""
    model = circlekit.parse(LAYER)
    value = model.main.ops[0].inputs[index]
    assert value is not None
    array = value.array().copy()
    change(array)
    value.data = array
    return model


def check(model: Model, scheme: str, given: Samples, tolerance: float) -> QuantizationReport:
    """Quantize ``model``; compare its results with those before (``tolerance``), and with LiteRT (exactly).

    ``tolerance``: the largest error, as a part of the largest magnitude of the float result.
    """
    expected = circlekit.run(model, given[0])
    report = circlekit.quantize(model, scheme, given, auto=False)
    results = circlekit.run(model, given[0])
    for before, after in zip(expected, results, strict=True):
        largest = np.abs(before).max() if before.size else 0
        np.testing.assert_allclose(after, before, atol=largest * tolerance, rtol=0)
    if is_available():
        for ours, theirs in zip(results, run_litert(tflite_of(model), given[0]), strict=True):
            np.testing.assert_array_equal(ours, theirs)
    return report


def _set_first(number: float, array: Array) -> None:
    array.reshape(-1)[0] = number


def _shrink(array: Array) -> None:
    array *= 1e-12


@pytest.mark.parametrize("scheme", SCHEMES)
def test_a_layer_with_nan_or_infinite_constants_stays_float(scheme: str) -> None:
    for index, number in ((1, np.nan), (1, -np.inf), (2, np.inf), (2, np.nan)):
        model = changed(index, partial(_set_first, number))
        report = circlekit.quantize(model, scheme, samples(), auto=False)
        assert [op.code for op in report.floats] == ["FULLY_CONNECTED"]
        assert "NaN or infinite" in report.floats[0].reason


@pytest.mark.parametrize("scheme", SCHEMES)
def test_weights_of_zero_are_quantized(scheme: str) -> None:
    assert not check(changed(1, lambda a: a[0].fill(0)), scheme, samples(), 0.02).floats
    assert not check(changed(1, lambda a: a.fill(0)), scheme, samples(), 0.01).floats


@pytest.mark.parametrize("scheme", SCHEMES)
def test_biases_that_overflow_int32_raise_the_scale_of_their_weights(scheme: str) -> None:
    model = changed(1, _shrink)
    value = model.main.ops[0].inputs[2]
    assert value is not None
    value.data = np.array([1e6, -1e6, 1e3, 0], np.float32)
    report = check(model, scheme, samples(), 0.01)
    assert not report.floats
    reasons = [form.reason for op in report.plan.main.operators.values() for form in op.operands.values()]
    assert any("so that the bias fits" in reason for reason in reasons)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_numbers_that_are_too_small_for_a_scale_stay_float(scheme: str) -> None:
    report = check(
        circlekit.parse("graph main(%x: f32[1,8]) -> %y { %y = Relu(%x) }"), scheme, samples(1e-37), 0
    )
    assert "too small for a scale" in report.floats[0].reason


@pytest.mark.parametrize("scheme", SCHEMES)
def test_results_that_are_zero_or_nearly_zero_are_quantized(scheme: str) -> None:
    text = """
    graph main(%x: f32[1,8]) -> %y {
      %a = Mul(%x, 0.0)
      %s = Mul(%x, 1.0000001)
      %c = Sub(%s, %x)
      %y = Concatenation(%a, %c, %x) {axis: 1}
    }
    """
    assert not check(circlekit.parse(text), scheme, samples(), 0.02).floats


def test_integers_and_bools_are_left_alone() -> None:
    text = """
    graph main(%x: f32[1,8]) -> %i, %g, %z {
      %i = ArgMax(%x, [1]) {output_type: i64}
      %g = Greater(%x, 0.5)
      %s = SelectV2(%g, %x, -inf)
      %z = Softmax(%s)
    }
    """
    report = check(circlekit.parse(text), "int8", samples(), 0.02)
    assert not report.floats


@pytest.mark.parametrize("scheme", SCHEMES)
def test_opaque_operators_read_and_produce_floats(scheme: str) -> None:
    text = """
    graph main(%x: f32[1,8]) -> %y {
      %a = Relu(%x)
      %b = Opaque(%a) {code: "CUSTOM", custom_code: "Mystery"} : f32[1,8]
      %y = Relu6(%b)
    }
    """
    model = circlekit.parse(text)
    ranges = {"x": (-1.0, 1.0), "a": (0.0, 1.0), "b": (-1.0, 7.0), "y": (0.0, 6.0)}
    calibration = circlekit.Calibration([{name: statistics(*ends) for name, ends in ranges.items()}])
    report = circlekit.quantize(model, scheme, calibration=calibration)
    assert [op.name for op in report.floats] == ["b"]
    assert [op.code for op in model.main] == [
        "QUANTIZE", "RELU", "DEQUANTIZE", "CUSTOM", "QUANTIZE", "RELU6", "DEQUANTIZE"
    ]  # fmt: skip


def statistics(low: float, high: float) -> TensorStatistics:
    seen = TensorStatistics()
    seen.min, seen.max = low, high
    return seen


def test_one_sample_is_enough_and_none_is_an_error() -> None:
    assert not check(circlekit.parse(LAYER), "int8", samples(count=1), 0.02).floats
    with pytest.raises(ModelError, match="at least one sample"):
        circlekit.quantize(circlekit.parse(LAYER), "int8", [])
    with pytest.raises(ModelError, match="needs the ranges"):
        circlekit.quantize(circlekit.parse(LAYER), "int8")


def test_samples_that_do_not_fit_are_errors() -> None:
    with pytest.raises(ModelError, match="NaN"):
        circlekit.quantize(circlekit.parse(LAYER), "int8", [[np.full((1, 8), np.nan, np.float32)]])
    with pytest.raises(ShapeError):
        circlekit.quantize(circlekit.parse(LAYER), "int8", [[np.zeros((1, 9), np.float32)]])


def test_unknown_names_are_refused() -> None:
    with pytest.raises(UnsupportedError, match="did you mean int8"):
        circlekit.quantize(circlekit.parse(LAYER), "int9", samples())
    with pytest.raises(ModelError, match="'Convolution' selects no operator"):
        circlekit.quantize(circlekit.parse(LAYER), "int8", samples(), operators={"Convolution": "float"})
    for kind in ("CONV_2D", "Conv2D"):  # an operator that the model lacks is no error
        circlekit.quantize(circlekit.parse(LAYER), "int8", samples(), operators={kind: "float"}, auto=False)


def test_a_text_is_one_pattern_or_one_technique() -> None:
    model = circlekit.parse(LAYER)
    report = circlekit.quantize(model, "int8", samples(), only="y", without="ranges", auto=False)
    assert report.schemes == {"int8": 1}


def test_comparisons_on_which_litert_ends_the_program_stay_float() -> None:
    text = "graph main(%x: f32[1,8]) -> %g { %g = Greater(%x, 100.0) }"
    report = check(circlekit.parse(text), "int8", samples(scale=1000.0), 0)
    assert "fails on scales of 1 and more" in report.floats[0].reason
    text = "graph main(%x: f32[1,8]) -> %g { %z = Sub(%x, %x)\n%g = Less(%z, %z) }"
    assert not check(circlekit.parse(text), "int8", samples(), 0).floats


@pytest.mark.parametrize(
    ("scheme", "function", "low", "high", "fault"),
    [  # numbers must be 4 steps away from 0: 4 / 255 = 0.016 in int8, 4 / 32767 = 0.00012 in int16
        ("int8", "Div", 1, 2, ""),
        ("int8", "Div", -2, -1, ""),
        ("int8", "Div", -1, 1, "DIV fails on 0"),
        ("int8", "Div", 0.01, 1, "DIV fails on 0"),
        ("int16x8", "Div", 0.01, 1, ""),
        ("int16x8", "Div", 0.0001, 1, "DIV fails on 0"),
        ("int8", "Sqrt", 0.1, 2, ""),
        ("int16x8", "Rsqrt", 0.01, 1, ""),
        ("int16x8", "Rsqrt", 0.0001, 1, "fails on negative numbers"),
    ],
)
def test_operators_that_fail_on_some_integers_stay_float_if_these_may_occur(
    scheme: str, function: str, low: float, high: float, fault: str
) -> None:
    operands = "1.0, %x" if function == "Div" else "%x"
    model = circlekit.parse(f"graph main(%x: f32[1,8]) -> %y {{ %y = {function}({operands}) }}")
    report = check(model, scheme, [[np.linspace(low, high, 8, dtype=np.float32)[None]]], 0.05)
    assert [fault in layer.reason for layer in report.floats] == ([True] if fault else [])


@pytest.mark.parametrize(("least", "is_float"), [(0.2, True), (1.0, False)])
def test_quotients_far_below_the_scale_of_the_result_stay_float(least: float, is_float: bool) -> None:
    """LiteRT's kernel would shift by more than 31 bits: for the least dividend and the largest divisor."""
    model = circlekit.parse("graph main(%x: f32[1,8], %d: f32[1,8]) -> %y { %y = Div(%x, %d) }")
    dividends = [-2.0, -0.01, -0.02, -0.3, 0.01, 0.02, 0.7, 2.0]
    divisors = [least, 2.0, 1.9, 1.5, 2.0, 1.8, 1.0, least]
    report = check(model, "int8", [[np.array([x], np.float32) for x in (dividends, divisors)]], 0.05)
    assert bool(report.floats) == is_float


@pytest.mark.parametrize(("value", "covered"), [(5.0, 5.0), (-3.4e38, -2.0), (0.5, 0.5)])
def test_padding_outside_of_the_range_of_the_data_is_covered(value: float, covered: float) -> None:
    """Padding far below or above all numbers becomes the least or the largest integer."""
    model = circlekit.parse(
        f"graph main(%x: f32[1,8]) -> %y {{ %y = PadV2(%x, [[0, 0], [1, 0]], [{value}]) }}"
    )
    circlekit.quantize(model, "int8", [[np.linspace(-2, 2, 8, dtype=np.float32)[None]]], auto=False)
    result = circlekit.run(model, [np.linspace(-2, 2, 8, dtype=np.float32)[None]])[0][0]
    np.testing.assert_allclose(result, [covered, *np.linspace(-2, 2, 8)], atol=0.02)


@pytest.mark.parametrize("mask", ["-100.0", "-1e4", "-1e9", "-3.4e38", "-inf"])
@pytest.mark.parametrize("scheme", ["int8", "int16x8"])
def test_masks_before_softmax_leave_the_other_numbers_their_precision(scheme: str, mask: str) -> None:
    text = f"""
    graph main(%x: f32[1,8]) -> %y {{
      %s = Add(%x, [0.0, {mask}, 0.0, {mask}, 0.0, 0.0, 0.0, {mask}])
      %y = Softmax(%s)
    }}
    """
    assert not check(circlekit.parse(text), scheme, samples(), 0.03).floats


def test_computed_masks_are_added_in_float() -> None:
    """LiteRT's ADD of int8 loses an operand whose scale is far below that of the other one."""
    text = """
    graph main(%x: f32[1,8], %m: f32[1,8]) -> %y {
      %n = Mul(%m, -1e9)
      %s = Add(%x, %n)
      %y = Softmax(%s)
    }
    """
    given = [[*sample, np.array([[0, 1] * 4], np.float32)] for sample in samples()]
    assert [op.code for op in check(circlekit.parse(text), "int8", given, 0.03).floats] == ["ADD"]


@pytest.mark.parametrize("scheme", SCHEMES)
def test_numbers_that_are_too_large_for_a_scale_stay_float(scheme: str) -> None:
    """LiteRT ends the program on such scales of ADD, and layers overflow."""
    report = check(
        circlekit.parse("graph main(%x: f32[1,8]) -> %y { %y = Add(%x, 3e37) }"), scheme, samples(), 0
    )
    assert "too large for a scale" in report.floats[0].reason


def test_updates_are_scattered_around_the_zero_point_0() -> None:
    text = """
    graph main(%x: f32[2,8]) -> %y {
      %p = Abs(%x)
      %y = ScatterNd([[3], [0]], %p, [4, 8])
    }
    """
    given = [[np.concatenate([x, x]) for x in sample] for sample in samples()]
    assert not check(circlekit.parse(text), "int8", given, 0.02).floats


def test_uint8_has_no_negative_numbers_around_the_zero_point_0() -> None:
    text = "graph main(%x: f32[2,8]) -> %y { %y = ScatterNd([[3], [0]], %x, [4, 8]) }"
    given = [[np.concatenate([x, x]) for x in sample] for sample in samples()]
    (left,) = check(circlekit.parse(text), "uint8", given, 0).floats
    assert "expected a range without negative numbers" in left.reason


def test_an_output_that_float_operators_read_is_converted_once() -> None:
    text = """
    graph main(%x: f32[1,8]) -> %r, %c {
      %r = Relu(%x)
      %c = Cos(%r)
    }
    """
    model = circlekit.parse(text)
    check(model, "int8", samples(), 0.05)
    assert [op.code for op in model.main] == ["QUANTIZE", "RELU", "DEQUANTIZE", "COS"]


@pytest.mark.parametrize("scheme", ["one_uint8", "one_int16"])
def test_biases_that_make_the_range_of_a_layer_keep_their_values(scheme: str) -> None:
    """Kernels take multipliers below 2^-31 for 0."""
    model = changed(2, lambda a: np.copyto(a, a * np.float32(1e13)))
    expected = circlekit.run(model, samples()[0])[0]
    circlekit.quantize(model, scheme, samples())
    result = circlekit.run(model, samples()[0])[0]
    assert np.abs(result - expected).max() <= 0.01 * np.abs(expected).max()


def test_int16_operands_of_concatenation_get_its_scale() -> None:
    """The kernel only copies integers, so a QUANTIZE converts an operand with another scale.

    In ONE, operands with other users (%a, %x) keep their scales, which gives wrong numbers.
    """
    model = circlekit.parse("""
    graph main(%x: f32[1,8]) -> %y, %z {
      %a = Mul(%x, 0.1)
      %z = Neg(%a)
      %y = Concatenation(%a, %x) {axis: 1}
    }
    """)
    expected = circlekit.run(model, samples()[0])[0]
    circlekit.quantize(model, "one_int16", samples())
    np.testing.assert_allclose(circlekit.run(model, samples()[0])[0], expected, atol=2e-4)


def test_constants_of_rank_0_run_by_the_rules_of_one() -> None:
    model = circlekit.parse("graph main(%x: f32[1,8]) -> %y { %y = Add(%x, 2.0) }")
    circlekit.quantize(model, "one_uint8", samples())
    (x,) = samples()[0]
    np.testing.assert_allclose(circlekit.run(model, [x])[0], x + 2, atol=0.03)


@pytest.mark.parametrize(
    ("operator", "reason"), [("Pow(%x, 2.0)", "has no POW"), ("Div(1.0, %x)", "divisor rounds to 0")]
)
def test_operators_without_a_kernel_in_the_form_of_one_are_reported(operator: str, reason: str) -> None:
    model = circlekit.parse(f"graph main(%x: f32[1,8]) -> %y {{ %y = {operator} }}")
    notes = circlekit.quantize(model, "one_uint8", [[np.arange(8, dtype=np.float32)[None]]]).notes
    assert any(reason in note for note in notes)


@pytest.mark.parametrize(
    ("operator", "is_noted"),
    [
        ("Maximum(%a, %b)", True),
        ("MaxPool2D(%a) {filter_height: 2, filter_width: 2}", True),
        ("Maximum(%a, %a)", False),
        ("Concatenation(%a, %b) {axis: 3}", False),
        ("Add(%a, %b)", False),
    ],
)
def test_kernels_that_need_one_scale_are_reported_if_one_chooses_several(
    operator: str, is_noted: bool
) -> None:
    text = "graph main(%a: f32[1,4,4,1], %b: f32[1,4,4,1]) -> %y { %y = OPERATOR }".replace(
        "OPERATOR", operator
    )
    wave = np.sin(np.arange(16, dtype=np.float32)).reshape(1, 4, 4, 1)
    model, data = circlekit.parse(text), [wave, 3 * wave[:, ::-1]]
    (expected,) = circlekit.run(model, data)
    notes = circlekit.quantize(model, "one_uint8", [data]).notes
    assert any("has wrong values" in note for note in notes) is is_noted
    (result,) = circlekit.run(model, data)
    assert bool(np.abs(result - expected).max() < 0.06) is not is_noted


@pytest.mark.parametrize("auto", [False, True])
def test_a_comparison_with_an_empty_constant_is_quantized(auto: bool) -> None:
    model = circlekit.parse("graph main(%x: f32[1]) -> %y {\n%c = const f32[0] []\n%y = Greater(%x, %c)\n}")
    data = [[np.array([number], np.float32)] for number in (-1.0, 2.0)]
    report = circlekit.quantize(model, "int8", data, auto=auto, seconds=1)
    assert report.schemes == {"int8": 1}
    assert circlekit.run(model, data[0])[0].shape == (0,)


CONV = "{stride_h: 1, stride_w: 1, padding: SAME} : f32[?,2,2,3]"


@pytest.mark.parametrize(
    "body",
    [
        f"%w = const f32[3,3,3,8] gaussian(0, 0.3)\n%y = Conv2D(%x, %w, [0.1, 0.2, 0.3]) {CONV}",
        f"%w = const f32[3,0,3,8] []\n%y = Conv2D(%x, %w, [0.1, 0.2, 0.3]) {CONV}",
        "%w = const f32[3,8] gaussian(0, 0.3)\n%y = FullyConnected(%x, %w, [0.1, 0.2, 0.3]) : f32[?,3]",
        "%e = const f32[1,2,0,8] []\n%y = BatchMatMul(%x, %e) {adj_y: true} : f32[?,2,2,0]",
        "%c = const f32[1,8] gaussian(0, 1)\n%w = const f32[8,8] gaussian(0, 0.3)\n"
        "%f = FullyConnected(%c, %w)\n%y = Mul(%x, %f) : f32[?,2,2,8]",
    ],
)
def test_techniques_leave_layers_without_rows_or_weights_alone(body: str) -> None:
    """One sample has no images, and some layers have empty or only constant operands."""
    model = circlekit.parse(f"graph main(%x: f32[?,2,2,8]) -> %y {{\n{body}\n}}")
    random = np.random.default_rng(1)
    data = [[random.normal(size=(count, 2, 2, 8)).astype(np.float32)] for count in (2, 0, 3, 1)]
    (expected,) = circlekit.run(model, data[0])
    circlekit.quantize(model, samples=data, seconds=1, passes=())
    np.testing.assert_allclose(circlekit.run(model, data[0])[0], expected, atol=0.15)


@pytest.mark.parametrize("scheme", ["int8", "int16x8", "weight_int4", "one_uint8", "one_int16"])
def test_scalars_quantize_and_run(scheme: str) -> None:
    model = circlekit.parse("graph main(%x: f32[]) -> %y { %y = Mul(%x, 2.0) }")
    data = [[np.array(number, np.float32)] for number in (-1.0, 2.0, 0.5, 1.5)]
    circlekit.quantize(model, scheme, data, seconds=1)
    assert abs(circlekit.run(model, data[1])[0] - 4) < 0.05


@pytest.mark.parametrize("scheme", ["int8", "int16x8", "uint8"])
def test_a_bias_with_a_leading_axis_has_its_scales_on_the_last_one(scheme: str) -> None:
    text = """
    graph main(%x: f32[2,8]) -> %y {
      %w = const f32[4,8] gaussian(0, 0.3)
      %b = const f32[1,4] gaussian(0, 1)
      %y = FullyConnected(%x, %w, %b)
    }
    """
    model, data = circlekit.parse(text), [[np.linspace(-1, 1, 16, dtype=np.float32).reshape(2, 8)]]
    expected = circlekit.run(model, data[0])[0]
    circlekit.quantize(model, scheme, data, auto=False)
    np.testing.assert_allclose(circlekit.run(model, data[0])[0], expected, atol=0.04)


def test_ranges_near_the_largest_float_and_infinite_results_do_not_stop_the_choice() -> None:
    data = [[np.full((1, 8), 3.4e38, np.float32)]] * 4
    circlekit.quantize(circlekit.parse(LAYER), "int16x8", data, seconds=1)
    text = """
    graph main(%x: f32[1,8]) -> %y {
      %w = const f32[64,8] gaussian(0, 0.3)
      %f = FullyConnected(%x, %w, none)
      %m = Less(%f, 0.0)
      %y = SelectV2(%m, %f, -inf)
    }
    """
    report = circlekit.quantize(circlekit.parse(text), "weight_int4", samples(), seconds=1)
    assert not any("nan" in note for note in report.notes)


def test_biases_of_nearly_dead_channels_stay_with_64_bits() -> None:
    """LiteRT takes factors below 2^-31 for 0, which would lose the bias."""
    model = circlekit.parse("""
    graph main(%x: f32[1,3,3,2]) -> %y {
      %w = const f32[3,1,1,2] [1e-12, 2e-12, 3e-12, -1e-12, 1.0, 2.0]
      %y = Conv2D(%x, %w, [0.001, -0.002, 0.5])  : f32[1,3,3,3]
    }
    """)
    expected = circlekit.run(model, [np.ones((1, 3, 3, 2), np.float32)])[0]
    data = [[np.full((1, 3, 3, 2), number, np.float32)] for number in (-1.0, 1.0, 0.5)]
    circlekit.quantize(model, "int16x8", data, auto=False)
    np.testing.assert_allclose(circlekit.run(model, data[1])[0], expected, atol=2e-4)


def test_times_and_targets_are_finite_numbers(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for seconds, target in ((np.nan, None), (-1.0, None), (1.0, np.inf)):
        with pytest.raises(UnsupportedError, match="expected a finite number"):
            circlekit.quantize(circlekit.parse(LAYER), "int8", samples(), seconds=seconds, target_sqnr=target)
    (tmp_path / "net.ck").write_text(LAYER)
    words = ["quantize", str(tmp_path / "net.ck"), str(tmp_path / "out.tflite"), "--random", "2"]
    assert main([*words, "--seconds", "nan"]) == 2
    assert main([*words, "--target-sqnr", "nan"]) == 2


def test_sparse_weights_that_become_dense_are_noted() -> None:
    recipe = Path(__file__).parents[2] / "recipes" / "passes" / "fold_densify.ck"
    model = circlekit.load(recipe)
    data = [[np.ones((2, 4), np.float32)]] * 2
    expected = circlekit.run(model, data[0])[0]
    report = circlekit.quantize(model, "int8", data, auto=False)
    assert any(note.startswith("1 sparse constant made dense") for note in report.notes)
    np.testing.assert_allclose(circlekit.run(model, data[0])[0], expected, atol=0.05)


def test_files_without_records_say_so(tmp_path: Path) -> None:
    np.savez(tmp_path / "zero.npz", x=np.zeros((0, 1, 8), np.float32))
    with pytest.raises(ShapeError, match="expected at least one record, got none"):
        circlekit.quantize(circlekit.parse(LAYER), "int8", tmp_path / "zero.npz")
    np.savez(tmp_path / "empty.npz")
    with pytest.raises(ShapeError, match=r"empty\.npz.*(no|missing|0 arrays)"):
        circlekit.quantize(circlekit.parse(LAYER), "int8", tmp_path / "empty.npz")


@pytest.mark.filterwarnings("error")
def test_the_largest_float_in_the_samples_overflows_nowhere() -> None:
    """Calibration ignores the largest float, so the other numbers keep their precision."""
    model = circlekit.parse("graph main(%x: f32[1,8]) -> %y { %r = Reshape(%x, [8]) %y = Relu(%r) }")
    given = samples(count=5)
    for (array,) in given:
        array[0, 0] = np.finfo(np.float32).max
    circlekit.quantize(model, "uint8", given)
    np.testing.assert_allclose(
        circlekit.run(model, samples()[0])[0], np.maximum(samples()[0][0][0], 0), atol=0.02
    )


@pytest.mark.parametrize("code", ["FLOOR_DIV", "FLOOR_MOD"])
def test_operators_whose_kernels_ignore_the_scale_stay_float(code: str) -> None:
    kind = {"FLOOR_DIV": "FloorDiv", "FLOOR_MOD": "FloorMod"}[code]
    model = circlekit.parse(f"graph main(%x: f32[1,8]) -> %y {{ %y = {kind}(%x, 0.5) }}")
    (left,) = circlekit.quantize(model, "int8", samples(), auto=False).floats
    ignored = "and ignore scale and zero point"
    assert left.reason == f"kernels of {code} compute with the stored integers {ignored}"


@pytest.mark.parametrize("scheme", [*SCHEMES, "one_uint8"])
@pytest.mark.parametrize(("function", "start"), [("MAXIMUM", "-inf"), ("MINIMUM", "0.5"), ("ADD", "0.0")])
def test_windows_of_integers_are_compared_but_not_added(scheme: str, function: str, start: str) -> None:
    """MAXIMUM and MINIMUM are quantized; ADD stays float, because its result needs another scale."""
    model = circlekit.parse(
        f"graph main(%x: f32[1,8]) -> %y {{ %y = ReduceWindow(%x, {start}, [1,2], [1,2], [1,1]) "
        f"{{reduce_function: {function}}} }}"
    )
    if scheme == "one_uint8":
        expected = circlekit.run(model, samples()[0])[0]
        circlekit.quantize(model, scheme, samples(), auto=False, outputs="float", inputs="float")
        np.testing.assert_allclose(circlekit.run(model, samples()[0])[0], expected, atol=0.05)
    else:
        report = check(model, scheme, samples(), 0.01)
        assert bool(report.floats) == (function == "ADD")
