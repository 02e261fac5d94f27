# SPDX-License-Identifier: Apache-2.0
"""``circlekit.check`` and ``circle-check``: what a runtime cannot run, why, and what helps."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import circlekit
from circlekit.cli import front_door
from circlekit.cli.check import main
from circlekit.errors import UnsupportedError
from circlekit.targets.target import Target
from tests.cli.call_command import call_command
from tests.targets.toy import toy

HARD_SWISH = """
graph main(%x: f32[1,4]) -> %y {
  %a = Tanh(%x)
  %y = HardSwish(%a)
}
"""

HARD_SWISH_PARTS = ("TANH", "ADD", "MUL", "RELU6", "MAXIMUM", "MINIMUM", "DIV")

LRN = "graph main(%x: f32[1,2,2,4]) -> %y {\n  %y = LocalResponseNormalization(%x)\n}"


def test_a_finding_names_operator_place_reason_and_remedy() -> None:
    (finding,) = circlekit.check(circlekit.parse(HARD_SWISH), toy(*HARD_SWISH_PARTS))
    assert (finding.target, finding.graph, finding.index) == ("toy", "main", 1)
    assert (finding.operator, finding.result, finding.reason) == ("HARD_SWISH", "y", "Toy has no HARD_SWISH")
    assert finding.remedy


def test_a_remedy_is_a_pass_where_no_legalization_helps() -> None:
    """A pass of O1, or one that is in no pipeline."""
    parts = "graph main(%x: f32[1,4], %z: f32[1,4]) -> %y {\n  %n = Neg(%z)\n  %y = Add(%x, %n)\n}"
    first, second = circlekit.check(circlekit.parse(parts), toy("SUB"))
    assert first.remedy == second.remedy == "circlekit optimize --O1 --target toy replaces it"
    minus = "graph main(%x: f32[1,4]) -> %y {\n  %y = Sub(%x, [1.0, 2.0, 3.0, 4.0])\n}"
    (finding,) = circlekit.check(circlekit.parse(minus), toy("ADD", "NEG", "MUL"))
    assert finding.remedy == "the pass --replace_sub_with_add replaces it"


INT8 = """
graph main(%x: i8[1,3,4,5] quant(scale: 0.5)) -> %y {
  %y = Transpose(%x, [0,2,3,1]) : i8[1,4,5,3] quant(scale: 0.5)
}
"""


BLOCKS = """
graph main(%x: f32[?,4,4,2]) -> %y {
  %y = SpaceToDepth(%x) {block_size: 2} : f32[?,2,2,8]
}
"""


@pytest.mark.parametrize(
    ("text", "target", "remedy"),
    [
        (
            BLOCKS,
            "onert",
            "circlekit resize --shapes, with known sizes of the inputs, makes it one that runs; or",
        ),
        (LRN, toy(), "luci runs it (--target luci); or export operators that Toy has instead"),
        (LRN, toy(), "litert runs it in a .tflite file (--target litert)"),
        (INT8, "luci", "circlekit quantize --scheme uint8 --target luci, of the float model, makes it"),
        (INT8, "luci", "export TRANSPOSE for f32,i32:f32 or i64,i32:i64 or u8,i32:u8 or u8q,i32:u8q instead"),
        (LRN, toy(LOCAL_RESPONSE_NORMALIZATION={"f32:f32": {"rank": 3}}), "NORMALIZATION with ranks up to 3"),
    ],
)
def test_a_remedy_is_an_option_where_no_pass_helps(text: str, target: Target | str, remedy: str) -> None:
    (finding,) = circlekit.check(circlekit.parse(text), target)
    assert remedy in finding.remedy
    assert str(finding).endswith(f"{finding.reason}; {finding.remedy}")


def test_a_model_that_runs_has_no_finding_and_stays_as_it_is() -> None:
    model = circlekit.parse(HARD_SWISH)
    before = str(model), model.main.ops, model.main.epoch
    assert circlekit.check(model, toy("TANH", "HARD_SWISH")) == []
    circlekit.check(model, toy("TANH"))
    assert (str(model), model.main.ops, model.main.epoch) == before


def test_several_targets_give_a_finding_each() -> None:
    found = circlekit.check(circlekit.parse(LRN), "luci,tflm")
    assert [finding.target for finding in found] == ["tflm"]  # ONE's interpreter has the kernel
    with pytest.raises(UnsupportedError, match="no target is named onnx"):
        circlekit.check(circlekit.parse(LRN), "luci,onnx")


# -- the command -------------------------------------------------------------------------------


@pytest.fixture
def files(tmp_path: Path) -> tuple[str, str]:
    bad, good = tmp_path / "bad.circle", tmp_path / "good.circle"
    circlekit.save(circlekit.parse(LRN), bad)
    circlekit.save(circlekit.parse("graph main(%x: f32[4]) -> %y {\n  %y = Relu(%x)\n}"), good)
    return str(bad), str(good)


def test_the_command_in_a_process(files: tuple[str, str]) -> None:
    bad, good = files
    done = call_command("circlekit", "check", bad, good, "--target", "tflm")
    assert (done.returncode, done.stderr) == (1, "")
    assert done.stdout.splitlines()[0] == f"{bad} > main > op 0 LOCAL_RESPONSE_NORMALIZATION > %y"
    assert "    TensorFlow Lite for Microcontrollers has no LOCAL_RESPONSE_NORMALIZATION" in done.stdout
    assert done.stdout.endswith("2 models: 1 run, 1 do not\n")


def test_exit_codes(files: tuple[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    bad, good = files
    assert main([good, "--target", "tflm"]) == 0
    assert main([bad, "--target", "luci"]) == 0
    assert main([bad, "--target", "tflm", "-q"]) == 1
    assert main([bad, "--target", "tlfm"]) == 2
    assert "did you mean tflm?" in capsys.readouterr().err
    assert main([bad, "--target", "none"]) == 1
    assert "there is no target to check for" in capsys.readouterr().err
    assert main([f"{bad}.missing", good, "--target", "tflm"]) == 1
    assert capsys.readouterr().out.endswith("2 models: 1 run, 1 do not\n")


def test_json(files: tuple[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    bad, good = files
    assert main([bad, good, "--target", "tflm", "--json"]) == 1
    first, second = json.loads(capsys.readouterr().out)
    page = (Path(__file__).parents[2] / "docs" / "guide" / "targets.md").read_text()
    assert all(f"`{key}`" in page for key in (*first, *first["findings"][0]))
    assert (first["pass"], second["pass"], second["findings"]) == (False, True, [])
    assert first["findings"][0]["operator"] == "LOCAL_RESPONSE_NORMALIZATION"


def test_the_result_of_an_optimization_in_a_process(files: tuple[str, str], tmp_path: Path) -> None:
    out = tmp_path / "out.circle"
    done = call_command("circlekit", "optimize", "--O1", "--target", "luci,tflm", files[0], str(out))
    assert done.returncode == 0
    text = " ".join(done.stdout.split())
    assert (
        "1 operator that TensorFlow Lite for Microcontrollers cannot run (1 before): "
        "1 LOCAL_RESPONSE_NORMALIZATION" in text
    )
    assert "ONE's interpreter cannot run" not in text


def test_an_unknown_target_of_an_optimization_is_wrong_usage(
    files: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    out = f"{files[1]}.out.circle"
    assert front_door.main(["optimize", "--O1", "--target", "lucy", files[0], out]) == 2
    assert "no target is named lucy; did you mean luci?" in capsys.readouterr().err
    assert not Path(out).exists()
