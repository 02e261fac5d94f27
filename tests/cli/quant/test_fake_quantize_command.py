# SPDX-License-Identifier: Apache-2.0
"""circlekit fake-quantize: what it inserts and prints, and what it refuses."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import circlekit
from circlekit.cli.front_door import main

LAYER = """graph main(%x: f32[1,4]) -> %y {
  %w = const f32[3,4] gaussian(0, 1)
  %y = FullyConnected(%x, %w, [0.0, 0.5, 1.0]) {act: RELU}
}"""


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """A folder with net.ck, and data.npy with two samples."""
    (tmp_path / "net.ck").write_text(LAYER)
    np.save(tmp_path / "data.npy", np.array([[[1, 2, 3, 4]], [[-1, 0, 5, -2]]], np.float32))
    return tmp_path


def run(folder: Path, *words: str) -> int:
    return main(["fake-quantize", str(folder / "net.ck"), str(folder / "out.tflite"), *words])


def test_operators_and_table(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = ["--inputs", str(files / "data.npy")]
    assert run(files, *data, "--weight-bits", "4", "--activation-bits", "6", "--quantize-inputs") == 0
    text = capsys.readouterr().out
    assert "inserted 3: 1 input_quant, 1 act_quant, 1 weights_quant" in text
    found = [op for op in circlekit.load(files / "out.tflite").main if op.code == "FAKE_QUANT"]
    assert sorted(getattr(op, "num_bits", 0) for op in found) == [4, 6, 6]


def test_json_has_the_ranges_of_a_calibration(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = circlekit.load(files / "net.ck")
    calibration = circlekit.calibrate(model, str(files / "data.npy"))
    calibration.save(files / "ranges.json")
    assert run(files, "--calibration", str(files / "ranges.json"), "--json", "--no-optimize") == 0
    inserted = json.loads(capsys.readouterr().out)["inserted"]
    (activation,) = (entry for entry in inserted if entry["rule"] == "act_quant")
    assert (activation["min"], activation["tensor"]) == (0, "y")
    assert activation["max"] == calibration.graphs[0]["y"].max


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["--quant-delay", "100", "--inputs", "data.npy"], 2, "quant_delay has a meaning only in training"),
        (["--is_training"], 2, "is_training has a meaning only in training"),
        ([], 2, "expected either --inputs DATA or --calibration FILE"),
        (
            ["--inputs", "data.npy", "--weight-bits", "9"],
            2,
            "weight_bits: expected an integer from 2 to 8, got 9",
        ),
        (["--inputs", "data.npy", "--init-range", "-1", "1"], 2, "init_range is the start"),
    ],
)
def test_refusals_write_nothing(
    files: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    words: list[str],
    code: int,
    message: str,
) -> None:
    monkeypatch.chdir(files)
    assert run(files, *words) == code
    assert message in capsys.readouterr().err
    assert not (files / "out.tflite").exists()


def test_weights_and_activations_have_8_bits_unless_told_otherwise(files: Path) -> None:
    assert run(files, "--inputs", str(files / "data.npy")) == 0
    found = [op for op in circlekit.load(files / "out.tflite").main if op.code == "FAKE_QUANT"]
    assert [getattr(op, "num_bits", 0) for op in found] == [8, 8]


def test_the_calibration_and_samples_exclude_each_other(files: Path) -> None:
    data = str(files / "data.npy")
    assert run(files, "--inputs", data, "--calibration", "ranges.json") == 2


def test_a_moving_average_may_have_an_initial_range(files: Path) -> None:
    data = str(files / "data.npy")
    assert run(files, "--inputs", data, "--ema-decay", "0.5", "--init-range", "-1", "1") == 0
