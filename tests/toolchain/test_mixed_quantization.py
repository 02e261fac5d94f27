# SPDX-License-Identifier: Apache-2.0
"""one-quantize --ampq (automatic mixed precision): uint8 and int16, mixed by bisection or by patterns."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import circlekit
from circlekit.toolchain.drivers import all_drivers


def mixed(*words: str) -> int:
    """Run one-quantize on the file net.tflite of the fixture ``work``; return the exit code."""
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
    assert numbers
    assert all((errors.parent / f"quantized_{number}.mpq.circle").exists() for number in numbers)
    final = json.loads((errors.parent / "FinalConfiguration.mpq.json").read_text())
    assert final["default_quantization_dtype"] == "uint8"


HEADING = """>> Searching mixed precision configuration
model: {model}
dataset: {data}
quantized dtype: {dtype}
granularity: {granularity}
input dtype: {input}
output dtype: uint8
TF_style_maxpool: {pool}
save_min_max: False
Automatic mixed quantization using {method}
"""


@pytest.mark.parametrize(
    ("words", "shown"),
    [
        ("--bisection_type i16_front", {}),
        ("--bisection_type i16_back --TF-style_maxpool", {"pool": "True"}),
        ("--ampq_algorithm pattern --input_type int16", {"method": "patterns", "input": "int16"}),
        ("--ampq_algorithm pattern --quantized_dtype int16 --granularity channel",
         {"method": "patterns", "dtype": "int16", "granularity": "channel"}),
        ("--bisection_type i16_front --input_data in.npy", {"data": "in.npy"}),
    ],
)  # fmt: skip
def test_the_heading_says_what_is_asked_for(
    work: Path, capsys: pytest.CaptureFixture[str], words: str, shown: dict[str, str]
) -> None:
    np.save("in.npy", np.ones((2, 1, 4, 4, 2), np.float32))
    assert mixed(*words.split()) == 0
    shown = {
        "data": "", "dtype": "uint8", "granularity": "layer", "input": "uint8", "pool": "False",
        "method": "bisection", **shown,
    }  # fmt: skip
    log = next(line for line in Path("q.circle.log").read_text().splitlines() if "circle-mpqsolver" in line)
    program, *words_of_one = log.split()
    model = words_of_one[1]
    assert Path(model).name == "net.minmax_recorded.circle"
    data = f" --data {shown['data']}" if shown["data"] else ""
    granularity = f" --granularity {shown['granularity']}"
    assert log == f"{program} --input_model {model} --output_model q.circle{granularity}{data}"
    assert HEADING.format(model=model, **shown) in capsys.readouterr().out
    graph = circlekit.load("q.circle").main
    ports = [value.dtype.short for value in (*graph.inputs, *graph.outputs)]
    assert ports == ["i16" if shown["input"] == "int16" else "u8", "u8"]
    if shown["method"] == "patterns":
        dtypes = {value.name: value.dtype.short for value in graph.values()}
        assert dtypes["m"] == ("i16" if shown["dtype"] == "int16" else "u8")


@pytest.mark.parametrize(
    ("kind", "name", "ratio"),
    [("i16_front", "Q16AtFront", "0"), ("i16_back", "Q8AtFront", "1"), ("auto", "auto", "0.25")],
)
def test_the_output_names_the_kind_of_bisection(
    work: Path, capsys: pytest.CaptureFixture[str], kind: str, name: str, ratio: str
) -> None:
    assert mixed("--bisection_type", kind, "--ampq_qerror_ratio", ratio) == 0
    printed = capsys.readouterr().out
    assert f"algorithm: bisection ({name})\nqerror metric: MAE\ntarget qerror ratio: {ratio}\n" in printed
    assert {path.name for path in work.iterdir()} == {"net.tflite", "q.circle", "q.circle.log"}


def test_patterns_keep_their_configuration(work: Path) -> None:
    words = ["--ampq_algorithm", "pattern", "--u8_softmax_with_s16_sub_exp", "--save_intermediate"]
    assert mixed(*words) == 0
    document = json.loads((work / "FinalConfiguration.mpq.json").read_text())
    assert document["default_quantization_dtype"] == "uint8"
    assert document["model_path"] == str(work / "net.minmax_recorded.circle")
    assert not (work / "errors.mpq.txt").exists()


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
    for name, parts in (("y", "Q16, while the rear will be Q8"), ("z", "Q8, while the rear will be Q16")):
        larger = {tag: float(tag == name) for tag in "ymz"}
        Path("e.json").write_text(json.dumps({**document, "error": [larger]}))
        assert mixed("--ampq_bisection_visq", "e.json") == 0
        assert f"Front part will be {parts}" in capsys.readouterr().out
    Path("bad.json").write_text("{")
    assert mixed("--ampq_bisection_visq", "bad.json") != 0
    assert "Invalid visq file" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--ampq_algorithm", "random"], "ampq_algorithm: expected bisection or pattern, got 'random'"),
        (["--bisection_type", "left"], "expected auto or i16_front or i16_back, got 'left'"),
        (["--bisection_type", "i16_back", "--ampq_qerror_ratio", "1.5"], "from 0 to 1, got 1.5"),
        (["--bisection_type", "i16_back", "--ampq_qerror_ratio", "-0.5"], "from 0 to 1, got -0.5"),
        (["--bisection_type", "i16_back", "--ampq_qerror_ratio", "nan"], "from 0 to 1, got nan"),
        (["--bisection_type", "i16_back", "--ampq_qerror_ratio", "abc"], "invalid float value: 'abc'"),
    ],
)
def test_wrong_options(
    work: Path, capsys: pytest.CaptureFixture[str], words: list[str], message: str
) -> None:
    assert mixed(*words, "--save_intermediate") != 0
    assert message in capsys.readouterr().err
    assert {path.name for path in work.iterdir()} == {"net.tflite"}, "no ranges were recorded"
