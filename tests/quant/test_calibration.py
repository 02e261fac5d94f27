# SPDX-License-Identifier: Apache-2.0
"""Calibration: statistics of computed tensors against numpy, files, and errors."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import circlekit as ck
from circlekit.errors import FileError, FormatError, ModelError, ShapeError
from circlekit.ir.graph import Signature

TEXT = """graph main(%x: f32[1,4,3], %i: i32[2]) -> %y {
  %a = Mul(%x, [2.0, -1.0, 0.5]) : f32[1,4,3]
  %g = Gather(%a, %i) {axis: 1} : f32[1,2,3]
  %y = Relu(%g) : f32[1,2,3]
}"""


@pytest.fixture(scope="module")
def model() -> ck.Model:
    return ck.parse(TEXT)


@pytest.fixture(scope="module")
def samples() -> list[dict[str, np.ndarray]]:
    random = np.random.default_rng(1)
    return [
        {"x": random.standard_normal((1, 4, 3)).astype(np.float32), "i": np.array([0, 3], np.int32)}
        for _ in range(5)
    ]


def test_ranges_are_those_of_numpy(model: ck.Model, samples: list[dict[str, np.ndarray]]) -> None:
    calibration = ck.calibrate(model, samples)
    products = np.stack([s["x"] * np.array([2, -1, 0.5], np.float32) for s in samples])
    assert list(calibration.main) == ["x", "a", "g", "y"]  # %i holds integers
    seen = calibration["a"]
    assert (seen.min, seen.max, seen.count) == (products.min(), products.max(), 60)
    assert seen.minima == [p.min() for p in products]
    assert seen.maxima == [p.max() for p in products]
    assert calibration["y"].min == max(calibration["g"].min or 0, 0)


def test_channels_and_histograms_are_those_of_numpy(
    model: ck.Model, samples: list[dict[str, np.ndarray]]
) -> None:
    calibration = ck.calibrate(model, samples, channels={"x": 1, "a": -1}, histograms=["a"])
    products = np.concatenate([s["x"] * np.array([2, -1, 0.5], np.float32) for s in samples])
    channels = calibration["a"].channels
    assert channels is not None
    assert channels.axis == 2
    np.testing.assert_array_equal(channels.minima, products.min((0, 1)))
    np.testing.assert_array_equal(channels.maxima, products.max((0, 1)))
    np.testing.assert_allclose(channels.mean, products.mean((0, 1)), rtol=1e-5)
    np.testing.assert_allclose(channels.mean_square, np.square(products).mean((0, 1)), rtol=1e-5)
    histogram = calibration["a"].histogram
    assert histogram is not None
    edges = histogram.low + np.arange(histogram.counts.size + 1) * histogram.width
    np.testing.assert_array_equal(histogram.counts, np.histogram(products, edges)[0])
    assert calibration["x"].histogram is None
    assert calibration["g"].channels is None


@pytest.mark.parametrize("suffix", [".json", ".npz"])
def test_a_saved_calibration_loads_as_it_was(
    suffix: str, tmp_path: Path, model: ck.Model, samples: list[dict[str, np.ndarray]]
) -> None:
    calibration = ck.calibrate(model, samples, channels=True, histograms=True)
    first, second = tmp_path / f"first{suffix}", tmp_path / f"second{suffix}"
    calibration.save(first)
    loaded = ck.Calibration.load(first)
    assert loaded["g"].maxima == calibration["g"].maxima
    assert not loaded["g"].is_edited
    loaded.save(second)
    assert first.read_bytes() == second.read_bytes()


def test_an_edited_range_is_marked(
    tmp_path: Path, model: ck.Model, samples: list[dict[str, np.ndarray]]
) -> None:
    path = tmp_path / "c.json"
    ck.calibrate(model, samples).save(path)
    document = json.loads(path.read_text())
    document["graphs"][0]["a"]["max"] = 6.0
    document["graphs"][0]["g"] = {"min": -1, "max": 1}
    path.write_text(json.dumps(document))
    loaded = ck.Calibration.load(path)
    assert [name for name, seen in loaded.main.items() if seen.is_edited] == ["a", "g"]
    assert loaded["a"].max == 6.0


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("[]", "expected an object"),
        ("{", "not a calibration"),
        ('{"calibration": 9}', "expected version 1"),
        ('{"calibration": 1}', "no field 'graphs'"),
        ('{"calibration": 1, "graphs": [{"a": {"min": 1, "max": 0}}]}', "tensor a: expected finite numbers"),
        ('{"calibration": 1, "graphs": [{"a": {"min": 1}}]}', "tensor a has no field 'max'"),
        (
            '{"calibration": 1, "graphs": [{"a": {"min": null, "max": 1}}]}',
            "expected both min and max",
        ),
        ('{"calibration": 1, "graphs": [{"a": {"min": 0, "max": NaN}}]}', "expected finite numbers"),
        ('{"calibration": 1, "graphs": [{"a": 5}]}', "tensor a"),
        ('{"calibration": 1, "graphs": [{"a": {"min": 0, "max": 1, "minima": [1]}}]}', "as many minima"),
    ],
)
def test_a_wrong_file_ends_in_a_sentence(content: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "c.json"
    path.write_text(content)
    with pytest.raises(FormatError, match=message):
        ck.Calibration.load(path)


def test_other_extensions_are_refused(tmp_path: Path) -> None:
    with pytest.raises(FileError, match=r"expected the extension \.json or \.npz"):
        ck.Calibration().save(tmp_path / "c.txt")


def test_numbers_that_are_no_range_are_counted_but_ignored() -> None:
    """The logarithm of 0 is minus infinity; masks use the lowest float32."""
    lowest = float(np.finfo(np.float32).min)
    text = "graph main(%x: f32[4]) -> %y { %y = Log(%x) : f32[4] }"
    calibration = ck.calibrate(
        ck.parse(text), [[np.array([0, 1, 2, lowest], np.float32)], [np.zeros(4, np.float32)]], channels=True
    )
    assert (calibration["x"].min, calibration["x"].max, calibration["x"].ignored) == (0.0, 2.0, 1)
    seen = calibration["y"]
    assert (seen.min, seen.max) == (0.0, np.log(np.float32(2)))
    assert (seen.count, seen.ignored) == (2, 6)
    assert np.isnan(seen.minima[1])
    assert not seen.is_edited


def test_tensors_in_a_branch_not_taken_are_not_observed() -> None:
    model = ck.parse("""
        graph main(%c: bool[], %x: f32[2]) -> %y {
          %y = If(%c, %x) {then_graph: @one, else_graph: @two} : f32[2]
        }
        graph one(%x: f32[2]) -> %y { %y = Neg(%x) : f32[2] }
        graph two(%x: f32[2]) -> %y { %y = Exp(%x) : f32[2] }
    """)
    calibration = ck.calibrate(model, [[np.array(True), np.array([1, 2], np.float32)]])
    assert (calibration.graphs[1]["x"].max, calibration.graphs[1]["y"].min) == (2.0, -2.0)
    assert calibration.graphs[2]["y"].min is None


@pytest.mark.parametrize(
    ("samples", "error", "message"),
    [
        ([], ModelError, "at least one sample"),
        (5, ModelError, "expected an iterable"),
        ("no such.npz", FileError, "no such file"),
        ({"x": 1}, ModelError, "expected an iterable"),
        ([[np.zeros((1, 4, 3), np.float32)]], ShapeError, "expected 2 inputs"),
        ([{"x": np.zeros((1, 4, 3), np.float32)}], ShapeError, "missing %i"),
        ([[np.zeros((1, 4, 3)), np.zeros(2, np.int32)]], ShapeError, "float32"),
        ([[np.zeros((1, 4, 4), np.float32), np.zeros(2, np.int32)]], ShapeError, "in sample 0"),
        ([[np.full((1, 4, 3), np.nan, np.float32), np.zeros(2, np.int32)]], ModelError, "NaN in 12 of 12"),
        ([3], ModelError, "expected a list of arrays"),
    ],
)
def test_wrong_samples_end_in_a_sentence(
    samples: object, error: type[Exception], message: str, model: ck.Model
) -> None:
    with pytest.raises(error, match=message):
        ck.calibrate(model, samples)  # type: ignore[arg-type]


def test_an_unknown_tensor_is_refused(model: ck.Model, samples: list[dict[str, np.ndarray]]) -> None:
    with pytest.raises(ModelError, match="no computed float tensor is named 'i'"):
        ck.calibrate(model, samples, channels=["i"])


def test_channels_must_stay_and_exist(model: ck.Model, samples: list[dict[str, np.ndarray]]) -> None:
    with pytest.raises(ModelError, match="channels of %x: expected an axis of a tensor of rank 3, got 3"):
        ck.calibrate(model, samples, channels={"x": 3})
    changing = ck.parse("graph main(%x: f32[?]) -> %y { %y = Neg(%x) : f32[?] }")
    with pytest.raises(ShapeError, match="got 1 and then 3 on axis 0") as caught:
        ck.calibrate(changing, [[np.ones(n, np.float32)] for n in (1, 3)], channels=True)
    assert "for %x, in sample 1" in str(caught.value)


def test_names_of_a_signature(samples: list[dict[str, np.ndarray]]) -> None:
    model = ck.parse(TEXT)
    x, i = model.main.inputs
    model.signatures = [Signature("serving_default", model.main, {"image": x, "index": i}, {})]
    named = [{"image": sample["x"], "index": sample["i"]} for sample in samples]
    assert ck.calibrate(model, named)["a"].minima == ck.calibrate(model, samples)["a"].minima
    with pytest.raises(ShapeError, match="missing %i"):
        ck.calibrate(model, [{"image": samples[0]["x"]}])
