# SPDX-License-Identifier: Apache-2.0
"""circlekit completion: what bash completes with its script, and that zsh accepts its own."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from circlekit.cli import front_door
from tests.cli.call_command import call_command

COMPLETE = """
source "$1"; shift
complete -p circlekit
COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1))
$(complete -p circlekit | sed 's/.* -F \\([^ ]*\\) .*/\\1/') circlekit "${COMP_WORDS[-1]}" "${COMP_WORDS[-2]}"
printf '%s\\n' "${COMPREPLY[@]}"
"""
"""Source the script $1, and complete the last argument as bash does; $2 to the end are the command line."""


@pytest.fixture(scope="module")
def bash_script(tmp_path_factory: pytest.TempPathFactory) -> Path:
    done = call_command("circlekit", "completion", "bash")
    assert (done.returncode, done.stderr) == (0, "")
    path = tmp_path_factory.mktemp("completion") / "circlekit"
    path.write_text(done.stdout)
    return path


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["op"], {"optimize"}),
        ([""], set(front_door.SUMMARIES)),
        (["verify", "--str"], {"--strict"}),
        (["optimize", "--passes", "fuse_batchnorm_with_t"], {"fuse_batchnorm_with_tconv"}),
        (["passes", "remove_unnecessary_sp"], {"remove_unnecessary_split"}),
        (["convert", "--format", ""], {"circle", "tflite"}),
        (["optimize", "--fuse_batchnorm_with_t"], {"--fuse_batchnorm_with_tconv"}),
        (["inspect", "net.t"], {"net.tflite"}),
        (["run", "-o", "net.t"], {"net.tflite"}),
        (["quantize", "-o", "net.t"], {"net.tflite"}),
        (["calibrate", "net.tflite", "net.t"], {"net.tflite"}),
        (["run", "--inputs", "net.t"], {"net.tflite"}),
        (["run", "--signature", "net.t"], {""}),  # a name is no path
        (["optimize", "--freeze_batchnorm", "net.t"], {"net.tflite"}),
        (["recipe", "net.t"], {"net.tflite"}),
        (["recipe", "net.ck", "net.t"], {"net.tflite"}),
        (["dredd", "--keep", "n"], {"nets"}),
    ],
)
@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash")
def test_bash_completes(words: list[str], expected: set[str], bash_script: Path, tmp_path: Path) -> None:
    (tmp_path / "net.tflite").touch()
    (tmp_path / "nets").mkdir()
    command = ["bash", "--norc", "-c", COMPLETE, "bash", str(bash_script), "circlekit", *words]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=tmp_path)
    registration, *replies = done.stdout.splitlines()
    assert registration.startswith("complete ")
    assert set(replies) == expected


@pytest.mark.skipif(shutil.which("zsh") is None, reason="there is no zsh")
def test_zsh_accepts_its_script(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert front_door.main(["completion", "zsh"]) == 0
    script = capsys.readouterr().out
    assert script.startswith("#compdef circlekit\n")
    assert all(f"\n    {name}:" in script for name in front_door.SUMMARIES)
    subprocess.run(["zsh", "-n"], input=script, text=True, check=True)
