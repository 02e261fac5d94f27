# SPDX-License-Identifier: Apache-2.0
"""one-infer: the program that it runs, on which samples, and what it prints."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import circlekit
from circlekit.toolchain.drivers import all_drivers
from circlekit.toolchain.inference import infer

pytestmark = pytest.mark.usefixtures("work")  # each test runs in a folder of its own, with net.tflite


def call(words: str) -> int:
    return all_drivers()["one-infer"](words.split())


def test_some_program_must_be_named(capsys: pytest.CaptureFixture[str]) -> None:
    for words in (["--", "a"], ["-d", "", "--", "a"]):
        assert all_drivers()["one-infer"](words) == 2
        assert "required: -d/--driver" in capsys.readouterr().err


@pytest.mark.parametrize("words", ["-d npu-infer", "--backend npu", "-d npu-infer --backend cpu"])
def test_the_program_of_a_backend_runs(
    words: str, program: Callable[[str], None], capsys: pytest.CaptureFixture[str]
) -> None:
    assert call(f"{words} -- a b") == 255
    assert "npu-infer not found" in capsys.readouterr().err
    program("npu-infer")
    assert call(f"{words} --command c -- a b") == 0
    assert Path("called.txt").read_text() == "npu-infer a b c \n"
    assert call(f"{words} -- fail") == 7


def test_a_script_may_follow(capfd: pytest.CaptureFixture[str], program: Callable[[str], None]) -> None:
    program("npu-infer")
    Path("after.py").write_text("import sys\nprint('after', *sys.argv[1:])\nsys.exit(len(sys.argv) - 2)\n")
    words = ["-d", "npu-infer", "--post-process"]
    one_infer = all_drivers()["one-infer"]
    assert one_infer([*words, "after.py x", "--", "a"]) == 0
    assert capfd.readouterr().out == "npu-infer a\nafter x\n"
    assert one_infer([*words, "after.py x y", "--", "a"]) == 1
    assert capfd.readouterr().out == "npu-infer a\nafter x y\n"
    assert one_infer([*words, "after.py", "--", "fail"]) == 7
    assert "after" not in capfd.readouterr().out


@pytest.mark.parametrize("script", ["", " "])
def test_an_empty_post_process_runs_nothing(
    script: str, program: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    program("npu-infer")
    monkeypatch.setattr(sys, "executable", "no-such-python")
    assert all_drivers()["one-infer"](["-d", "npu-infer", "--post-process", script, "--", "a"]) == 0


def test_a_program_beside_the_commands_replaces_a_built_in_one(program: Callable[[str], None]) -> None:
    assert call("-d circlekit-infer -- net.tflite") == 0
    program("circlekit-infer")
    assert call("-d circlekit-infer -- net.tflite") == 0
    assert Path("called.txt").read_text() == "circlekit-infer net.tflite \n"


def test_a_runtime_alone_is_no_program(capsys: pytest.CaptureFixture[str]) -> None:
    assert call("-d onert -- net.tflite") == 255
    assert "onert not found" in capsys.readouterr().err


def test_a_configuration_is_checked_before_earlier_steps_run(
    run: Callable[..., tuple[int, str, str]], work: Path, program: Callable[[str], None]
) -> None:
    text = (
        "[onecc]\none-optimize=True\none-infer=True\n"
        "[one-optimize]\ninput_path=net.tflite\noutput_path=a.circle\n"
    )
    section = "[one-infer]\ndriver={}\ncommand=a.circle --output out.npz\n"
    code, _, errors = run([], text + section.format("npu-infer"))
    assert code == 255
    assert errors.startswith("one-infer: FileNotFoundError: npu-infer not found")
    assert not (work / "a.circle").exists()
    code, out, errors = run([], text + section.format("circlekit-infer"))
    assert (code, errors) == (0, "")
    assert out.startswith("0/z  float32[1, 4, 4, 3]  min ")
    assert Path("out.npz").exists()


def test_a_program_may_be_a_path(capsys: pytest.CaptureFixture[str]) -> None:
    path = Path("own.sh")
    path.write_text('#!/bin/sh\necho "own $*"\n')
    assert call("-d ./own.sh -- a") == 255
    assert "./own.sh not found" in capsys.readouterr().err
    path.chmod(0o755)
    for word in ("./own.sh", str(path.absolute())):
        assert call(f"-d {word} -- a") == 0
        assert capsys.readouterr().out == "own a\n"
    assert call("-d own.sh -- a") == 255
    assert "own.sh not found" in capsys.readouterr().err


# -- lines and samples ---------------------------------------------------------------------------


def lines(text: str, *words: str, runtime: str = "circlekit") -> list[str]:
    model = circlekit.parse(text)
    return infer(runtime, ["model", *words], lambda path: model)


@pytest.mark.parametrize("runtime", ["circlekit", "litert"])
def test_each_sample_is_run_from_the_initial_state(runtime: str) -> None:
    if runtime == "litert":
        pytest.importorskip("ai_edge_litert")
    text = (
        "graph main(%x: f32[1,1]) -> %y {\n%f = const f32[1,1] [[1.0]]\n%t = const f32[1,2] [[1.0, 1.0]]\n"
        "%memory: f32[1,2] variable\n%y = Svdf(%x, %f, %t, none, %memory) {rank: 1}\n}"
    )
    np.save("in.npy", np.ones((2, 1, 1), np.float32))
    first, second = lines(text, "--inputs", "in.npy", runtime=runtime)
    assert first.removeprefix("0/") == second.removeprefix("1/") == "y  float32[1, 1]  min 1  max 1  mean 1"


def test_lines_have_type_range_and_mean() -> None:
    """For empty arrays and complex numbers, min, max and mean are printed as 0."""
    np.savez("in.npz", x=np.array([1, 2.5, -4, 6], np.float32))
    text = (
        "graph main(%x: f32[4]) -> %a, %b, %c, %d, %e {\n"
        "%a = Abs(%x)\n%b = Cast(%x) : i32[4]\n%c = Less(%x, 2.0)\n"
        "%d = Slice(%x, [0], [0])\n%e = Cast(%x) : c64[4]\n}"
    )
    assert lines(text, "--inputs", "in.npz") == [
        "0/a  float32[4]  min 1  max 6  mean 3.375",
        "0/b  int32[4]  min -4  max 6  mean 1.25",
        "0/c  bool[4]  min 0  max 1  mean 0.5",
        "0/d  float32[0]  min 0  max 0  mean 0",
        "0/e  complex64[4]  min 0  max 0  mean 0",
    ]


def test_infinite_outputs_have_no_warning() -> None:
    np.savez("in.npz", x=np.array([1, np.inf, -np.inf], np.float32))
    text = "graph main(%x: f32[3]) -> %y { %y = Neg(%x) }"
    assert lines(text, "--inputs", "in.npz") == ["0/y  float32[3]  min -inf  max inf  mean nan"]


def test_each_sample_has_its_outputs() -> None:
    text = "graph main(%x: f32[2]) -> %y { %y = Neg(%x) }"
    assert len(lines(text)) == 1
    samples = np.array([[1, 2], [3, 4], [5, 6]], np.float32)
    np.save("in.npy", samples)
    found = lines(text, "--inputs", "in.npy", "--output", "out.npz")
    assert [line.split("  ")[0] for line in found] == ["0/y", "1/y", "2/y"]
    with np.load("out.npz") as outputs:
        for number, sample in enumerate(samples):
            np.testing.assert_array_equal(outputs[f"{number}/y"], -sample)
