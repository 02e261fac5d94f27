# SPDX-License-Identifier: Apache-2.0
"""circlekit optimize and convert: what the result says, standard streams, several models."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import tflite

import circlekit
from circlekit.cli import front_door
from circlekit.cli.output import progress_line
from circlekit.cli.result import MAX_PORTS, NO_PASS_HINT
from tests.cli.call_command import call_command
from tests.nets import TCONV_BATCH_NORM

Output = pytest.CaptureFixture[str]


@pytest.fixture
def net(tmp_path: Path) -> Path:
    path = tmp_path / "net.tflite"
    circlekit.save(circlekit.parse(TCONV_BATCH_NORM), path)
    return path


def called(*words: str | Path) -> subprocess.CompletedProcess[str]:
    return call_command("circlekit", *map(str, words))


def run(*words: str | Path) -> int:
    return front_door.main([str(word) for word in words])


def kinds(content: bytes) -> dict[str, int]:
    """Count the operators of a TFLite file with another reader than circlekit's."""
    model = tflite.Model.GetRootAs(content, 0)
    names = {number: name for name, number in vars(tflite.BuiltinOperator).items() if isinstance(number, int)}
    graph = model.Subgraphs(0)
    codes = [model.OperatorCodes(graph.Operators(i).OpcodeIndex()) for i in range(graph.OperatorsLength())]
    return dict(Counter(names[max(c.BuiltinCode(), c.DeprecatedBuiltinCode())] for c in codes))


def test_json_describes_the_files(net: Path) -> None:
    target = net.with_name("out.tflite")
    done = called("optimize", net, "-o", target, "--O1", "--verify", "--json")
    assert (done.returncode, done.stderr) == (0, "")
    found: dict[str, Any] = json.loads(done.stdout)
    assert (found["source"], found["target"], found["unchanged"]) == (str(net), str(target), False)
    for side, path in (("before", net), ("after", target)):
        assert found[side]["file_bytes"] == path.stat().st_size
        assert found[side]["operators"] == kinds(path.read_bytes())
        assert found[side]["operator_count"] == sum(found[side]["operators"].values())
    assert found["after"]["inputs"] == [{"name": "x", "dtype": "f32", "shape": [1, 4, 4, 2]}]
    # at stride 2, each weight serves a quarter of the results
    assert found["before"]["macs"] == 8 * 8 * 3 * 2 * 9 // 4
    assert "fuse_batchnorm_with_tconv" in [item["name"] for item in found["passes"]]
    (difference,) = found["differences"]
    assert difference["output"] == "y"
    assert 0 < difference["difference"] <= difference["tolerance"] < 1e-2
    assert found["seconds"] > 0


def test_the_standard_output_has_the_model_and_nothing_else(net: Path) -> None:
    command = [sys.executable, "-m", "circlekit", "optimize", "-", "-o", "-", "--O1"]
    done = subprocess.run(command, input=net.read_bytes(), capture_output=True, check=False)
    assert done.returncode == 0
    assert kinds(done.stdout) == {"TRANSPOSE_CONV": 1}  # with bias and fused activation
    words = done.stderr.decode()
    assert words.startswith("<stdin> -> <stdout>\ninput   %x: f32[1,4,4,2]\n")
    assert "fuse_batchnorm_with_tconv" in words


def test_a_failing_file_does_not_stop_the_others(net: Path) -> None:
    folder, bad = net.with_name("out"), net.with_name("bad.tflite")
    bad.write_bytes(net.read_bytes()[:400])
    absent = net.with_name("absent.circle")
    (net.parent / "text.ck").write_text(TCONV_BATCH_NORM)
    done = called("optimize", bad, net, absent, net.parent / "text.ck", "-o", folder, "--O1", "--verify")
    assert done.returncode == 1
    assert sorted(path.name for path in folder.iterdir()) == ["net.tflite", "text.circle"]
    errors = done.stderr.splitlines()
    assert all(line.startswith(f"error: {path}: ") for line, path in zip(errors, (bad, absent), strict=True))
    rows = {line.split()[0]: line.split() for line in done.stdout.splitlines()}
    assert rows["bad.tflite"] == ["bad.tflite", "FAILED"]
    assert rows["absent.circle"] == ["absent.circle", "FAILED"]
    sizes = [f"{path.stat().st_size:,}" for path in (net, folder / "net.tflite")]
    assert rows["net.tflite"][1:7] == ["3", "->", "1", sizes[0], "->", sizes[1]]
    assert rows["text.ck"][-1] == "verified"


