# SPDX-License-Identifier: Apache-2.0
"""Commands as processes: every script of pyproject.toml starts, and its output and exit code arrive."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import TextIO

import pytest

from circlekit.api import save
from circlekit.ir.text import parse_model

PROJECT = (Path(__file__).parents[2] / "pyproject.toml").read_text()
SCRIPTS = dict(re.findall(r'^([\w-]+) = "(circlekit\.[\w.:]+)"$', PROJECT, re.MULTILINE))
COMMANDS = {name: path for name, path in SCRIPTS.items() if path.startswith("circlekit.cli")}
"""Those of the command line; tests/toolchain starts the drivers."""


def run_script(
    name: str, *arguments: str, stdout: int | TextIO = subprocess.PIPE
) -> subprocess.CompletedProcess[str]:
    """Run a command as its installed script does."""
    module, function = SCRIPTS[name].split(":")
    code = f"import sys; from {module} import {function}; sys.exit({function}())"
    return subprocess.run(
        [sys.executable, "-c", code, *arguments],
        stdout=stdout,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_starts(name: str) -> None:
    done = run_script(name, "--version")
    line = rf"({name} of )?circlekit \d\S+|{name} version \d\S+ \(circlekit \d\S+\)"  # the latter as ONE's
    assert re.fullmatch(rf"({line})\n", done.stdout), done.stderr
    assert done.returncode == 0


def test_exit_codes_and_output_arrive(tmp_path: Path) -> None:
    done = run_script("circle2circle", "--list-passes")
    assert (done.returncode, done.stderr) == (0, "")
    assert "\n  unroll_unidirseqlstm " in done.stdout
    done = run_script("circle2circle", "missing.circle", str(tmp_path / "out.circle"))
    assert (done.returncode, done.stdout) == (1, "")
    assert "missing.circle" in done.stderr
    done = run_script("circle2circle", "--nope")
    assert (done.returncode, done.stdout) == (255, "")


@pytest.mark.parametrize("name", COMMANDS)
def test_help_is_usage_and_loads_no_heavy_package(name: str) -> None:
    module, function = SCRIPTS[name].split(":")
    code = f"import sys; from {module} import {function}; {function}(); print('\\n', *sys.modules)"
    done = subprocess.run([sys.executable, "-c", code, "--help"], capture_output=True, text=True, check=True)
    assert done.stdout.startswith(f"usage: {name} ")
    assert not set(done.stdout.splitlines()[-1].split()) & {"h5py", "rich", "ai_edge_litert"}


def test_a_verified_run_loads_no_heavy_package(tmp_path: Path) -> None:
    source, target = str(tmp_path / "in.circle"), str(tmp_path / "out.circle")
    save(parse_model("graph g(%x: f32[2]) -> %y { %y = Neg(%x) }"), source)
    code = "import sys; from circlekit.cli.circle2circle import main; main(); print(*sys.modules)"
    command = [sys.executable, "-c", code, source, target, "--O1", "--verify"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert not set(done.stdout.splitlines()[-1].split()) & {"h5py", "rich", "ai_edge_litert"}
