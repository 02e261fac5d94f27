# SPDX-License-Identifier: Apache-2.0
"""What commands say about names and files that they do not know."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.call_command import call_command
from tests.io.test_foreign_files import FILES, META_GRAPH, message


def test_files_of_other_programs_are_named(tmp_path: Path) -> None:
    """One process is given a file of each kind, and a folder."""
    expected = [*FILES.items(), ("TensorFlow SavedModel", (b"", "from_saved_model"))]
    paths = [tmp_path / f"net{number}.tflite" for number in range(len(expected))]
    for path, (data, _) in zip(paths, FILES.values(), strict=False):
        path.write_bytes(data)
    paths[-1].mkdir()
    (paths[-1] / "saved_model.pb").write_bytes(message((1, 1), (2, META_GRAPH)))
    command = [sys.executable, "-m", "circlekit", "inspect", *map(str, paths)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    lines = done.stderr.splitlines()
    assert len(lines) == len(paths)
    for line, path, (kind, (_, advice)) in zip(lines, paths, expected, strict=True):
        assert line.startswith(f"error: {path}: ")
        assert kind in line
        assert advice in line


def test_a_command_writes_nothing_for_a_git_lfs_pointer(tmp_path: Path) -> None:
    source = tmp_path / "net.tflite"
    source.write_bytes(FILES["git LFS pointer"][0])
    done = call_command("circlekit", "optimize", str(source), str(tmp_path / "out.circle"), "--O1")
    assert (done.returncode, done.stdout) == (1, "")
    assert "it is a git LFS pointer, not the file itself; run `git lfs pull`" in done.stderr
    assert [*tmp_path.iterdir()] == [source]


def test_near_flags_are_suggested_and_far_ones_are_not() -> None:
    # circlekit optimize has the flags -o and --O1: neither is suggested for --O2
    for flag, hint in (("--txet", "; did you mean --text?"), ("--colour", ""), ("--O2", "")):
        command = "circlekit optimize" if flag == "--O2" else "circlekit dump"
        done = call_command(*command.split(), flag, "net.circle")
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr.startswith(f"error: unknown flag {flag}{hint} (")


def test_three_flags_are_suggested_at_most() -> None:
    done = call_command("circle2circle", "a.circle", "b.circle", "--fuse_mul")
    assert done.stderr.count("--fuse_mul_") == done.stderr.count(" or ") + 1 == 3
    done = call_command("circlekit", "com")
    assert "did you mean compare or completion?" in done.stderr


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ("quantize net.ck o.tflite --scheme int9", ", one_int16, got 'int9'; did you mean int8? ("),
        ("quantize net.ck o.tflite --scheme of_no_name", ", one_int16, got 'of_no_name' ("),
        ("quantize net.ck o.tflite --scheme float16 --target tflite", "tflite; did you mean litert?"),
        (
            "quantize net.ck o.tflite --random 1 --raise-to int9",
            ", one_int16, got 'int9'; did you mean int8? (",
        ),
        ("resize net.ck -o o.tflite --batch two", "expected an integer, got 'two' ("),
        ("compare net.ck net.ck --min-sqnr much", "expected a finite number, got 'much' ("),
        ("check net.ck --target circle", "no target is named circle; did you mean luci?"),
        ("convert net.ck o.onnx", "or a format (--format) ("),
        (
            "inspect text.tflite",
            "text.tflite: expected a tflite file, got a text; as a recipe: text.tflite:1:1: ",
        ),
    ],
)
def test_one_line_says_what_to_write_instead(words: str, sentence: str, tmp_path: Path) -> None:
    (tmp_path / "net.ck").write_text("graph main(%x: f32[2]) -> %y { %y = Neg(%x) }")
    (tmp_path / "text.tflite").write_text("hello\n")
    done = call_command("circlekit", *words.split(), cwd=tmp_path)
    assert done.returncode in (1, 2)
    assert sentence in done.stderr


def test_an_operator_of_another_framework_suggests_that_of_the_schema(tmp_path: Path) -> None:
    source = tmp_path / "net.ck"
    source.write_text("graph main(%x: f32[2]) -> %y {\n  %y = Sigmoid(%x)\n}\n")
    done = call_command("circlekit", "optimize", str(source), str(tmp_path / "out.circle"))
    assert (done.returncode, done.stdout) == (1, "")
    assert "net.ck:2:8: no operator is named Sigmoid; did you mean Logistic?" in done.stderr