def test_text_of_a_result(net: Path, capsys: Output) -> None:
    target = net.with_name("out.circle")
    assert run("optimize", net, "-o", target, "--O1", "--verify") == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[:3] == [f"{net} -> {target}", "input   %x: f32[1,4,4,2]", "output  %y: f32[1,8,8,3]"]
    rows = {line.split("  ")[0]: line.split()[-2:] for line in lines}
    assert rows["MUL"] == ["1", "0"]
    assert rows["operators"] == ["3", "2"]
    assert rows["fuse_batchnorm_with_tconv"][-1] == "1"
    assert any(line.startswith("verified: equal within ") and ", allowed " in line for line in lines)
    assert lines[-1].startswith("written in ")


def test_without_a_pass_there_is_a_hint_and_a_copy(net: Path) -> None:
    target = net.with_name("out.tflite")
    done = called("optimize", net, "-o", target)
    assert (done.returncode, done.stderr) == (0, "")
    *_, hint, conclusion = done.stdout.splitlines()
    assert hint == "no pass was asked for: --O1 runs the default pipeline"
    assert conclusion.startswith("copied unchanged in ")
    assert target.read_bytes() == net.read_bytes()


def test_nothing_to_do_is_said(net: Path, capsys: Output) -> None:
    assert run("optimize", net, "-o", net.with_name("a.tflite"), "--O1", "-q") == 0
    assert run("optimize", net.with_name("a.tflite"), "-o", net.with_name("b.tflite"), "--O1") == 0
    *_, nothing, conclusion = capsys.readouterr().out.splitlines()
    assert nothing == "nothing to do: no pass found anything to change"
    assert conclusion.startswith("copied unchanged in ")
    assert net.with_name("a.tflite").read_bytes() == net.with_name("b.tflite").read_bytes()


def test_quiet_circle2circle_prints_nothing(net: Path, capsys: Output) -> None:
    from circlekit.cli.circle2circle import main

    words = ["-q", "--verbose", "--explain", "fuse_neg", "--fold_cast", str(net)]
    assert main([*words, str(net.with_name("out.circle"))]) == 0
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize("words", [["optimize", "--O1"], ["convert"]])
def test_quiet_prints_nothing(words: list[str], net: Path, capsys: Output) -> None:
    for flags in ([], ["--json"]):
        assert run(*words, net, "-o", net.with_name("out.circle"), "--quiet", *flags) == 0
        assert capsys.readouterr() == ("", "")
    assert run(*words, net.with_name("none.circle"), "-o", net.with_name("b.circle"), "-q") == 1
    assert "none.circle" in capsys.readouterr().err


def test_a_larger_file_says_why(net: Path) -> None:
    """The circle file has an operator more: ONE does not fuse activations into TRANSPOSE_CONV."""
    assert run("optimize", net, "-o", net.with_name("a.tflite"), "--O1", "-q") == 0
    done = called("convert", net.with_name("a.tflite"), "-o", net.with_name("b.circle"))
    grown = net.with_name("b.circle").stat().st_size - net.with_name("a.tflite").stat().st_size
    out = done.stdout
    assert "replaced what .circle or its target lacks: split_transpose_conv_activation 1\n" in out
    assert f"grew by {grown} bytes: tables and alignment +" in out
    assert "pass" not in out


def test_json_of_several_models(net: Path, capsys: Output) -> None:
    folder = net.with_name("out")
    assert run("convert", net, net.with_name("none"), "-o", folder, "--format", "circle", "--json") == 1
    out, err = capsys.readouterr()
    found = json.loads(out)
    assert [item.get("after", {}).get("format") for item in found] == ["circle", None]
    assert found[1]["file"] == str(net.with_name("none"))
    assert f"error: {found[1]['error']}" == err.strip()


def test_every_key_of_the_document_is_documented(net: Path) -> None:
    page = (Path(__file__).parents[2] / "docs/guide/results.md").read_text()
    tables = page.partition("## JSON")[2].split("\n\n")
    keys = [set(re.findall(r"`(\w+)`", " ".join(re.findall(r"^\| ([^|]*) \|", t, re.M)))) for t in tables]
    document = circlekit.convert(net, net.with_name("b.circle")).document()
    assert document.keys() in keys
    assert document["before"].keys() | {"before", "after"} in keys


