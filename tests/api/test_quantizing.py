# SPDX-License-Identifier: Apache-2.0
"""What ``quantize`` refuses, what its report says, and what a plan replaces."""

from __future__ import annotations

import math
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import circlekit
from circlekit.errors import CirclekitError, ShapeError, UnsupportedError
from circlekit.ir.model_equality import difference
from circlekit.quant.plan import Plan
from tests.api.test_quantization_choice import NET, ROUNDED, SAMPLES


@pytest.mark.parametrize(
    "argument",
    [
        {"samples": SAMPLES},
        {"calibration": circlekit.Calibration([{}], 1)},
        {"operators": {"f": "float"}},
        {"only": ["f"]},
        {"target_sqnr": 1.0},
        {"budget": "20%"},
    ],
    ids=lambda argument: next(iter(argument)),
)
def test_a_plan_takes_no_other_argument(argument: dict[str, Any]) -> None:
    with pytest.raises(UnsupportedError, match="a plan decides everything: expected none of samples,"):
        circlekit.quantize(circlekit.parse(NET), plan=Plan("int8"), **argument)


@pytest.mark.parametrize(("scheme", "is_applied"), [("int8", True), ("one_uint8", False), ("float", False)])
def test_plans_of_the_schemes_of_litert_are_applied(scheme: str, is_applied: bool) -> None:
    model = circlekit.parse(NET)
    plan = circlekit.quantize(circlekit.parse(NET), samples=SAMPLES, auto=False).plan
    plan.scheme = scheme
    if is_applied:
        report = circlekit.quantize(model, plan=plan)
        assert report.after.ops == {"QUANTIZE": 1, "FULLY_CONNECTED": 1, "LOGISTIC": 1, "DEQUANTIZE": 1}
        assert report.before.ops == {"FULLY_CONNECTED": 1, "LOGISTIC": 1}
        assert 0 <= report.seconds < 60
    else:
        with pytest.raises(UnsupportedError, match=f"a plan of the scheme {scheme} cannot be applied"):
            circlekit.quantize(model, plan=plan)


@pytest.mark.parametrize("text", [NET, ROUNDED])
def test_a_plan_gives_the_model_of_its_run(text: str) -> None:
    first, second = circlekit.parse(text), circlekit.parse(text)
    plan = circlekit.quantize(first, samples=SAMPLES, auto=False).plan
    circlekit.quantize(second, plan=Plan.from_json(plan.to_json()))
    assert difference(first, second) is None


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"seconds": -1e-9}, "seconds: expected a finite number of 0 or more, got -1e-09"),
        ({"seconds": math.inf}, "seconds: expected a finite number of 0 or more, got inf"),
        ({"target_sqnr": math.nan}, "target_sqnr: expected a finite number, got nan"),
        ({"scheme": "float"}, "expected a scheme that quantizes, got float"),
        ({"inputs": "int8"}, "inputs: expected float or integer, got 'int8'"),
        ({"scheme": "float16", "outputs": "integer"}, "outputs: expected float for float16, whose"),
        ({"without": ["rotation", "magic"]}, "without: expected some of rotation, .*, got 'magic'"),
        ({"target_sqnr": 1.0, "samples": None}, "expected samples for mixed precision, got none"),
        ({"budget": "20%", "samples": []}, "expected samples for mixed precision, got none"),
        ({"budget": "20"}, "budget: expected 0% to 100% of one of operators, macs, bytes, got '20'"),
        ({"budget": 20}, "budget: expected 0% to 100% of one of operators, macs, bytes, got 20"),
        ({"operators": ["CONV_2D"]}, "operators: expected a dict {pattern: scheme}, got list"),
        ({"only": [3]}, "expected the name of a pattern, got int"),
        ({"budget": "20%", "scheme": "one_uint8"}, "mixed precision: expected a scheme of LiteRT, got"),
    ],
    ids=str,
)
def test_wrong_arguments_are_refused(arguments: dict[str, Any], sentence: str) -> None:
    with pytest.raises(CirclekitError, match=sentence):
        circlekit.quantize(circlekit.parse(NET), **{"samples": SAMPLES, **arguments})


