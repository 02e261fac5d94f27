# SPDX-License-Identifier: Apache-2.0
"""ONE's commands: silent on success, errors in ONE's words, exit codes, the log of passes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

import circlekit
from circlekit.cli import circle2circle, dump
from circlekit.cli.quant import circle_quantizer, record_minmax
from circlekit.errors import CirclekitError

NET = "graph main(%x: f32[1,2]) -> %z {\n  %y = Neg(%x)\n  %z = Relu(%y)\n}\n"
Main = Callable[[Sequence[str]], int]


@pytest.fixture(autouse=True)
def net(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    circlekit.save(circlekit.parse(NET), "net.tflite")
    return tmp_path


@pytest.mark.parametrize("name", ["out.circle", "out", "out.opt", "x.onnx"])
def test_the_result_is_circle_under_any_name(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    for main, words in ((circle2circle.main, ["--O1"]), (circle2circle.tflite2circle, [])):
        assert main(["net.tflite", name, *words]) == 0
        assert capsys.readouterr() == ("", "")
        assert Path(name).read_bytes()[4:8] == b"CIR0"


def test_tflite2circle_writes_circle_even_as_tflite() -> None:
    assert circle2circle.tflite2circle(["net.tflite", "out.tflite"]) == 0
    assert Path("out.tflite").read_bytes()[4:8] == b"CIR0"


@pytest.mark.parametrize(
    ("main", "words", "code", "expected"),
    [
        (circle2circle.main, "none.circle out", 1, "Failed to open file: none.circle: "),
        (circle2circle.main, "bad.circle out", 1, "ERROR: Invalid input file 'bad.circle': "),
        (circle2circle.main, "net.tflite .", 255, "ERROR: Failed to export '.': "),
        (circle2circle.main, "net.tflite out --change_outputs n", 255,
         "ERROR: Change outputs failed: node not found: n"),
        (circle2circle.main, "net.tflite out --change_outputs x,y", 255,
         "ERROR: Change outputs failed: number of outputs should be 1"),
        (circle2circle.tflite2circle, "none.tflite out", 255, "Failed to open file: none.tflite: "),
        (circle2circle.tflite2circle, "net.tflite .", 255, "ERROR: Failed to write circle '.': "),
        (circle_quantizer.main, "--fake_quantize none.circle out", 1, "Failed to open file: none.circle: "),
        (circle_quantizer.main, "--fake_quantize net.tflite .", 255, "ERROR: Failed to export '.': "),
        (record_minmax.record_minmax, "--input_model net.tflite --output_model o --input_data bad.circle", 1,
         "ERROR: Given data file is not HDF5: bad.circle"),
        (dump.circledump, "none.circle", 255, "ERROR: none.circle: "),
    ],
)  # fmt: skip
def test_errors_are_worded_as_in_one(
    main: Main, words: str, code: int, expected: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("bad.circle").write_bytes(bytes(100))
    assert main(words.split()) == code
    out, error = capsys.readouterr()
    assert out == ""
    assert error.startswith(expected)
    assert error.count("\n") == 1
    assert not Path("out").exists()


def test_wrong_usage_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert circle2circle.main(["--O1"]) == 255
    sentence = "expected an input and an output (circle2circle --help lists the flags)"
    assert capsys.readouterr() == ("", f"ERROR: Invalid argument. {sentence}\n")


def test_the_log_of_passes(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    line = "After FuseActivationFunctionPass (changed: N)\n"
    assert circle2circle.main(["net.tflite", "out", "--fuse_activation_function", "--verbose"]) == 0
    assert line in capsys.readouterr().out
    monkeypatch.setenv("LUCI_LOG", "5")
    assert circle2circle.main(["net.tflite", "out", "--fuse_activation_function"]) == 0
    assert line in capsys.readouterr().out


def test_the_version_is_that_of_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert circle2circle.tflite2circle(["--version"]) == 0
    assert capsys.readouterr().out.startswith("tflite2circle version ")


def test_convert_refuses_a_wrong_extension_unless_told_otherwise() -> None:
    with pytest.raises(CirclekitError, match="the extension is for tflite"):
        circlekit.convert("net.tflite", "out.tflite", format="circle")
    circlekit.convert("net.tflite", "out.tflite", format="circle", is_strict=False)