def test_progress_of_several_models_names_them(
    net: Path, monkeypatch: pytest.MonkeyPatch, capsys: Output
) -> None:
    monkeypatch.setattr(progress_line, "DELAY_SECONDS", 0)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "200")
    (net.parent / "text.ck").write_text(TCONV_BATCH_NORM)
    paths = [net, net.parent / "text.ck"]
    for flags, shown in (([], True), (["-q"], False)):
        monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
        assert run("optimize", *paths, "-o", net.with_name("out"), "--O1", *flags) == 0
        assert (" of text.ck (2 of 2)" in capsys.readouterr().err) is shown


def test_wrong_arguments_overwrite_nothing(net: Path, capsys: Output) -> None:
    before = net.read_bytes()
    (net.parent / "sub").mkdir()
    for name in ("other.tflite", "sub/net.tflite"):
        (net.parent / name).write_bytes(before)
    other = net.with_name("other.tflite")
    for words, message in (
        ([net, other, other], "expected one or more models, and -o PATH"),
        ([net, other, "-o", net], "expected a folder for 2 models, got the file"),
        ([net, "-", "-o", net.parent / "out"], "got - (a standard stream)"),
        ([net, other, "-o", "-"], "got - (a standard stream)"),
    ):
        assert run("optimize", *words, "--O1") == 2
        assert message in capsys.readouterr().err
    assert run("optimize", "", "/", "-o", net.parent / "new", "--format", "circle") == 1
    assert "a file without a name cannot be read" in capsys.readouterr().err
    assert run("optimize", net, "-o", net.parent, "--O1") == 1
    assert f"{net} is an input; choose another file to write" in capsys.readouterr().err
    assert run("optimize", "--O1", net, net.parent / "sub" / "net.tflite", "-o", net.parent / "out") == 1
    assert "was written to" in capsys.readouterr().err
    assert net.read_bytes() == other.read_bytes() == before
    assert not list(net.parent.glob("none*"))
    assert run("optimize", net.with_name("none"), "-o", f"{net.parent / 'new'}/") == 1
    assert not (net.parent / "new").exists()


def test_commands_of_one_take_the_flags_of_circlekit_too(net: Path, capsys: Output) -> None:
    from circlekit.cli.circle2circle import main, tflite2circle

    assert main([str(net), str(net.with_name("a.tflite")), "--O1", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["after"]["operator_count"] == 1
    assert tflite2circle([str(net), str(net.with_name("a.circle")), "-q"]) == 0
    assert capsys.readouterr().out == ""


def test_json_of_one_model_in_a_folder(net: Path, capsys: Output) -> None:
    assert run("convert", net, "-o", f"{net.with_name('out')}/", "--format", "circle", "--json") == 0
    assert json.loads(capsys.readouterr().out)["after"]["format"] == "circle"


def test_the_hint_of_several_models(net: Path, capsys: Output) -> None:
    """The hint is also printed if one of the models cannot be read."""
    missing, out = net.with_name("none"), net.with_name("out")
    assert run("optimize", net, missing, "-o", out) == 1
    assert NO_PASS_HINT in capsys.readouterr().out
    assert run("optimize", net, missing, "-o", out, "--remove_dead") == 1
    assert NO_PASS_HINT not in capsys.readouterr().out


def test_the_records_of_several_models_are_in_folders_of_their_names(net: Path) -> None:
    (net.parent / "text.ck").write_text(TCONV_BATCH_NORM)
    record = net.with_name("record")
    record.mkdir()
    words: list[str | Path] = [
        net,
        net.parent / "text.ck",
        "-o",
        f"{net.with_name('out')}/",
        "--record",
        record,
    ]
    assert run("optimize", *words, "--O1", "-q") == 0
    assert {path.name for path in record.iterdir()} == {net.stem, "text"}


@pytest.mark.parametrize("more", [-1, 0, 1, 3])
def test_many_inputs_and_outputs_are_listed_in_part(more: int, tmp_path: Path, capsys: Output) -> None:
    names = [f"%v{n}" for n in range(MAX_PORTS + more)]
    inputs = ", ".join(f"{name}: f32[2]" for name in names)
    (tmp_path / "net.ck").write_text(f"graph main({inputs}) -> {', '.join(names)} {{ }}")
    assert run("convert", tmp_path / "net.ck", "-o", tmp_path / "net.tflite") == 0
    lines = capsys.readouterr().out.splitlines()
    for side in ("input", "output"):
        listed = [line for line in lines if line.startswith(f"{side:6}  ")]
        rest = [f"{side:6}  ... and {more} more"] * (more > 0)
        assert len(listed) == min(len(names), MAX_PORTS) + len(rest)
        assert listed[MAX_PORTS:] == rest
