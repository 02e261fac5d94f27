# SPDX-License-Identifier: Apache-2.0
"""Calibration: statistics of computed tensors against numpy, files, and errors."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import circlekit as ck
from circlekit.errors import FileError, ModelError, ShapeError
from circlekit.ir.graph import Signature
from circlekit.quant.calibration import collect
from circlekit.quant.calibration.statistics import ChannelStatistics, observed

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


def test_an_empty_tensor_is_observed_without_numbers() -> None:
    text = "graph main(%x: f32[0,3]) -> %y { %y = Neg(%x) : f32[0,3] }"
    seen = ck.calibrate(ck.parse(text), [[np.zeros((0, 3), np.float32)]], channels=True)["y"]
    assert (seen.min, seen.max, seen.count, seen.ignored, seen.channels) == (None, None, 0, 0, None)
    assert np.isnan([*seen.minima, *seen.maxima]).tolist() == [True, True]


def test_tensors_with_one_name_have_ranges_of_their_own() -> None:
    """Of several tensors with one name, the input or output of the graph keeps it."""
    model = ck.parse(TEXT)
    for op in model.main:
        op.output.name = "y"
    (constant,) = (v for v in model.main.values() if v.is_const)
    constant.name = "x"
    record = {"x": np.full((1, 4, 3), -2, np.float32), "i": np.array([0, 3], np.int32)}
    found = ck.calibrate(model, [record])
    assert [op.output.name for op in model.main] == ["y_1", "y_2", "y"]
    assert [(v.name, found[v.name].min, found[v.name].max) for v in (op.output for op in model.main)] == [
        ("y_1", -4, 2), ("y_2", -4, 2), ("y", 0, 2),
    ]  # fmt: skip


def test_inputs_and_outputs_need_distinct_names() -> None:
    model = ck.parse(TEXT)
    model.main.outputs[0].name = "x"
    with pytest.raises(ModelError, match="distinct names of inputs and outputs, got two that are named %x"):
        ck.calibrate(model, [{"x": np.zeros((1, 4, 3), np.float32), "i": np.array([0, 3], np.int32)}])


def test_infinite_and_lowest_numbers_are_ignored_and_counted() -> None:
    """The logarithm of 0 is minus infinity; masks use the lowest float32."""
    lowest = float(np.finfo(np.float32).min)
    text = "graph main(%x: f32[4]) -> %y { %y = Log(%x) : f32[4] }"
    calibration = ck.calibrate(
        ck.parse(text), [[np.array([0, 1, 2, lowest], np.float32)], [np.zeros(4, np.float32)]], channels=True
    )
    assert (calibration["x"].min, calibration["x"].max, calibration["x"].ignored) == (0.0, 2.0, 1)
    seen = calibration["y"]
    assert (seen.min, seen.max) == (0.0, np.log(np.float32(2)))
    assert (seen.count, seen.ignored) == (2, 6)  # log(1), log(2); log(lowest) and five times log(0)
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
        ([np.zeros((1, 4, 3), np.float32)], ModelError, "got ndarray"),  # only for a model of one input
    ],
)
def test_wrong_samples_end_in_a_sentence(
    samples: object, error: type[Exception], message: str, model: ck.Model
) -> None:
    with pytest.raises(error, match=message):
        ck.calibrate(model, samples)  # type: ignore[arg-type]


def test_an_unknown_tensor_is_refused(model: ck.Model, samples: list[dict[str, np.ndarray]]) -> None:
    for names in (["i"], "i"):
        with pytest.raises(ModelError, match="no computed float tensor is named 'i'"):
            ck.calibrate(model, samples, channels=names)


def test_a_name_as_a_string_selects_one_tensor() -> None:
    model = ck.parse("graph main(%first: f32[2]) -> %second { %second = Neg(%first) }")
    found = ck.calibrate(model, [np.ones(2, np.float32)], channels="first", histograms="second").main
    assert [name for name, seen in found.items() if seen.channels is not None] == ["first"]
    assert [name for name, seen in found.items() if seen.histogram is not None] == ["second"]


def test_the_axis_of_channels_must_exist_and_keep_its_size(
    model: ck.Model, samples: list[dict[str, np.ndarray]]
) -> None:
    with pytest.raises(ModelError, match="channels of %x: expected an axis of a tensor of rank 3, got 3"):
        ck.calibrate(model, samples, channels={"x": 3})
    two = "graph main(%x: f32[2]) -> %y { %y = Neg(%x) }\n\ngraph branch(%x: f32[2,3]) -> %y { %y = Neg(%x) }"
    with pytest.raises(ModelError, match="channels of %x: expected an axis of a tensor of rank 1, got 1"):
        ck.calibrate(ck.parse(two), [[np.ones(2, np.float32)]], channels={"x": 1})
    for wrong in ("a", True):  # True alone selects all tensors, but is no axis of one
        with pytest.raises(ModelError, match=f"channels of %x: expected an integer as axis, got {wrong!r}"):
            ck.calibrate(model, samples, channels={"x": wrong})
    unknown = ck.parse("graph main(%x: f32[*]) -> %y { %y = Neg(%x) }")
    for axis in (2, -3):
        with pytest.raises(ShapeError, match=f"expected an axis of a tensor of rank 2, got {axis}") as raised:
            ck.calibrate(unknown, [[np.ones((2, 3), np.float32)]], channels={"x": axis})
        assert list(raised.value.where) == ["for %x", "in sample 0"]
    changing = ck.parse("graph main(%x: f32[?]) -> %y { %y = Neg(%x) : f32[?] }")
    with pytest.raises(ShapeError, match="got 1 and then 3 on axis 0") as caught:
        ck.calibrate(changing, [[np.ones(n, np.float32)] for n in (1, 3)], channels=["x"])
    assert "for %x, in sample 1" in str(caught.value)
    every = ck.calibrate(changing, [[np.ones(n, np.float32)] for n in (1, 3)], channels=True).main
    assert [seen.channels for seen in every.values()] == [None, None]


def test_samples_may_have_the_names_of_a_signature(samples: list[dict[str, np.ndarray]]) -> None:
    model = ck.parse(TEXT)
    x, i = model.main.inputs
    model.signatures = [Signature("serving_default", model.main, {"image": x, "index": i}, {})]
    named = [{"image": sample["x"], "index": sample["i"]} for sample in samples]
    assert ck.calibrate(model, named)["a"].minima == ck.calibrate(model, samples)["a"].minima
    with pytest.raises(ShapeError, match="missing %i"):
        ck.calibrate(model, [{"image": samples[0]["x"]}])
    model.signatures.append(Signature("other", model.main, {"picture": x, "index": i}, {}))
    with pytest.raises(ShapeError, match="unknown %picture"):  # two arrays for %x
        ck.calibrate(model, [{**named[0], "picture": named[0]["image"]}])


LARGEST = float(np.finfo(np.float32).max)
BELOW = float(np.nextafter(np.float32(LARGEST), np.float32(0)))


@pytest.mark.parametrize(
    ("numbers", "kept"),
    [
        ([1.0, 2.0], [1.0, 2.0]),
        ([LARGEST, -1.0], [-1.0]),
        ([-LARGEST, -1.0, 3.0], [-1.0, 3.0]),
        ([BELOW, 0.0], [BELOW, 0.0]),
        ([np.nan, np.inf, -np.inf, 5.0], [5.0]),
        ([np.nan], []),
        ([-LARGEST, LARGEST], []),
        ([], []),
    ],
    ids=str,
)  # fmt: skip
def test_which_numbers_belong_to_a_range(numbers: list[float], kept: list[float]) -> None:
    array = np.array(numbers, np.float32)
    seen = observed(array, 0 if numbers else None, histogram=True)
    assert (seen.count, seen.ignored) == (len(kept), len(numbers) - len(kept))
    if kept:
        assert (seen.low, seen.high) == (np.float32(min(kept)), np.float32(max(kept)))
        assert seen.histogram is not None
        assert seen.channels is not None
        assert seen.histogram.counts.sum() == len(kept)
        ignored_as_zero = [float(np.float32(n)) if n in kept else 0.0 for n in numbers]
        assert seen.channels.minima.tolist() == seen.channels.sums.tolist() == ignored_as_zero
    else:
        assert np.isnan([seen.low, seen.high]).all()
        assert (seen.histogram, seen.channels) == (None, None)


@pytest.mark.parametrize("axis", [0, 1, 2, -1, -3])
def test_statistics_of_channels(axis: int) -> None:
    array = np.random.default_rng(1).normal(size=(2, 3, 4)).astype(np.float16)
    seen = observed(array, axis).channels
    assert seen is not None
    parts = [part.astype(np.float64).ravel() for part in np.moveaxis(array, axis, 0)]
    assert (seen.axis, seen.count) == (axis % 3, parts[0].size)
    for found, function in (
        (seen.minima, np.min), (seen.maxima, np.max), (seen.sums, np.sum), (seen.mean, np.mean),
        (seen.square_sums, lambda p: np.square(p).sum()), (seen.mean_square, lambda p: np.square(p).mean()),
    ):  # fmt: skip
        np.testing.assert_allclose(found, [function(part) for part in parts], rtol=1e-6)
    scalar = observed(np.array(3.0, np.float32), 0).channels
    assert scalar is not None
    assert (scalar.count, scalar.minima.tolist()) == (1, [3.0])
    empty = ChannelStatistics(0, 0, *(np.zeros(1) for _ in range(4)))
    assert empty.mean.tolist() == empty.mean_square.tolist() == [0.0]


@pytest.mark.parametrize(("given", "kept"), [("", "data.npz"), ("my samples", "my samples")])
def test_the_source_of_a_calibration_is_the_path_unless_it_is_given(
    given: str, kept: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    np.savez("data.npz", x=np.ones((2, 1, 3), np.float32))
    net = ck.parse("graph main(%x: f32[1,3]) -> %y { %y = Neg(%x) }")
    assert collect(net, "data.npz", source=given).source == kept
