# SPDX-License-Identifier: Apache-2.0
"""one-quantize --ampq: uint8 and int16 mixed by bisection or by patterns; one-import and one-version."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import circlekit
from circlekit.toolchain.drivers import all_drivers
from circlekit.toolchain.drivers.importing import one_import
from circlekit.toolchain.drivers.initializing import one_version


def mixed(*words: str) -> int:
    return all_drivers()["one-quantize"](["-i", "net.tflite", "-o", "q.circle", "--ampq", *words])


def test_bisection_keeps_its_files(work: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--bisection_type", "i16_front", "--ampq_qerror_ratio", "0.5", "--save_intermediate"]
    assert mixed(*words) == 0
    assert "algorithm: bisection" in capsys.readouterr().out
    assert {op.output.dtype.short for op in circlekit.load("q.circle").main} <= {"u8", "i16"}
    (errors,) = Path().rglob("errors.mpq.txt")
    found = {tag: float(error) for tag, error in (line.split() for line in errors.read_text().splitlines())}
    assert {"Q8", "Q16", "FINAL"} <= found.keys()
    numbers = [tag for tag in found if tag.isdigit()]
    assert all((errors.parent / f"quantized_{number}.mpq.circle").exists() for number in numbers)
    final = json.loads((errors.parent / "FinalConfiguration.mpq.json").read_text())
    assert final["default_quantization_dtype"] == "uint8"


def test_patterns_need_no_search(work: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert mixed("--ampq_algorithm", "pattern", "--u8_softmax_with_s16_sub_exp") == 0
    assert "Automatic mixed quantization using patterns" in capsys.readouterr().out
    assert {op.output.dtype.short for op in circlekit.load("q.circle").main} == {"u8"}


def test_the_side_of_auto_follows_from_the_errors(work: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert mixed("--save_intermediate") == 0
    assert "Front part will be" in capsys.readouterr().out
    (errors,) = Path().rglob("*.tae.visq.json")
    document = json.loads(errors.read_text())
    assert set(document["error"][0]) == {"y", "m", "z"}
    Path("e.json").write_text(errors.read_text())
    assert mixed("--ampq_bisection_visq", "e.json") == 0
    Path("bad.json").write_text("{")
    assert mixed("--ampq_bisection_visq", "bad.json") != 0
    assert "Invalid visq file" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ["--ampq_algorithm", "random"],
            "expected bisection (auto, i16_front, i16_back) or pattern, got random",
        ),
        (["--bisection_type", "left"], "or pattern, got bisection, left"),
        (["--bisection_type", "i16_back", "--ampq_qerror_ratio", "1.5"], "must be in [0, 1]"),
    ],
)
def test_wrong_options(
    work: Path, capsys: pytest.CaptureFixture[str], words: list[str], message: str
) -> None:
    assert mixed(*words) != 0
    assert message in capsys.readouterr().err
    assert not Path("q.circle").exists()


def test_one_import_has_help_a_version_and_kinds(work: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert one_import(["--help"]) == 0
    assert capsys.readouterr().out.startswith("usage: one-import")
    assert one_import(["-v"]) == 0
    assert capsys.readouterr().out.startswith("one-import version")
    assert one_import([]) == 2
    assert "got nothing" in capsys.readouterr().err
    assert one_import(["tflite", "-i", "net.tflite", "-o", "out.circle"]) == 0
    assert circlekit.load("out.circle").format == "circle"


def test_versions_are_those_of_commands(capsys: pytest.CaptureFixture[str]) -> None:
    assert one_version(["one-quantize"]) == 0
    assert capsys.readouterr().out.startswith("one-quantize version")
    assert one_version([]) == 0
    assert capsys.readouterr().out == circlekit.__version__
