# SPDX-License-Identifier: Apache-2.0
"""``circledump --text``, read back by the other commands: the same models, optimized equally."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import circlekit
from circlekit.cli.dump import circledump
from circlekit.io.write.save import to_bytes
from circlekit.ir.model_equality import difference
from circlekit.ir.text import print_model
from tests.cli.all_commands.test_scripts import run_script
from tools.models import round_trip
from tools.models.__main__ import main

ROOT = Path(__file__).parents[2]
SAMPLE = ROOT / "recipes" / "nets"


def test_a_printed_model_is_optimized_as_its_file(shared: Path, tmp_path: Path) -> None:
    """The text is printed by one process, and read by another."""
    source, text, target = shared / "models/tico/cbr.circle", tmp_path / "cbr.ck", tmp_path / "cbr.circle"
    with text.open("w") as stream:
        done = run_script("circledump", "--text", str(source), stdout=stream)
    assert (done.returncode, done.stderr) == (0, "")
    assert "Opaque" not in text.read_text()
    assert run_script("circle2circle", str(text), str(target), "--O1").returncode == 0
    model = circlekit.load(source)
    assert circlekit.optimize(model, "O1").changes
    assert difference(circlekit.load(to_bytes(model)), circlekit.load(target)) is None


def test_the_sweep_of_a_sample() -> None:
    """``python -m tools.models text ../shared recipes`` takes a minute; this test takes recipes/nets only."""
    command = [sys.executable, "-m", "tools.models", "text", str(SAMPLE)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    count = len([*SAMPLE.glob("*.ck")])
    assert count
    assert done.stdout == f"{count} models, 0 wrong\n"
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    ("old", "new", "fault"),
    [
        ("Relu(", "Relu6(", "it is a Relu6 in the other model"),
        ("2.0", "2.5", "1 of 2 elements differ, first 2.0 and 2.5"),
        ("%a", "%b", "name"),
        ("Mul(%x, %a)", "Opaque(%x, %a) {code: \"CUSTOM\", custom_code: \"Mul\"}", "CUSTOM Mul"),
    ],
)  # fmt: skip
def test_the_sweep_finds_what_changes(
    old: str,
    new: str,
    fault: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    path = tmp_path / "net.ck"
    path.write_text(
        "graph main(%x: f32[2]) -> %z {\n"
        "  %a = const f32[2] [2.0, 3.0]\n  %y = Mul(%x, %a)\n  %z = Relu(%y)\n}"
    )
    assert main(["text", str(tmp_path)]) == 0
    monkeypatch.setattr(round_trip, "print_model", lambda model: print_model(model).replace(old, new))
    assert main(["text", str(tmp_path)]) == 1
    assert fault in capsys.readouterr().out


def test_shortened_text_is_for_reading(capsys: pytest.CaptureFixture[str]) -> None:
    source = str(SAMPLE / "tconv_bn.ck")
    assert circledump(["--text", "--shorten", source]) == 0
    text = capsys.readouterr().out
    assert " elements]" in text
    assert "base64" not in text
    assert circledump(["--shorten", source]) == 255
    assert "--shorten needs --text" in capsys.readouterr().err
