# SPDX-License-Identifier: Apache-2.0
"""dalgona: hooks in Python around the operators of a run."""

from __future__ import annotations

import json  # noqa: F401  # puts the module into ``sys.modules``
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import circlekit
from circlekit.api.one_tools import analyze
from circlekit.cli.quant.dalgona import dalgona
from circlekit.equivalence.analysis_hooks import AnalysisError, load_analysis
from circlekit.errors import FileError

ANALYSIS = """
class Watch:
    def StartAnalysis(self, args):
        print("start", args)
    def EndAnalysis(self):
        print("end")
    def StartNetworkExecution(self, inputs):
        print("inputs", [t["name"] for t in inputs])
    def EndNetworkExecution(self, outputs):
        print("outputs", [t["data"].shape for t in outputs])
    def DefaultOpPre(self, name, opcode, inputs):
        print("pre", name, opcode, [t["is_const"] for t in inputs])
    def DefaultOpPost(self, name, opcode, inputs, outputs):
        print("post", name, outputs[0]["data"].max() >= inputs[0]["data"].max())
    def Conv2DPost(self, name, input, filter, bias, padding, stride, dilation, output, fused_act):
        print("conv", filter["data"].shape, bias["name"] != "", padding, stride, dilation, fused_act,
              output["quantparam"])
    def AddPre(self, name, x, y, fused_act):
        print("add", x["name"], y["is_const"], fused_act)
"""

WATCHED = """
graph main(%x: f32[1,4,4,2]) -> %z {
  %k = const f32[3,1,1,2] gaussian(0, 1)
  %c = Conv2D(%x, %k, [0.1, 0.2, 0.3]) {padding: VALID, act: RELU} : f32[1,4,4,3]
  %d = Add(%c, [1.0, 1.0, 1.0]) : f32[1,4,4,3]
  %z = Relu(%d)                 : f32[1,4,4,3]
}
"""


def test_hooks_of_an_analysis(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "Watch.py").write_text(ANALYSIS)
    circlekit.save(circlekit.parse(WATCHED), tmp_path / "net.circle")
    words = ["--input_model", str(tmp_path / "net.circle"), "--analysis", str(tmp_path / "Watch.py")]
    assert dalgona([*words, "--analysis_args", "text"]) == 0
    pair = "{'w': 1, 'h': 1}"
    assert capsys.readouterr().out.splitlines() == [
        "--input_data was not specified. Run with a random input.",
        "start text",
        "inputs ['x']",
        "pre c Conv2D [False, True, True]",
        f"conv (3, 1, 1, 2) True VALID {pair} {pair} relu "
        "{'scale': [], 'zero_point': [], 'quantized_dimension': 0}",
        "add c True none",
        "post d True",
        "pre z Relu [False]",
        "post z True",
        "outputs [(1, 4, 4, 3)]",
        "end",
        "Finished executing a random input",
    ]


def test_hooks_stand_around_the_run_of_an_operator() -> None:
    calls: list[str] = []

    class Watch:
        def DefaultOpPre(self, name: str, opcode: str, inputs: list[dict[str, Any]]) -> None:  # noqa: N802  # ONE's name
            calls.append(f"pre {opcode} {len(inputs)}")

        def DefaultOpPost(self, name: str, opcode: str, inputs: object, outputs: list[object]) -> None:  # noqa: N802  # as above
            calls.append(f"post {opcode} {len(outputs)}")

    text = """
    graph main(%x: f32[1,4]) -> %y {
      %c = Greater([2.0], [1.0])            : bool[1]
      %y = If(%c, %x) {then_graph: @halves, else_graph: @halves}
    }
    graph halves(%x: f32[1,4]) -> %a {
      %a, %b = Split(1, %x) {num_splits: 2} : f32[1,2], f32[1,2]
    }
    """
    assert analyze(circlekit.parse(text), Watch()) == 1
    assert calls == [
        "pre Greater 2",
        "post Greater 1",
        "pre If 2",
        "pre Split 2",
        "post Split 2",
        "post If 1",
    ]


def test_a_hook_that_fails_is_an_error_with_its_name() -> None:
    class Broken:
        def DefaultOpPost(self, *arguments: object) -> None:  # noqa: N802  # ONE's name
            raise KeyError("no")

    with pytest.raises(AnalysisError, match="DefaultOpPost: KeyError"):
        analyze(circlekit.parse(WATCHED), Broken())


def test_an_analysis_is_a_python_file_with_a_class_of_the_same_name(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "Other.py").write_text("x = 1\n")
    circlekit.save(circlekit.parse(WATCHED), tmp_path / "net.circle")
    words = ["--input_model", str(tmp_path / "net.circle"), "--analysis", str(tmp_path / "Other.py")]
    assert dalgona(words) == 255
    assert "expected a class Other" in capsys.readouterr().err
    (tmp_path / "Watch.txt").write_text("class Watch: pass")
    with pytest.raises(FileError, match="expected a Python file"):
        load_analysis(tmp_path / "Watch.txt")


def test_an_analysis_may_define_dataclasses_and_have_the_name_of_a_module(tmp_path: Path) -> None:
    (tmp_path / "json.py").write_text(
        "from __future__ import annotations\n"
        "from dataclasses import dataclass\n"
        "@dataclass\nclass json:\n    names: str = 'x'\n"
    )
    before = sys.modules["json"]
    assert load_analysis(tmp_path / "json.py").names == "x"  # type: ignore[attr-defined]  # of the user's class
    assert sys.modules["json"] is before


def test_an_absent_bias_and_the_data_of_an_empty_tensor_are_none() -> None:
    given: dict[str, Any] = {}

    class Watch:
        def TransposeConvPre(self, name: str, *arguments: Any) -> None:  # noqa: N802  # ONE's name
            given[name] = arguments

        def DefaultOpPre(self, name: str, opcode: str, inputs: list[dict[str, Any]]) -> None:  # noqa: N802  # as above
            given[name] = inputs

    text = """
    graph main(%x: f32[1,2,2,1], %e: f32[0]) -> %y, %n {
      %w = const f32[3,3,3,1] gaussian(0, 1)
      %y = TransposeConv([1,4,4,3], %w, %x) {padding: SAME, stride_h: 2, stride_w: 2} : f32[1,4,4,3]
      %n = Neg(%e)
    }
    """
    analyze(circlekit.parse(text), Watch())
    source, filter_, shape, bias, padding, stride = given["y"]
    assert (source["name"], filter_["name"], shape["data"].tolist()) == ("x", "w", [1, 4, 4, 3])
    assert (bias, padding, stride) == (None, "SAME", {"w": 2, "h": 2})
    assert given["n"][0]["data"] is None


def test_given_samples_are_counted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "Watch.py").write_text("class Watch:\n    pass\n")
    circlekit.save(circlekit.parse(WATCHED), tmp_path / "net.circle")
    np.savez(tmp_path / "x.npz", x=np.ones((2, 1, 4, 4, 2), np.float32))
    words = ["--input_model", str(tmp_path / "net.circle"), "--analysis", str(tmp_path / "Watch.py")]
    assert dalgona([*words, "--input_data", str(tmp_path / "x.npz")]) == 0
    assert capsys.readouterr().out == "Finished executing 2'th data\n"
