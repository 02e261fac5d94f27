# SPDX-License-Identifier: Apache-2.0
"""tflite2circle and circle2tflite: the format changes, the values do not."""

from __future__ import annotations

from pathlib import Path

import pytest

import circlekit
from circlekit.cli.circle2circle import circle2tflite, tflite2circle

NORMS = """
graph main(%x: f32[1,4,4,3], %t: f32[2,8]) -> %y, %z {
  %y = InstanceNorm(%x, [1.0, 2.0, 3.0], [0.5, 0.0, -0.5]) {epsilon: 0.001} : f32[1,4,4,3]
  %z = RmsNorm(%t, [1.0, 1.0, 1.0, 1.0, 2.0, 2.0, 2.0, 2.0]) {epsilon: 0.001} : f32[2,8]
}
"""
FUSED = """
model tflite
graph main(%x: f32[1,4,4,2]) -> %y {
  %w = const f32[3,3,3,2] gaussian(0, 0.1)
  %y = TransposeConv([1,8,8,3], %w, %x) {padding: SAME, stride_h: 2, stride_w: 2, act: RELU} : f32[1,8,8,3]
}
"""


def test_operators_missing_in_tflite_are_lowered(tmp_path: Path) -> None:
    source, target = tmp_path / "in.ck", tmp_path / "out.tflite"
    source.write_text(NORMS)
    assert circle2tflite([str(source), str(target), "--verify"]) == 0
    assert target.read_bytes()[4:8] == b"TFL3"
    model = circlekit.load(target)
    assert not {"INSTANCE_NORM", "RMS_NORM"} & {op.code for op in model.graphs[0].ops}
    assert circlekit.compare(circlekit.load(source), model).equal


def test_activation_ignored_by_circle_runtimes_becomes_an_operator(tmp_path: Path) -> None:
    source, target = tmp_path / "in.ck", tmp_path / "out.circle"
    source.write_text(FUSED)
    assert tflite2circle([str(source), str(target), "--verify"]) == 0
    assert target.read_bytes()[4:8] == b"CIR0"
    model = circlekit.load(target)
    assert [op.code for op in model.graphs[0].ops] == ["TRANSPOSE_CONV", "RELU"]
    assert circlekit.compare(circlekit.load(source), model).equal


def test_an_extension_of_the_other_format_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = tmp_path / "in.ck"
    source.write_text(NORMS)
    assert circle2tflite([str(source), str(tmp_path / "out.circle")]) == 2
    assert "the extension is for circle, but the format is tflite" in capsys.readouterr().err
    assert circle2tflite([str(source), str(tmp_path / "out")]) == 0  # no extension


def test_a_missing_output_is_refused_and_help_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert tflite2circle(["one"]) == 255  # as ONE's tflite2circle does
    assert "output" in capsys.readouterr().err
    assert tflite2circle(["--help"]) == 0
    assert "the .circle file to write" in capsys.readouterr().out
