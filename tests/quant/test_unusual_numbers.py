# SPDX-License-Identifier: Apache-2.0
"""Numbers with which kernels or scales fail: the results are right, or an operator stays float."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

import circlekit
from circlekit.ir.value import Array
from tests.quant.layer import LAYER, SCHEMES, changed, check, samples


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
def test_biases_that_overflow_raise_the_scale_of_their_weights(scheme: str) -> None:
    model = changed(1, _shrink)
    value = model.main.ops[0].inputs[2]
    assert value is not None
    value.data = np.array([1e6, -1e6, 1e3, 0], np.float32)
    report = check(model, scheme, samples(), 0.01)
    assert not report.floats
    reasons = [form.reason for op in report.plan.main.operators.values() for form in op.operands.values()]
    assert any("so that the bias fits" in reason for reason in reasons)


@pytest.mark.parametrize(("bias", "act"), [(-1e7, "RELU"), (-1e9, "RELU"), (1e9, "RELU6")])
@pytest.mark.parametrize("scheme", SCHEMES)
def test_a_layer_stays_float_if_its_kernel_overflows_before_it_clips(
    scheme: str, bias: float, act: str
) -> None:
    """With this bias, a result has more than 2^31 steps, which wrap around in the int32 of the kernel."""
    text = LAYER.replace("gaussian(0, 0.1)", f"[0.1, {bias}, 0.3, 1.0]")
    report = check(circlekit.parse(text.replace("%b)", f"%b) {{act: {act}}}")), scheme, samples(), 1e-6)
    assert "its kernel overflows" in report.floats[0].reason


@pytest.mark.parametrize("kind", ["Logistic", "Tanh"])
@pytest.mark.parametrize(("deviation", "is_quantized"), [(5e4, True), (4e5, False), (1e12, False)])
def test_a_curve_of_int16_stays_float_if_its_operand_overflows(
    kind: str, deviation: float, is_quantized: bool
) -> None:
    """LiteRT multiplies the operand by its scale times 12288 in 32 bits; a scale above 5.3 is too much."""
    model = circlekit.parse(f"graph main(%x: f32[1,8]) -> %y {{ %y = {kind}(%x) }}")
    report = check(model, "int16x8", samples(deviation), 1e-3)
    assert [op.reason for op in report.floats] == (
        [] if is_quantized else [f"{kind.upper()} of int16 overflows for an operand of a scale above 5.33"]
    )


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
    """For small integers divided by large ones, LiteRT's kernel would shift by more than 31 bits."""
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


@pytest.mark.parametrize("offset", [-12.0, 0.0, 12.0])
@pytest.mark.parametrize(
    "sum_of_logits_and_mask",
    [
        "Add(%x, [0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, -1e9])",
        "Sub(%x, [0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1e9])",
        "Sub([0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, -1e9], %x)",
    ],
)
@pytest.mark.parametrize("scheme", ["int8", "int16x8"])
def test_logits_of_any_sign_keep_their_precision_beside_masks(
    scheme: str, sum_of_logits_and_mask: str, offset: float
) -> None:
    text = f"graph main(%x: f32[1,8]) -> %y {{ %s = {sum_of_logits_and_mask}  %y = Softmax(%s) }}"
    given = [[sample[0] + np.float32(offset)] for sample in samples()]
    assert not check(circlekit.parse(text), scheme, given, 0.06).floats


@pytest.mark.parametrize("offset", [-12.0, 0.0, 12.0])
@pytest.mark.parametrize(("mask", "code"), [("-1e9", "Add"), ("1e9", "Sub")])
def test_computed_masks_are_added_in_float(mask: str, code: str, offset: float) -> None:
    """LiteRT's ADD of int8 loses an operand whose scale is far below the scale of the other operand.

    The float masks overflow the int32 of QUANTIZE, which must not make them the largest logits.
    """
    text = f"""
    graph main(%x: f32[1,8], %m: f32[1,8]) -> %y {{
      %n = Mul(%m, {mask})
      %s = {code}(%x, %n)
      %y = Softmax(%s)
    }}
    """
    given = [[sample[0] + np.float32(offset), np.array([[0, 1] * 4], np.float32)] for sample in samples()]
    assert [op.code for op in check(circlekit.parse(text), "int8", given, 0.06).floats] == [code.upper()]


