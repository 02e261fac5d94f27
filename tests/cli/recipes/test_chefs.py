# SPDX-License-Identifier: Apache-2.0
"""The commands tflchef, circlechef, their file and reverse variants, and circlekit recipe."""

from __future__ import annotations

import io
import sys
from pathlib import Path

import pytest

import circlekit
from circlekit.cli.recipes import chefs
from circlekit.ir.model_equality import difference
from circlekit.recipes.load import load_recipe

RECIPE = """
operand { name: "x" type: FLOAT32 shape { dim: 2 } }
operand { name: "y" type: FLOAT32 shape { dim: 2 } }
operation { type: "Abs" input: "x" output: "y" }
input: "x" output: "y"
"""
TEXT = "graph main(%x: f32[2]) -> %y { %y = Abs(%x) }"


class Stream:
    """A stand-in for the standard input or output of a command."""

    def __init__(self, data: bytes = b"") -> None:
        self.buffer = io.BytesIO(data)

    def flush(self) -> None:
        pass

    def isatty(self) -> bool:
        return False


COOKS = {
    "tflite": (chefs.tflchef, chefs.tflchef_file),
    "circle": (chefs.circlechef, chefs.circlechef_file),
}


@pytest.mark.parametrize("text", [RECIPE, TEXT])
@pytest.mark.parametrize("format", ["tflite", "circle"])
def test_recipe_is_cooked(text: str, format: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from_stream, from_file = COOKS[format]
    (tmp_path / "in").write_text(text)
    out = tmp_path / f"out.{format}"
    assert from_file([str(tmp_path / "in"), str(out)]) == 0
    assert circlekit.load(out).format == format
    stream = Stream()
    with monkeypatch.context() as patch:
        patch.setattr(sys, "stdin", Stream(text.encode()))
        patch.setattr(sys, "stdout", stream)
        assert from_stream([]) == 0
    assert stream.buffer.getvalue() == out.read_bytes()


@pytest.mark.parametrize("name", ["back.recipe", "back.ck"])
def test_model_is_reversed(name: str, tmp_path: Path) -> None:
    (tmp_path / "test.recipe").write_text(RECIPE)
    out, back = tmp_path / "a.tflite", tmp_path / name
    assert chefs.tflchef_file([str(tmp_path / "test.recipe"), str(out)]) == 0
    assert chefs.tflchef_reverse([str(out), str(back)]) == 0
    assert difference(load_recipe(back), circlekit.load(out)) is None
    assert chefs.circlechef_reverse([str(out), str(back)]) == 0
    assert load_recipe(back, "circle").format == "circle"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('operand { nam: "x" }', ":1:11: Operand has no field nam; did you mean name?"),
        (RECIPE.replace("Abs", "Absolut"), ":4:19: no operator is named Absolut; did you mean Abs?"),
        (RECIPE.replace('input: "x" output: "y" }', 'input: "z" output: "y" }'), "no operand is named z"),
    ],
)
def test_mistake_in_a_recipe_is_reported(
    text: str, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, out = tmp_path / "test.recipe", tmp_path / "out.tflite"
    path.write_text(text)
    assert chefs.tflchef_file([str(path), str(out)]) == 255
    first = capsys.readouterr().err.splitlines()[0]
    assert first.startswith(f"ERROR: {path}")
    assert message in first
    assert not out.exists()


def test_missing_file_is_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert chefs.tflchef_file([str(tmp_path / "none"), str(tmp_path / "x.tflite")]) == 255
    assert "cannot be read" in capsys.readouterr().err
    assert chefs.tflchef_file([]) == 255


def test_load_takes_a_recipe(tmp_path: Path) -> None:
    (tmp_path / "test.recipe").write_text(RECIPE)
    assert [op.code for op in circlekit.load(tmp_path / "test.recipe").main] == ["ABS"]


def test_a_recipe_becomes_a_model_on_the_standard_output(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "in.ck").write_text(TEXT)
    for words, format in (([], "circle"), (["--format", "tflite"], "tflite")):
        stream = Stream()
        with monkeypatch.context() as patch:
            patch.setattr(sys, "stdout", stream)
            assert chefs.recipe([str(tmp_path / "in.ck"), "-", *words]) == 0
        assert circlekit.load(stream.buffer.getvalue()).format == format


def test_closed_streams_end_in_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "in.ck").write_text(TEXT)
    for words, name, message in (
        (
            ["-", str(tmp_path / "out.circle")],
            "stdin",
            "expected a recipe on the standard input, which is closed",
        ),
        ([str(tmp_path / "in.ck"), "-"], "stdout", "cannot write to the standard output: it is closed"),
    ):
        with monkeypatch.context() as patch:
            patch.setattr(sys, name, None)
            assert chefs.recipe(words) == 1
        assert capsys.readouterr().err == f"error: {message}\n"


def test_a_terminal_gets_no_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "in.ck").write_text(TEXT)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    assert chefs.recipe([str(tmp_path / "in.ck"), "-"]) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("error: the standard output is a terminal; redirect it")


@pytest.mark.parametrize("words", [[], ["--format", "tflite"]])
def test_a_recipe_on_the_standard_input_becomes_a_file(
    words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "out.tflite"
    monkeypatch.setattr(sys, "stdin", Stream(TEXT.encode()))
    assert chefs.recipe(["-", str(target), *words]) == 0
    assert circlekit.load(target).format == "tflite"


def test_the_folder_says_nothing_about_a_recipe_on_the_standard_input(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The folder of a recipe's file may say its format, as in ONE: a recipe in CircleRecipes is circle."""
    folder = tmp_path / "CircleRecipes"
    folder.mkdir()
    monkeypatch.chdir(folder)
    Path("test.recipe").write_text(RECIPE)
    for name, format in (("test.recipe", "circle"), ("-", "tflite")):
        stream = Stream()
        with monkeypatch.context() as patch:
            patch.setattr(sys, "stdin", Stream(RECIPE.encode()))
            patch.setattr(sys, "stdout", stream)
            assert chefs.recipe([name, "-"]) == 0
        assert circlekit.load(stream.buffer.getvalue()).format == format
