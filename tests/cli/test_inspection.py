# SPDX-License-Identifier: Apache-2.0
"""circle-verify, circle-inspect and their TFLite variants: ONE's lines, exit codes, JSON."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from circlekit.cli import inspection
from circlekit.io.write.save import to_bytes
from circlekit.ir.text import parse_model

TEXT = """
graph main(%x: f32[1,?,4,2]) -> %y {
  %w = const f32[3,3,3,2] gaussian(0, 1)
  %c = Conv2D(%x, %w) {padding: SAME}                    : f32[1,?,4,3]
  %k = Opaque(%w) {code: "CUSTOM", custom_code: "Keep"}  : f32[1,3,3,3]
  %d = DepthwiseConv2D(%c, %k) {padding: SAME}           : f32[1,?,4,3]
  %"a b" = Add(%d, %c)                                   : f32[1,?,4,3]
  %y = Mul(%"a b", [2.0, 2.0, 2.0])                      : f32[1,?,4,3]
}
graph other(%p: bool[2]) -> %q {
  %q = LogicalNot(%p) : bool[2]
}
"""

Output = pytest.CaptureFixture[str]


def write(path: Path, text: str = TEXT) -> str:
    path.write_bytes(to_bytes(parse_model(text), path.suffix[1:]))
    return str(path)


@pytest.fixture
def circle(tmp_path: Path) -> str:
    return write(tmp_path / "model.circle")


@pytest.mark.parametrize(
    ("flag", "lines"),
    [
        (
            "--operators",
            ["CONV_2D", "CUSTOM(Keep)", "DEPTHWISE_CONV_2D", "ADD", "MUL", "LOGICAL_NOT"],
        ),
        ("--conv2d_weight", ["CONV_2D,CONST", "DEPTHWISE_CONV_2D,CUSTOM(Keep)"]),
        ("--constants", ["w", "y/rhs"]),
        (
            "--op_version",
            ["ADD,1", "CONV_2D,1", "CUSTOM(Keep),1", "DEPTHWISE_CONV_2D,1", "LOGICAL_NOT,1", "MUL,1"],
        ),
        ("--tensor_dtype", ["x FLOAT32", "a b FLOAT32", "p BOOL"]),
        ("--tensor_shape", ["x [1,-1,4,2]", "w [3,3,3,2]", "a b [1,-1,4,3]", "p [2]"]),
    ],
)
def test_inspect(circle: str, capsys: Output, flag: str, lines: list[str]) -> None:
    assert inspection.circle_inspect([flag, circle]) == 0
    found = capsys.readouterr().out.splitlines()
    if flag.startswith("--tensor"):
        assert set(lines) <= set(found)
        assert len(found) == 10  # 8 tensors in main, with the constants w and y/rhs, and 2 in other
    else:
        assert found == lines


def test_several_views_have_a_fixed_order(circle: str, capsys: Output) -> None:
    assert inspection.circle_inspect(["--constants", "--operators", circle]) == 0
    assert capsys.readouterr().out.startswith("CONV_2D\n")


def test_inspect_prints_json(circle: str, capsys: Output) -> None:
    assert inspection.circle_inspect(["--json", "--tensor_shape", "--op-version", circle]) == 0
    tree = json.loads(capsys.readouterr().out)
    assert set(tree) == {"tensor_shape", "op_version"}
    assert tree["tensor_shape"][0] == ["x", [1, -1, 4, 2]]
    assert tree["op_version"]["CONV_2D"] == 1


SUMMARY = """\
{path}
  format      {format}, {size:,} bytes
  inputs      %x: f32[1,?,4,2]
  outputs     %y: f32[1,?,4,3]
  graphs      main (5), other (1)
  operators   6: 1 CONV_2D, 1 CUSTOM, 1 DEPTHWISE_CONV_2D, 1 ADD, 1 MUL,
              1 LOGICAL_NOT
  custom      1 Keep
  parameters  57
  MACs        324
  peak arena  {arena}
  constants   2 (228 bytes)