@pytest.mark.parametrize(
    "arguments",
    [
        {"scheme": "magic"},
        {"estimator": "magic"},
        {"target": "magic"},
        {"passes": "magic"},
        {"passes": "magic", "samples": None},
        {"without": "magic"},
        {"raise_to": "magic"},
        {"operators": {"LOGISTIC": "magic"}},
        {"operators": {3: "float"}},
        {"budget": "magic"},
        {"only": [3]},
        {"budget": "20%", "scheme": "one_uint8"},
        {"budget": "20%", "samples": []},
    ],
    ids=str,
)
def test_wrong_names_and_combinations_are_refused_before_the_model_changes(arguments: dict[str, Any]) -> None:
    model = circlekit.parse(ROUNDED)
    with pytest.raises(CirclekitError, match=r"magic|mixed precision|got int"):
        circlekit.quantize(model, **{"samples": SAMPLES, **arguments})
    assert difference(model, circlekit.parse(ROUNDED)) is None


def test_the_report_says_what_the_user_may_not_expect() -> None:
    """A note says that a file of few weights grows, or that the scheme is for no operator of the model."""
    reason = "scales, conversions, or sparse weights made dense, take more bytes than integers save"
    notes = circlekit.quantize(circlekit.parse(NET), samples=SAMPLES, auto=False).notes
    assert notes == [f"the file grows: {reason}"]
    large = NET.replace("[8,8]", "[512,8]").replace("f32[8]", "f32[512]")
    report = circlekit.quantize(circlekit.parse(large), "weight_int8")
    assert report.notes == []
    assert 0 <= report.seconds < 60
    integers = circlekit.parse("graph main(%x: i32[4]) -> %y {\n  %y = Add(%x, [1, 2, 3, 4])\n}")
    weightless = circlekit.parse("graph main(%x: f32[4]) -> %y {\n  %y = Exp(%x)\n}")
    longer = circlekit.parse(
        "graph main(%x: f32[64]) -> %y {\n  %r = Range(0.0, 64.0, 1.0)\n  %y = Pow(%x, %r)\n}"
    )
    for model in (integers, weightless, longer):
        (note,) = circlekit.quantize(model, "weight_int8").notes
        assert note == "the scheme is for no operator of the model: there was nothing to quantize"


@pytest.mark.parametrize("is_complete", [True, False])
def test_an_interrupted_calibration_is_noted(is_complete: bool) -> None:
    calibration = circlekit.calibrate(circlekit.parse(NET), SAMPLES[:1])
    calibration.is_complete = is_complete
    report = circlekit.quantize(circlekit.parse(NET), calibration=calibration)
    note = "the calibration was interrupted: it covers only 1 sample"
    assert (note in report.notes) == (not is_complete)


def test_the_sizes_are_those_of_the_files(tmp_path: Path) -> None:
    """A zip archive after the model belongs to the file."""
    circlekit.save(circlekit.parse(NET), tmp_path / "net.tflite")
    with zipfile.ZipFile(tmp_path / "net.tflite", "a") as archive:
        archive.writestr("labels.txt", "a label\n" * 500)
    model = circlekit.load(tmp_path / "net.tflite")
    report = circlekit.quantize(model, "weight_int8")
    circlekit.save(model, tmp_path / "quantized.tflite")
    for summary, name in ((report.before, "net.tflite"), (report.after, "quantized.tflite")):
        assert summary.file_size == (tmp_path / name).stat().st_size


@pytest.mark.parametrize("as_argument", [iter, list, "".join])
def test_patterns_are_an_iterable_or_one_text(as_argument: Callable[[list[str]], Any]) -> None:
    model = circlekit.parse(NET)
    circlekit.quantize(model, samples=SAMPLES, only=as_argument(["LOGISTIC"]))
    assert [op.code for op in model.ops()] == ["FULLY_CONNECTED", "QUANTIZE", "LOGISTIC", "DEQUANTIZE"]


def test_samples_are_checked_before_the_model_changes() -> None:
    """If a pass changes the interface, samples must fit the model after the passes instead."""
    model = circlekit.parse(ROUNDED)
    with pytest.raises(ShapeError, match="in sample 0"):
        circlekit.quantize(model, samples=[[np.zeros((3, 3), np.float32)]])
    assert difference(model, circlekit.parse(ROUNDED)) is None
    model = circlekit.parse("graph main(%x: f32[1,3,2,2]) -> %y { %y = Neg(%x) }")
    nhwc = [[np.ones((1, 2, 2, 3), np.float32)]]
    circlekit.quantize(model, samples=nhwc, passes="nchw_to_nhwc_input_shape", auto=False)
    assert model.main.inputs[0].shape == (1, 2, 2, 3)
