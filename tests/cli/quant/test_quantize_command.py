# SPDX-License-Identifier: Apache-2.0
"""circlekit quantize: files, flags, and what it prints."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import circlekit
from circlekit.cli.front_door import main
from circlekit.cli.quant.quantize import RANDOM_NOTE
from circlekit.quant.plan import Plan

LAYERS = """
graph main(%x: f32[1,99]) -> %y {
  %w = const f32[16,99] gaussian(0, 0.3)
  %b = const f32[16] gaussian(0, 0.1)
  %f = FullyConnected(%x, %w, %b)
  %y = Softmax(%f)
}
"""


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """A folder with net.ck, and data.npz with three samples."""
    (tmp_path / "net.ck").write_text(LAYERS)
    random = np.random.default_rng(5)
    np.savez(tmp_path / "data.npz", x=random.normal(0, 1, (3, 1, 99)).astype(np.float32))
    return tmp_path


def run(folder: Path, *words: str) -> int:
    return run_as_given(folder, "--no-auto", *words)


def run_as_given(folder: Path, *words: str) -> int:
    return main(["quantize", str(folder / "net.ck"), str(folder / "out.tflite"), *words])


def test_the_result_says_what_stays_float(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(files, "--inputs", str(files / "data.npz"), "--float", "SOFTMAX") == 0
    text = capsys.readouterr().out
    assert "SOFTMAX %y: chosen to stay float" in text
    model = circlekit.load(files / "out.tflite")
    assert [op.code for op in model.main] == ["QUANTIZE", "FULLY_CONNECTED", "DEQUANTIZE", "SOFTMAX"]


def test_a_quantized_model_says_that_nothing_is_left_to_do(
    files: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(files, "--random", "2") == 0
    once = files / "out.tflite"
    assert main(["quantize", str(once), str(files / "twice.tflite"), "--random", "2", "--no-auto"]) == 0
    text = capsys.readouterr().out.split("twice.tflite")[1]
    assert "nothing to quantize" in text
    assert "stays float" not in text
    assert (files / "twice.tflite").read_bytes() == once.read_bytes()


def test_without_data_the_error_names_the_flags(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(files) == 2
    assert "int8 needs the ranges of activations: expected --inputs, --random" in capsys.readouterr().err
    assert not (files / "out.tflite").exists()


@pytest.mark.parametrize("words", [[], ["--scheme", "weight_int8", "--set", "SOFTMAX=int8"]], ids=str)
@pytest.mark.parametrize("dtype", ["f16", "i8"])
def test_a_dequantize_of_weights_states_no_ranges_if_it_reads_floats(
    dtype: str, words: list[str], files: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """With --scheme weight_int8, quantize takes no scales from the model."""
    form = "quant(scale: 0.1)" if dtype == "i8" else ""
    weights = f"%s = const {dtype}[16,99] {form} constant(1)\n  %w = Dequantize(%s)"
    (files / "net.ck").write_text(LAYERS.replace("%w = const f32[16,99] gaussian(0, 0.3)", weights))
    states_ranges = dtype == "i8" and not words
    assert run(files, *words) == (0 if states_ranges else 2)
    said = "int8 needs the ranges of activations: expected --inputs" in capsys.readouterr().err
    assert said is not states_ranges


def test_a_model_that_states_its_ranges_needs_no_data(files: Path) -> None:
    rounded = "%q = FakeQuant(%x) {min: -2.0, max: 2.0, num_bits: 8}\n  %f = FullyConnected(%q,"
    (files / "net.ck").write_text(LAYERS.replace("%f = FullyConnected(%x,", rounded))
    assert run(files) == 0
    assert "FAKE_QUANT" not in [op.code for op in circlekit.load(files / "out.tflite").main]


def test_json_and_the_plan(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plan_file = files / "plan.json"
    words = ["--random", "3", "--io", "integer", "--json", "--save-plan", str(plan_file)]
    assert run(files, *words, "--set", "re:^y$=int16x8") == 0
    document = json.loads(capsys.readouterr().out)
    assert document["operators"] == {"int8": 1, "int16x8": 1}
    codes = [op.code for op in circlekit.load(files / "out.tflite").main]
    assert document["conversions"] == {"QUANTIZE": codes.count("QUANTIZE")}
    assert document["bytes"]["after"] < document["bytes"]["before"]
    assert "random" in document["notes"][0]
    plan = Plan.from_json(plan_file.read_text())
    assert plan.to_json() == plan_file.read_text()
    assert plan.main.tensors["x"].reason.startswith("covers its range")
    model = circlekit.load(files / "out.tflite")
    assert [v.dtype.short for v in (*model.main.inputs, *model.main.outputs)] == ["i8", "i16"]


def test_a_seed_chooses_the_random_samples(files: Path) -> None:
    def input_form(*words: str) -> tuple[object, ...]:
        """Return dtype, scale, zero point... of the input in the plan."""
        assert run(files, "--random", "2", *words, "--save-plan", str(files / "plan.json")) == 0
        return Plan.from_json((files / "plan.json").read_text()).main.tensors["x"].key

    assert input_form("--seed", "0") == input_form() == input_form()
    assert input_form("--seed", "5") == input_form("--seed", "5") != input_form()


def test_faults_end_with_a_sentence_and_without_a_file(
    files: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(files, "--random", "1", "--float", "re:(") == 1
    assert "not a regular expression" in capsys.readouterr().err
    assert run(files, "--random", "1", "--inputs", "x.npz") == 2
    assert run(files, "--inputs", "x.npz", "--seed", "1") == 2
    assert "--seed needs --random" in capsys.readouterr().err
    assert not (files / "out.tflite").exists()


def test_a_note_says_that_samples_are_random_if_they_matter(
    files: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for words, said in (
        (["--random", "1"], True),
        (["--random", "1", "--scheme", "float16"], False),
        (["--scheme", "float16"], False),
        (["--random", "1", "--scheme", "weight_int8", "--set", "SOFTMAX=int8"], True),
        (["--random", "1", "--scheme", "weight_int8", "--float", "SOFTMAX"], False),
        (["--random", "1", "--scheme", "weight_int4", "--raise-to", "int16x8", "--target-sqnr", "99"], True),
        (["--random", "1", "--scheme", "weight_int4", "--raise-to", "int16x8", "--target-sqnr", "1"], False),
        (["--random", "1", "--float", "re:."], False),
        (["--random", "1", "--scheme", "one_uint8"], True),
    ):
        assert run(files, "--json", *words) == 0
        assert (RANDOM_NOTE in json.loads(capsys.readouterr().out)["notes"]) is said, words


def test_sources_of_ranges_exclude_each_other(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for words in (["--calibration", "c.json", "--plan", "p.json"], ["--random", "1", "--plan", "p.json"]):
        assert run(files, *words) == 2
        assert "exclude each other" in capsys.readouterr().err


def test_a_plan_decides_everything(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plan, out = str(files / "plan.json"), files / "out.tflite"
    assert run(files, "--random", "2", "--save-plan", plan, "--set", "SOFTMAX=int16x8") == 0
    written = out.read_bytes()
    assert run_as_given(files, "--plan", plan) == 0
    assert out.read_bytes() == written
    for words in (
        ["--float", "SOFTMAX"], ["--set", "SOFTMAX=int8"], ["--only", "y"], ["--budget", "20%"],
        ["--target-sqnr", "9"], ["--scheme", "int8"], ["--io", "float"], ["--raise-to", "float"],
        ["--estimator", "min_max"], ["--target", "litert"], ["--no-optimize"], ["--no-auto"],
        ["--seconds", "1"], ["--without", "gptq"],
    ):  # fmt: skip
        assert run_as_given(files, "--plan", plan, *words) == 2, words
        assert "--plan decides everything" in capsys.readouterr().err
    assert run_as_given(files, "--plan", plan, "--save-plan", f"{plan}.again", "--json") == 0
