# SPDX-License-Identifier: Apache-2.0
"""circle-reduce: a command decides which models show the fault, and the smallest one is written."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

import circlekit
from circlekit.cli.recipes.circle_reduce import main as circle_reduce
from circlekit.ir.text import parse_model

NET = """
graph main(%x: f32[2,9]) -> %d {
  %a = Relu(%x)
  %b = Tanh(%a)
  %c = Mul(%b, [3.25, 3.0, 3.0, 3.0, 3.0, 3.0, 3.0, 3.0, 3.0])
  %d = Neg(%c)
}
"""

COMMAND = """
import sys
import tflite
model = tflite.Model.GetRootAs(open(sys.argv[-1], "rb").read())
graph = model.Subgraphs(0)
ops = [graph.Operators(i) for i in range(graph.OperatorsLength())]
codes = [model.OperatorCodes(op.OpcodeIndex()).BuiltinCode() for op in ops]
sys.exit(0 if tflite.BuiltinOperator.TANH in codes else 1)
"""


@pytest.mark.slow
def test_the_reducing_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model, script = tmp_path / "net.tflite", tmp_path / "look.py"
    circlekit.save(parse_model(NET), model)
    script.write_text(COMMAND)
    assert circle_reduce([str(model), "--", sys.executable, str(script)]) == 0
    assert "4 operators became 1 in " in capsys.readouterr().out
    assert [op.code for op in circlekit.load(f"{model}.reduced.ck").main] == ["TANH"]


def test_a_command_that_says_no_at_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "net.ck").write_text(NET)
    assert circle_reduce([str(tmp_path / "net.ck"), "--", "false"]) == 1
    assert "false fails on " in capsys.readouterr().err
    assert circle_reduce([str(tmp_path / "net.ck"), "--", "no-such-command"]) == 1
    assert "cannot run no-such-command: " in capsys.readouterr().err


def test_a_format_that_lacks_an_operator_is_refused_before_the_work(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = "graph main(%x: f32[1,2,2,1]) -> %y { %y = InstanceNorm(%x, [1.0], [0.0]) }"
    (tmp_path / "net.ck").write_text(text)
    words = [str(tmp_path / "net.ck"), "-o", str(tmp_path / "small.tflite"), "--"]
    assert circle_reduce([*words, "touch", str(tmp_path / "was_run")]) == 1
    assert ".tflite has no operator INSTANCE_NORM" in capsys.readouterr().err
    assert not (tmp_path / "was_run").exists()


def test_braces_stand_for_the_file_and_the_output_may_be_named(tmp_path: Path) -> None:
    """``test -f FILE`` succeeds for every model, so one operator is left."""
    (tmp_path / "net.ck").write_text(NET)
    words = [str(tmp_path / "net.ck"), "-o", str(tmp_path / "a.tflite"), "--", "test", "-f", "{}"]
    assert circle_reduce(words) == 0
    assert len(circlekit.load(tmp_path / "a.tflite").main) == 1
