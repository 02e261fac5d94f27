# SPDX-License-Identifier: Apache-2.0
"""Errors about files in ONE's words, and the format of the files that ONE's commands write."""

from __future__ import annotations

from pathlib import Path

import pytest

import circlekit
from circlekit.cli.one.one_files import load_model, save_model
from circlekit.errors import CirclekitError, FileError, FormatError, ParseError
from circlekit.toolchain.one_words import NotWrittenError, one_words


@pytest.mark.parametrize(
    ("error", "kind", "message"),
    [
        (FileError("a: it is a folder"), FileError, "Failed to open file: a: it is a folder"),
        (FileError("w.bin: cannot be read"), FileError, "Failed to open file: a: w.bin: cannot be read"),
        (FileError("a: cannot be read: no"), FileError, "Failed to open file: a: cannot be read: no"),
        (FileError("b: cannot be written"), NotWrittenError, "No luck 'b': cannot be written"),
        (FormatError("a: no model"), FormatError, "Invalid input file 'a': no model"),
        (ParseError("a:1:1: no"), FormatError, "Invalid input file 'a': a:1:1: no"),
    ],
)
def test_errors_are_about_the_input_or_the_output(
    error: CirclekitError, kind: type[CirclekitError], message: str
) -> None:
    with pytest.raises(CirclekitError) as caught, one_words("a", "b", "No luck"):
        raise error
    assert (type(caught.value), caught.value.message) == (kind, message)


def test_a_path_without_a_name() -> None:
    expected = "^Failed to open file: a file without a name cannot be read$"
    with pytest.raises(FileError, match=expected), one_words("", ""):
        circlekit.load("")


def test_an_error_of_a_model_to_write_stays() -> None:
    with pytest.raises(FormatError, match=r"^too large$"), one_words("", "b"):
        raise FormatError("too large")


@pytest.mark.parametrize(("name", "format"), [("o", "circle"), ("o.bin", "circle"), ("o.tflite", "tflite")])
def test_models_are_written_as_circle_unless_the_name_says_tflite(
    name: str, format: str, tmp_path: Path
) -> None:
    model = circlekit.parse("graph main(%x: f32[2]) -> %y { %y = Neg(%x) }")
    model.format = "tflite"
    save_model(model, str(tmp_path / name))
    assert load_model(str(tmp_path / name)).format == format