@pytest.mark.parametrize("mask", [-3.4028235e38, -np.inf])
@pytest.mark.parametrize(("added", "sign"), [("Add(%x, %m)", 1), ("Sub(%x, %m)", -1)])
@pytest.mark.parametrize("scheme", ["int8", "int16x8"])
def test_masks_that_calibration_ignores_are_added_in_float(
    scheme: str, added: str, sign: int, mask: float
) -> None:
    text = f"""
    graph main(%x: f32[1,8], %given: f32[8]) -> %y {{
      %m = Reshape(%given, [1, 8])
      %s = {added}
      %y = Softmax(%s)
    }}
    """
    given = [[x, np.array([sign * mask, 0.0] * 4, np.float32)] for (x,) in samples()]
    report = check(circlekit.parse(text), scheme, given, 0.03)
    assert added[:3].upper() in {op.code for op in report.floats}


def test_masked_positions_that_no_sample_has_are_masked() -> None:
    text = """
    graph main(%x: f32[1,8], %kept: f32[1,8]) -> %y {
      %o = Sub(1.0, %kept)
      %m = Mul(%o, -1e9)
      %s = Add(%x, %m)
      %y = Softmax(%s)
    }
    """
    model = circlekit.parse(text)
    record = [samples()[0][0], np.array([[1, 0] * 4], np.float32)]
    (expected,) = circlekit.run(model, record)
    circlekit.quantize(model, "int8", [[x, np.ones((1, 8), np.float32)] for (x,) in samples()], auto=False)
    np.testing.assert_allclose(circlekit.run(model, record)[0], expected, atol=0.02)


@pytest.mark.parametrize("mask", ["-1e4", "-1e9", "-3.4e38", "-inf"])
@pytest.mark.parametrize("scheme", ["int8", "int16x8"])
def test_masks_keep_their_distance_after_data_movement(scheme: str, mask: str) -> None:
    text = f"""
    graph main(%x: f32[1,8]) -> %y {{
      %s = Add(%x, [0.0, {mask}, 0.0, {mask}, 0.0, 0.0, 0.0, {mask}])
      %r = Reshape(%s, [4, 2])
      %t = Transpose(%r, [1, 0])
      %y = Softmax(%t)
    }}
    """
    assert not check(circlekit.parse(text), scheme, samples(), 0.05).floats


@pytest.mark.parametrize("scheme", SCHEMES)
def test_masks_stay_float_if_no_sample_has_other_numbers(scheme: str) -> None:
    text = """graph main(%x: f32[1,8]) -> %y {
      %a = Add(%x, -1e9)
      %y = Softmax(%a)
    }"""
    report = check(circlekit.parse(text), scheme, samples(), 1e-6)
    reasons = {op.code: op.reason for op in report.floats}
    assert reasons["ADD"] == reasons["SOFTMAX"] == "calibration observed only masked numbers in %a"


@pytest.mark.parametrize("scheme", SCHEMES)
def test_numbers_that_are_too_large_for_a_scale_stay_float(scheme: str) -> None:
    """With such scales, ADD ends the program in LiteRT, and layers overflow."""
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
    """LiteRT rounds factors below 2^-31 to 0, which would lose the bias."""
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
    """MAXIMUM and MINIMUM are quantized; ADD stays float, because its result needs another scale.

    For one_uint8, only the results are checked.
    """
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


@pytest.mark.parametrize("scheme", ["int8", "uint8", "int16x8"])
@pytest.mark.parametrize("beta", [-1.0, 0.0])
def test_a_softmax_without_a_positive_beta_stays_float(scheme: str, beta: float) -> None:
    """On 8 bits LiteRT ends the process; on int16, all results were equal."""
    text = f"graph main(%x: f32[2,3]) -> %y {{\n %y = Softmax(%x) {{beta: {beta}}}\n}}"
    model, x = circlekit.parse(text), np.array([[1, 2, 3], [0, -4, 1]], np.float32)
    report = circlekit.quantize(model, scheme, [[x]], auto=False)
    assert "needs a beta above 0" in report.plan.main.operators["y"].reason
    np.testing.assert_array_equal(circlekit.run(model, [x])[0], circlekit.run(circlekit.parse(text), [x])[0])
