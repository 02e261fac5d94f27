# SPDX-License-Identifier: Apache-2.0
"""What commands, as processes, say about names and files that they do not know."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.test_scripts import run_script
from tests.io.test_foreign_files import FILES, META_GRAPH, message


@pytest.mark.parametrize(
    ("name", "content", "sentence"),
    [
        (
            "net.tflite",
            FILES["git LFS pointer"][0],
            "it is a git LFS pointer, not the file itself; run `git lfs",
        ),
        ("net.circle", FILES["ONNX"][0], "it is an ONNX model; convert it with onnx2tf"),
        (
            "saved_model.pb",
            message((1, 1), (2, META_GRAPH)),
            "it is a TensorFlow SavedModel; convert the folder",
        ),
    ],
)
def test_files_of_other_programs_are_named(name: str, content: bytes, sentence: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(content)
    source = tmp_path if name.endswith(".pb") else tmp_path / name
    done = run_script("circle2circle", str(source), str(tmp_path / "out.circle"), "--O1")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(f"error: {source}: ")
    assert sentence in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_near_flags_are_suggested_and_far_ones_are_not() -> None:
    done = run_script("circle2circle", "in.circle", "out.circle", "--verfy")
    assert (done.returncode, done.stdout) == (2, "")
    assert "unknown flag --verfy; did you mean --verify?" in done.stderr
    done = run_script("circle2circle", "in.circle", "out.circle", "--colour")
    assert (done.returncode, done.stdout) == (2, "")
    assert "unknown flag --colour (" in done.stderr


def test_an_operator_of_another_framework_suggests_that_of_the_schema(tmp_path: Path) -> None:
    source = tmp_path / "net.ck"
    source.write_text("graph main(%x: f32[2]) -> %y {\n  %y = Sigmoid(%x)\n}\n")
    done = run_script("circle2circle", str(source), str(tmp_path / "out.circle"))
    assert (done.returncode, done.stdout) == (1, "")
    assert "net.ck:2:8: no operator is named Sigmoid; did you mean Logistic?" in done.stderr
