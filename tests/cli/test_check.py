# SPDX-License-Identifier: Apache-2.0
"""``circlekit check`` and ``circle-check``: the operators that a runtime cannot run."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path

import pytest

import circlekit
from circlekit.cli import front_door
from circlekit.cli.check import main
from tests.cli.call_command import call_command

LRN = "graph main(%x: f32[1,2,2,4]) -> %y {\n  %y = LocalResponseNormalization(%x)\n}"


@pytest.fixture
def files(tmp_path: Path) -> tuple[str, str]:
    bad, good = tmp_path / "bad.circle", tmp_path / "good.circle"
    circlekit.save(circlekit.parse(LRN), bad)
    circlekit.save(circlekit.parse("graph main(%x: f32[4]) -> %y {\n  %y = Relu(%x)\n}"), good)
    return str(bad), str(good)


def test_the_result_of_several_models(files: tuple[str, str]) -> None:
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


def test_an_optimization_says_what_its_targets_cannot_run(files: tuple[str, str], tmp_path: Path) -> None:
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


def test_what_is_printed_of_one_model_and_of_several(
    files: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    bad, good = files
    for words in (["-q"], ["-q", "--json"]):
        assert main([bad, good, "--target", "tflm", *words]) == 1
        assert capsys.readouterr().out == ""
    assert main([good, "--target", "tflm"]) == 0
    assert "models:" not in capsys.readouterr().out
    assert main([good, "--target", "tflm", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["file"] == good


@pytest.mark.parametrize("columns", [60, 90])
def test_findings_are_as_wide_as_the_terminal(
    columns: int, files: tuple[str, str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    for target in ("litert-xnnpack", "tflm"):
        main([*files, "--target", target, "--format", "tflite"])
        lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith("    ")]
        assert columns - 20 < max(map(len, lines)) <= columns


def test_the_file_is_named_if_there_are_several(
    files: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    for paths, prefix in ((files[:1], ""), (files, f"{files[0]} > ")):
        main([*paths, "--target", "tflm"])
        assert capsys.readouterr().out.startswith(f"{prefix}main > op 0 ")


def test_operators_that_do_not_run_are_counted_among_all(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    two = LRN.replace("%y = ", "%z = Relu(%x)\n  %y = ")
    circlekit.save(circlekit.parse(two.replace("-> %y", "-> %y, %z")), tmp_path / "two.circle")
    assert main([str(tmp_path / "two.circle"), "--target", "tflm"]) == 1
    assert "cannot run 1 of 2 operators" in " ".join(capsys.readouterr().out.split())


def test_the_delegate_is_judged_on_the_same_model_as_the_operators(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Legalization replaces INSTANCE_NORM by operators that the delegate runs, but only in a written file."""
    monkeypatch.setenv("COLUMNS", "300")
    text = "graph main(%x: f32[1,2,2,1]) -> %y {\n  %a = InstanceNorm(%x, [1.0], [0.0])\n  %y = Relu(%a)\n}"
    path = str(tmp_path / "norm.circle")
    circlekit.save(circlekit.parse(text), path)
    assert main([path, "--target", "litert-xnnpack"]) == 1
    verdict, delegate = capsys.readouterr().out.splitlines()[-2:]
    assert verdict.endswith("cannot run 1 of 2 operators")
    assert delegate.startswith(
        "    its delegate runs 1 of 2 operators in 1 partition, not 1 INSTANCE_NORM; after"
    )


def test_the_delegate_is_named_among_several_targets_and_graphs(
    files: tuple[str, str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("COLUMNS", "300")
    main([files[1], "--target", "litert-xnnpack,luci"])
    (line,) = capsys.readouterr().out.splitlines()[1:]
    assert line.startswith("    the delegate of LiteRT with XNNPACK runs 1 of 1 operators")
    main_graph = "graph main(%x: f32[4]) -> %y {\n  %y = Relu(%x)\n}\n"
    circlekit.save(circlekit.parse(main_graph + main_graph.replace("main", "more")), tmp_path / "two.circle")
    main([str(tmp_path / "two.circle"), "--target", "litert-xnnpack"])
    (line,) = capsys.readouterr().out.splitlines()[1:]
    assert line.startswith("    of the main graph, its delegate runs 1 of 1 operators")


OUTPUT_READ = "graph main(%x: f32[4]) -> %a, %y {\n  %a = Relu(%x)\n  %b = Abs(%a)\n  %y = OP(%b)\n}"


@pytest.mark.parametrize(
    ("operator", "verdict"), [("Abs", "cannot run it"), ("Ceil", "cannot run 1 of 3 operators")]
)
def test_an_output_with_a_problem_is_not_counted_as_an_operator(
    operator: str, verdict: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The target runs the RELU that computes %a, but releases the memory of %a too early; it has no CEIL."""
    path = str(tmp_path / "net.circle")
    circlekit.save(circlekit.parse(OUTPUT_READ.replace("OP", operator)), path)
    assert main([path, "--target", "onert"]) == 1
    printed = " ".join(capsys.readouterr().out.split())
    assert "releases the memory of this output" in printed
    assert printed.endswith(f"onert {verdict}")
    main([path, "--target", "onert", "--json"])
    flags = [found["is_output"] for found in json.loads(capsys.readouterr().out)["findings"]]
    assert flags.count(True) == 1
    assert len(flags) == 1 + (operator == "Ceil")


def test_each_target_has_its_own_verdict(
    files: tuple[str, str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "300")
    for targets, verdict in (
        ("tflm", "TensorFlow Lite for Microcontrollers runs it"),
        ("tflm,luci", "TensorFlow Lite for Microcontrollers runs it; ONE's interpreter runs it"),
    ):
        assert main([files[1], "--target", targets]) == 0
        assert capsys.readouterr().out.splitlines() == [f"{files[1]}: {verdict}"]
    assert main([files[0], "--target", "tflm,luci"]) == 1
    verdict = "TensorFlow Lite for Microcontrollers cannot run 1 of 1 operators; ONE's interpreter runs it"
    assert capsys.readouterr().out.splitlines()[-1] == f"{files[0]}: {verdict}"


def test_a_model_from_the_standard_input_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    text = b"graph main(%x: f32[2]) -> %y { %y = Abs(%x) : f32[2] }"
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text)))
    assert main(["-", "--target", "litert"]) == 0
    assert capsys.readouterr().out == "<stdin>: LiteRT runs it\n"