"""
"""Parameters: 54 weights and 3 factors.  MACs: 54 + 27 for each of 1 x 4 pixels, ``?`` counts as 1."""


ARENAS = {
    "circle": "372 bytes (ONE's execution plan)",
    "tflite": "498 bytes (LiteRT, built-in kernels, one thread)",
}


@pytest.mark.parametrize("format", ARENAS)
def test_inspect_summarizes(
    format: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Output
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    path = write(tmp_path / f"model.{format}")
    size = Path(path).stat().st_size
    assert inspection.circle_inspect([path]) == 0
    assert capsys.readouterr().out == SUMMARY.format(
        path=path, format=format, size=size, arena=ARENAS[format]
    )


@pytest.mark.parametrize(("text", "line"), [("", "operators   0"), ("%y = Neg(%x)", "operators   1: 1 NEG")])
def test_inspect_lists_no_kinds_if_there_are_no_operators(
    text: str, line: str, tmp_path: Path, capsys: Output
) -> None:
    path = write(
        tmp_path / "model.circle", f"graph main(%x: f32[2]) -> {'%y' if text else '%x'} {{ {text} }}"
    )
    assert inspection.circle_inspect([path]) == 0
    assert line in [row.strip() for row in capsys.readouterr().out.splitlines()]


def test_several_files_are_an_array(circle: str, capsys: Output) -> None:
    assert inspection.circle_inspect(["--json", circle, circle]) == 0
    first, second = json.loads(capsys.readouterr().out)
    assert first == second
    assert inspection.circle_inspect(["--json", circle]) == 0
    assert json.loads(capsys.readouterr().out) == first
    assert inspection.circle_verify(["--json", circle, circle]) == 0
    assert [document["pass"] for document in json.loads(capsys.readouterr().out)] == [True, True]


def test_summary_as_json(circle: str, capsys: Output) -> None:
    assert inspection.circle_inspect(["--json", circle]) == 0
    tree = json.loads(capsys.readouterr().out)
    assert tree["inputs"] == [
        {"name": "x", "type": "f32[1,?,4,2]", "dtype": "f32", "shape": [1, None, 4, 2], "quantization": None}
    ]
    assert (tree["parameters"], tree["macs"], tree["operator_count"], tree["constants"]) == (57, 324, 6, 2)


def test_graphs_are_listed_if_there_are_several(tmp_path: Path, capsys: Output) -> None:
    one = "graph main(%x: f32[2]) -> %y { %y = Abs(%x) }\n"
    for text, expected in ((one, None), (one + one.replace("main", "other"), "main (1), other (1)")):
        (tmp_path / "net.ck").write_text(text)
        assert inspection.circle_inspect([str(tmp_path / "net.ck")]) == 0
        lines = [line.split(maxsplit=1) for line in capsys.readouterr().out.splitlines()]
        assert [line[1] for line in lines if line[:1] == ["graphs"]] == ([expected] if expected else [])


def test_summary_of_an_invalid_model(tmp_path: Path, capsys: Output) -> None:
    """Wrong shapes have no cost; the summary shows the fault in its place.

    circlekit verify is mentioned only for a model file, because it takes no texts.
    """
    text = "graph main(%x: f32[2,3], %k: f32[2,4]) -> %y { %y = Add(%x, %k) : f32[2,3] }"
    (tmp_path / "m.ck").write_text(text)
    for path, is_file in ((write(tmp_path / "m.tflite", text), True), (str(tmp_path / "m.ck"), False)):
        assert inspection.tfl_inspect([path]) == 0
        out = capsys.readouterr().out
        assert "  operators  1: 1 ADD\n" in out
        assert "  fault      " in out
        assert ("circlekit verify" in out) is is_file
        assert "MACs" not in out


def test_several_files_are_all_visited(circle: str, tmp_path: Path, capsys: Output) -> None:
    short, missing = tmp_path / "short.tflite", str(tmp_path / "missing.circle")
    short.write_bytes(Path(circle).read_bytes()[:100])
    files = [missing, str(short), circle]
    assert inspection.circle_inspect(files) == 1
    out, err = capsys.readouterr()
    assert out.startswith(f"{circle}\n  format ")
    assert out.endswith("\n3 files: 1 read, 2 not\n")
    assert re.findall(r"^error: (.*?):", err, re.MULTILINE) == [missing, str(short)]
    assert inspection.circle_inspect(["--operators", circle, circle]) == 0
    assert capsys.readouterr().out.splitlines().count(f"==> {circle} <==") == 2
    assert inspection.circle_verify(files) == 1
    assert capsys.readouterr().out.splitlines() == [
        f"[ RUN       ] Check {short}",
        f"[      FAIL ] Check {short}",
        f"[ RUN       ] Check {circle}",
        f"[      PASS ] Check {circle}",
        "3 files: 1 valid, 2 not",
    ]
    assert inspection.circle_verify(["-q", *files]) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert re.findall(r"^error: (.*?):", err, re.MULTILINE) == [missing, str(short)]
    assert inspection.circle_verify(["--json", *files]) == 1
    trees = json.loads(capsys.readouterr().out)
    assert [(tree["file"], tree.get("pass")) for tree in trees] == [
        *zip(files, [None, False, True], strict=True)
    ]


def test_tflite_files(tmp_path: Path, capsys: Output) -> None:
    path = write(tmp_path / "model.tflite")
    assert inspection.tfl_inspect(["--operators", path]) == 0
    assert capsys.readouterr().out.splitlines()[0] == "CONV_2D"
    assert inspection.tfl_verify([path]) == 0
    assert inspection.circle_verify(["--json", path]) == 0
    assert '"format": "tflite"' in capsys.readouterr().out


def test_verify_prints_pass_as_one_does(circle: str, capsys: Output) -> None:
    assert inspection.circle_verify([circle]) == 0
    text = capsys.readouterr().out
    assert text == f"[ RUN       ] Check {circle}\n[      PASS ] Check {circle}\n"


def test_verify_fails_on_data_that_is_not_a_model(circle: str, capsys: Output) -> None:
    path = Path(circle)
    path.write_bytes(path.read_bytes()[:200])
    assert inspection.circle_verify([circle]) == 1
    out, err = capsys.readouterr()
    assert out.endswith(f"[      FAIL ] Check {circle}\n")
    assert "PASS" not in out
    assert err.startswith("error: ")
    assert inspection.circle_verify(["--json", circle]) == 1
    text = capsys.readouterr().out
    assert text.startswith('{\n  "schema": 1,\n')
    tree = json.loads(text)
    assert (tree["pass"], [f["rule"] for f in tree["findings"]]) == (False, ["flatbuffer"])


def test_verify_warns_of_an_invalid_model(tmp_path: Path, capsys: Output) -> None:
    path = write(tmp_path / "m.circle", "graph main(%x: f32[2]) -> %y {\n  %y: f32[2]\n}\n")
    assert inspection.circle_verify([path]) == 0
    assert (
        capsys.readouterr().err
        == "warning: subgraphs[0].outputs[0]: no operator computes tensor 1 'y' [no-producer]\n"
    )
    assert inspection.circle_verify(["--strict", path]) == 1
    assert "FAIL" in capsys.readouterr().out
    assert inspection.circle_verify([path, path]) == 0
    assert capsys.readouterr().err.startswith(f"warning: {path}: subgraphs[0].outputs[0]: ")


def test_missing_file_is_reported(capsys: Output) -> None:
    words = {inspection.circle_verify: [], inspection.circle_inspect: ["--operators"]}
    for command in (inspection.circle_verify, inspection.circle_inspect):
        assert command(["/absent.circle", *words[command]]) in (1, 255)
        assert "ERROR: /absent.circle" in capsys.readouterr().err
