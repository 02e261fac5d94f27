# SPDX-License-Identifier: Apache-2.0
"""Mistakes of a first-time user: wrong file names, streams and arguments; no input file is overwritten."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest

import circlekit
from circlekit.cli import circle2circle, dump, inspection
from circlekit.cli.recipes import chefs, circle_reduce, dredd
from tests.cli.all_commands.test_scripts import run_script
from tests.cli.call_command import call_command

Main = Callable[[Sequence[str] | None], int]
Output = pytest.CaptureFixture[str]

NET = "graph main(%x: f32[2]) -> %y { %y = Abs(%x) : f32[2] }"


@pytest.fixture
def net(tmp_path: Path) -> Path:
    (tmp_path / "net.ck").write_text(NET)
    circlekit.save(circlekit.load(tmp_path / "net.ck"), tmp_path / "net.circle")
    return tmp_path / "net.circle"


@pytest.mark.parametrize(
    ("main", "words"),
    [
        (inspection.circle_tensordump, ["--tensors_to_hdf5"]),
        (chefs.circlechef_reverse, []),
        (chefs.tflchef_reverse, []),
    ],
)
def test_input_model_is_not_overwritten(main: Main, words: list[str], net: Path, capsys: Output) -> None:
    before = net.read_bytes()
    (net.parent / "link").symlink_to(net)
    for target in (net, net.parent / "link"):
        # circle-tensordump takes the target first
        names = [str(target), str(net)] if words else [str(net), str(target)]
        assert main([*words, *names]) in (1, 255)
        said = capsys.readouterr().err
        assert said.endswith(f": {target} is an input; choose another file to write\n")
        assert net.read_bytes() == before


@pytest.mark.parametrize(
    "words",
    [
        "circlekit calibrate net.circle data.npz --inputs data.npz",
        "circlekit run net.circle --inputs data.npz -o data.npz",
        "circlekit run-all O1 . -o out --json net.circle",
        "dredd net.ck --junit net.ck",
        "fme-detect --input net.circle --output net.circle",
        "fm-equalize -i net.circle -o out.circle -f net.circle",
        "fm-equalize -i net.circle -o out.circle -d data.npz -f data.npz",
        "circle-operator net.circle --output_path net.circle",
        "one-init -i net.tflite -o net.tflite",
    ],
)
def test_no_output_overwrites_an_input(words: str, net: Path) -> None:
    np.savez(net.with_name("data.npz"), x=np.zeros((1, 2), np.float32))
    net.with_name("net.tflite").write_bytes(net.read_bytes())
    before = {path: path.read_bytes() for path in net.parent.iterdir()}
    done = call_command(*words.split(), cwd=net.parent)
    assert "is an input; choose another file to write\n" in done.stderr
    assert done.returncode not in (0, 2)
    assert {path: path.read_bytes() for path in net.parent.iterdir()} == before


@pytest.mark.parametrize(
    ("main", "other"), [(chefs.tflchef_file, "circle"), (chefs.circlechef_file, "tflite")]
)
def test_chefs_write_their_own_format(main: Main, other: str, net: Path, capsys: Output) -> None:
    target = net.parent / f"out.{other}"
    assert main([str(net.with_suffix(".ck")), str(target)]) == 255
    assert f"the extension is for {other}, but" in capsys.readouterr().err
    assert not target.exists()
    assert main([str(net.with_suffix(".ck")), str(target.with_suffix(".bin"))]) == 0


def test_target_of_circle_reduce_is_checked_before_the_search(net: Path, capsys: Output) -> None:
    for target in (net.parent, net.parent / "none" / "x.ck"):
        ran = net.parent / "ran"
        assert circle_reduce.main(["-o", str(target), str(net), "--", "touch", str(ran)]) == 1
        assert "director" in capsys.readouterr().err
        assert not ran.exists()


def test_the_result_of_circle_reduce_does_not_replace_its_input(net: Path, capsys: Output) -> None:
    before = net.read_bytes()
    assert circle_reduce.main([str(net), "-o", str(net), "--", "true"]) == 1
    assert "is an input" in capsys.readouterr().err
    assert net.read_bytes() == before


@pytest.mark.parametrize(
    "words",
    [
        "calibrate net.circle - --random 1",
        "quantize net.circle -o - --random 1",
        "fake-quantize net.circle - --inputs x.npy",
        "partition net.circle --opcode ABS=a --default b -o -",
        "compare net.circle net.circle --csv -",
        "dredd net.ck --json -",
        "dredd net.ck --junit -",
        "optimize net.circle out.circle --record -",
    ],
)
def test_results_that_cannot_go_to_the_standard_output(words: str, net: Path) -> None:
    done = call_command("circlekit", *words.split(), cwd=net.parent)
    assert done.returncode == 2
    assert "expected a file or a folder, got -, the standard output" in done.stderr
    assert not (net.parent / "-").exists()


def test_files_of_one_s_commands_cannot_go_to_the_standard_output(net: Path) -> None:
    for words in ("circlechef-file net.ck -", "tflchef-reverse net.circle -"):
        done = call_command(*words.split(), cwd=net.parent)
        assert done.returncode == 255
        assert "expected a file or a folder, got -, the standard output" in done.stderr
    assert not (net.parent / "-").exists()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            "quantize net.circle out.onnx --random 1",
            "out.onnx: unknown extension .onnx; expected .tflite, .l",
        ),
        ("fake-quantize net.circle out.onnx --inputs x.npy", "unknown extension .onnx"),
        ("extract net.circle -o out.onnx --ops 0", "unknown extension .onnx"),
        ("merge net.circle -o out.onnx", "unknown extension .onnx"),
        ("resize net.circle -o out.onnx --batch 2", "unknown extension .onnx"),
        ("recipe net.ck out.onnx", "expected the extension .circle or .tflite, or a format"),
        (
            "extract net.circle -o out.circle --ops 1-x",
            "expected numbers and ranges such as 1-3,5, got '1-x'",
        ),
        ("resize net.circle -o out.circle --shapes x", "Invalid shape format: x"),
        ("resize net.circle -o out.circle --input x=[1] --input x=[2]", "got an input twice"),
        ("merge net.circle net.ck -o out.circle --connect y=x --connect z=x", "got an input twice"),
        ("partition net.circle --opcode ABS=a --opcode ABS=b --default b -o out", "got a name twice"),
        ("resize net.circle -o out.circle --input x", "expected NAME=SHAPE, got 'x'"),
        ("resize net.circle -o out.circle --input x=[1],[2]", "expected NAME=SHAPE, got 'x=[1],[2]'"),
        (
            "quantize net.circle out.tflite --random 1 --budget 20",
            "expected 0% to 100% of one of operators, m",
        ),
        ("quantize net.circle out.tflite --budget 20%", "need samples: expected --inputs or --random"),
        ("quantize net.circle out.tflite --random 1 --set ABS=int9", "no scheme is named int9"),
        (
            "quantize net.circle out.tflite --random 1 --budget 9% --scheme one_uint8",
            "expected a scheme of Lit",
        ),
        ("compare - -", "expected at most one model from the standard input, got two"),
        ("view net.circle --measure macs", "--measure needs --node-data-only"),
        ("optimize net.circle net.circle -o out", "expected different models, got a model twice"),
        ("optimize --\x1b[31m", "unknown flag --\\x1b[31m ("),
    ],
)
def test_wrong_arguments_are_wrong_usage(words: str, message: str, net: Path) -> None:
    before = sorted(net.parent.iterdir())
    done = call_command("circlekit", *words.split(), cwd=net.parent)
    assert (done.returncode, done.stdout) == (2, "")
    assert message in done.stderr
    assert sorted(net.parent.iterdir()) == before


@pytest.mark.parametrize("words", [["--tries", "0"], ["--timeout", "0"], ["--timeout", "x"]])
def test_invalid_numbers_of_a_search_are_refused(words: list[str], net: Path, capsys: Output) -> None:
    assert circle_reduce.main([*words, str(net), "--", "true"]) == 2
    assert f"got '{words[1]}'" in capsys.readouterr().err


def test_search_runs_at_most_the_requested_number(net: Path, capsys: Output) -> None:
    assert circle_reduce.main(["--tries", "2", str(net), "--", "true"]) == 0
    assert "in 2 runs" in capsys.readouterr().out


def test_a_model_in_place_of_the_pass_to_explain_is_wrong_usage(net: Path, capsys: Output) -> None:
    assert circle2circle.main(["--explain", str(net), "out.circle"]) == 255
    assert f"expected the name of a pass, or all, got the file {net}" in capsys.readouterr().err


def test_mistyped_pass_of_a_case_is_wrong_usage(net: Path, capsys: Output) -> None:
    recipe = str(net.with_suffix(".ck"))
    assert dredd.main([recipe, "--passes", "remove_deed"]) == 2
    assert "there is no pass or pipeline 'remove_deed'" in capsys.readouterr().err
    assert dredd.main([recipe, "--passes", "remove-dead fold_cast,O1", "--no-litert"]) == 0


def test_keep_refuses_a_file_as_folder(net: Path, capsys: Output) -> None:
    assert dredd.main([str(net.with_suffix(".ck")), "--keep", str(net)]) == 1
    assert capsys.readouterr() == ("", f"error: {net}: expected a directory to write into, got a file\n")


@pytest.mark.parametrize("main", [inspection.circle_inspect, inspection.circle_verify, circle2circle.main])
@pytest.mark.parametrize(("data", "what"), [(b"", "it is empty"), (b"\1\0", "it ends after 2 bytes")])
def test_file_too_short_for_a_model_is_refused(
    main: Main, data: bytes, what: str, tmp_path: Path, capsys: Output
) -> None:
    path = tmp_path / "short.circle"
    path.write_bytes(data)
    words: dict[Main, list[str]] = {
        inspection.circle_inspect: ["--operators"],
        circle2circle.main: [str(tmp_path / "out.circle")],
    }
    assert main([str(path), *words.get(main, [])]) in (1, 255)
    assert f"not a model: {what}" in capsys.readouterr().err


def test_invalid_file_prints_no_partial_output(net: Path, capsys: Output) -> None:
    net.write_bytes(net.read_bytes()[:-20])
    assert dump.circledump([str(net)]) == 255
    assert capsys.readouterr().out == ""


def test_empty_file_name_is_refused(net: Path, capsys: Output) -> None:
    assert circle2circle.main(["", str(net.parent / "out.circle")]) == 1
    assert capsys.readouterr().err == "Failed to open file: a file without a name cannot be read\n"
    assert circle2circle.main([str(net), ""]) == 255
    assert capsys.readouterr().err == "ERROR: Failed to export '': a file without a name cannot be written\n"


def test_an_empty_list_of_passes_is_wrong_usage(net: Path, capsys: Output) -> None:
    """An unset shell variable gives such a list."""
    for main in (circle2circle.main, dredd.main):
        assert main([str(net), str(net.parent / "out.circle"), "--passes", ""]) in (2, 255)
        assert "expected names of passes, got ''" in capsys.readouterr().err


def test_chef_with_closed_streams(monkeypatch: pytest.MonkeyPatch, capsys: Output) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(sys, "stdin", None)
        assert chefs.tflchef([]) == 255
    assert capsys.readouterr().err == "ERROR: expected a recipe on the standard input, which is closed\n"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no device that is full")
def test_unwritable_help_page_is_an_error() -> None:
    with Path("/dev/full").open("w") as full:
        done = run_script("circle-verify", "--help", stdout=full)
    assert (done.returncode, done.stderr) == (
        1,
        "error: cannot write to the standard output: No space left on device\n",
    )
