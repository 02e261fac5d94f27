# SPDX-License-Identifier: Apache-2.0
"""Unusual models, samples and arguments are quantized right, or end with an error."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import circlekit
from circlekit.cli.front_door import main
from circlekit.errors import ModelError, ShapeError, UnsupportedError
from circlekit.quant.calibration import TensorStatistics
from tests.quant.layer import LAYER, SCHEMES, check, samples


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
    for kind in ("CONV_2D", "Conv2D"):  # an operator that the model lacks is not an error
        circlekit.quantize(circlekit.parse(LAYER), "int8", samples(), operators={kind: "float"}, auto=False)


def test_only_and_without_may_be_a_single_text() -> None:
    model = circlekit.parse(LAYER)
    report = circlekit.quantize(model, "int8", samples(), only="y", without="ranges", auto=False)
    assert report.schemes == {"int8": 1}


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
def test_a_bias_of_rank_2_has_its_scales_on_the_last_axis(scheme: str) -> None:
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


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"operators": ["FULLY_CONNECTED"]}, "operators: expected a dict {pattern: scheme}, got list"),
        ({"operators": "FULLY_CONNECTED"}, "operators: expected a dict {pattern: scheme}, got str"),
        ({"calibration": "ranges.json"}, "calibration: expected a Calibration, got str"),
    ],
)
def test_arguments_of_another_type_are_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ModelError, match=message):
        circlekit.quantize(circlekit.parse(LAYER), "int8", **arguments)


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
    with pytest.raises(ShapeError, match=r"empty\.npz: expected arrays for the inputs .* got none"):
        circlekit.quantize(circlekit.parse(LAYER), "int8", tmp_path / "empty.npz")


def test_the_calibration_of_another_model_is_refused() -> None:
    other = circlekit.parse("graph main(%a: f32[1,8]) -> %b { %b = Relu(%a) }")
    calibration = circlekit.calibrate(other, samples())
    with pytest.raises(ModelError, match="got one with 0 of its 2 tensors"):
        circlekit.quantize(circlekit.parse(LAYER), calibration=calibration)


@pytest.mark.parametrize("scheme", ["weight_int8", "dynamic_int8", "weight_int4"])
def test_weights_that_lack_the_axis_of_their_channels_stay_float(scheme: str) -> None:
    text = "graph main(%x: f32[1,4,4,64]) -> %y { %y = DepthwiseConv2D(%x, %w, none) : f32[1,4,4,64] }"
    model = circlekit.parse(text.replace("{ ", "{\n  %w = const f32[64,64] gaussian(0, 1)\n  "))
    (found,) = circlekit.quantize(model, scheme).floats
    assert found.reason == "%w: expected channels along axis 3, got the shape [64,64]"
