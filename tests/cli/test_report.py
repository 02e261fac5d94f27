# SPDX-License-Identifier: Apache-2.0
"""The commands circlekit report and circlekit view."""

from __future__ import annotations

import io
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

import circlekit
from circlekit.cli import front_door
from tests.cli.call_command import call_command

NET = """
graph main(%x: f32[1,4]) -> %y {
  %a = Mul(%x, [1.0, 1.0, 1.0, 1.0])
  %y = Logistic(%a)
}
"""


@pytest.fixture
def net(tmp_path: Path) -> Path:
    path = tmp_path / "net.tflite"
    circlekit.save(circlekit.parse(NET), path)
    return path


def process(*words: str, without: str) -> subprocess.CompletedProcess[str]:
    """Run ``circlekit`` in a process; ``without``: a package that cannot be imported."""
    hidden = f"sys.modules[{without!r}] = None"
    code = f"import sys; {hidden}; from circlekit.cli.front_door import main; sys.exit(main())"
    return subprocess.run([sys.executable, "-c", code, *words], capture_output=True, text=True, check=False)


def test_report_of_a_pipeline(net: Path) -> None:
    """The summary goes to stderr if the page goes to the standard output."""
    done = call_command("circlekit", "report", str(net), "--O1", "-o", "-")
    assert done.returncode == 0
    assert done.stdout.startswith("<!doctype html>")
    assert 'id="changes"' in done.stdout
    size, verdict = done.stderr.splitlines()
    assert size == f"wrote <stdout>: {len(done.stdout.encode()):,} bytes"
    assert re.fullmatch(r"values: (exactly )?equal.*", verdict)


def test_what_a_target_cannot_run_is_listed(net: Path) -> None:
    circlekit.save(circlekit.parse(NET.replace("Logistic(%a)", "Atan2(%a, %x)")), net)
    done = call_command("circlekit", "report", str(net), "--no-values", "--target", "tflm", "-o", "-")
    assert done.returncode == 0
    assert "op 1 ATAN2 &gt; %y: TensorFlow Lite for Microcontrollers has no ATAN2" in done.stdout
    plain = call_command("circlekit", "report", str(net), "--no-values", "--target", "none", "-o", "-")
    assert "has no ATAN2" not in plain.stdout
    unknown = call_command("circlekit", "report", str(net), "--target", "tflmm", "-o", "-")
    assert (unknown.returncode, unknown.stdout) == (2, "")
    assert "no target is named tflmm; did you mean tflm?" in unknown.stderr


def test_report_of_two_models_says_that_they_differ(net: Path, capsys: pytest.CaptureFixture[str]) -> None:
    other = net.with_name("other.tflite")
    circlekit.save(circlekit.parse(NET.replace("[1.0,", "[1.5,")), other)
    target = net.with_name("page.html")
    assert front_door.main(["report", str(net), str(other), "-o", str(target)]) == 0
    assert "values: different: output %y on " in capsys.readouterr().out
    assert target.read_text().startswith("<!doctype html>")
    assert front_door.main(["report", "-q", str(net), str(other), "-o", str(target)]) == 0
    assert capsys.readouterr().out == ""


def test_a_model_from_the_standard_input(net: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = net.with_name("page.html")
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(net.read_bytes())))
    assert front_door.main(["report", "-", "-o", str(target)]) == 0
    assert "LOGISTIC" in target.read_text()
    assert front_door.main(["report", "-", "-", "-o", str(target)]) == 2


def test_missing_jinja_names_the_extra(
    net: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "jinja2", None)
    assert front_door.main(["report", str(net), "-o", str(net.with_name("page.html"))]) == 1
    message = "error: reports need the package jinja2: pip install 'circlekit[report]'\n"
    assert capsys.readouterr() == ("", message)
    assert not net.with_name("page.html").exists()


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["missing.tflite"], 1, "missing.tflite"),
        (["{net}", "-o", "{net}"], 1, "is an input"),
        (["{net}", "-o", "none/page.html"], 1, "none"),
        (["{net}", "{net}", "--O1"], 2, "a second model or passes"),
        (["{net}", "--passes", "fuse_nothing"], 2, "fuse_nothing"),
        (["{net}", "--inputs", "none.npz"], 1, "none.npz"),
    ],
)
def test_mistakes_end_with_an_error_and_change_no_file(
    words: list[str], code: int, message: str, net: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = net.read_bytes()
    target = [] if "-o" in words else ["-o", str(net.with_name("page.html"))]
    assert front_door.main(["report", *(word.format(net=net) for word in words), *target]) == code
    assert message in capsys.readouterr().err
    assert net.read_bytes() == before
    assert not net.with_name("page.html").exists()


def test_view_without_viewer_says_how_to_install(net: Path) -> None:
    done = process("view", str(net), "--with", "netron", without="netron")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "error: netron is not installed: pip install netron\n"


def test_view_writes_node_data_of_a_measure_or_a_comparison(
    net: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = net.with_name("data.json")
    words = ["view", str(net), "--node-data-only", "-o", str(target)]
    assert front_door.main([*words, "--measure", "bytes"]) == 0
    assert capsys.readouterr().out == f"wrote {target}\n"
    (data,) = json.loads(target.read_text()).values()
    # tensors of 16 bytes: MUL has %x, the factors and %a; LOGISTIC has %a and %y
    assert [data["results"][str(i)]["value"] for i in range(2)] == [16 + 16 + 16, 16 + 16]
    assert front_door.main([*words, "--against", str(net)]) == 0
    (data,) = json.loads(target.read_text()).values()
    assert data["name"] == "relative difference"
    assert {entry["value"] for entry in data["results"].values()} == {0.0}
    other = net.with_name("other.tflite")
    other.write_bytes(net.read_bytes())
    assert front_door.main([*words[:-1], str(other), "--against", str(other)]) == 1
    assert other.read_bytes() == net.read_bytes()
    assert front_door.main(words[:-2]) == 2
    assert "-o FILE" in capsys.readouterr().err
