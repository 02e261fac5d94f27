# SPDX-License-Identifier: Apache-2.0
"""Commands as processes: each script of circlekit.cli starts, and its output and exit code arrive."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import TextIO

import pytest

from circlekit.api.models import save
from circlekit.ir.text import parse_model
from tests.cli.scripts import SCRIPTS

COMMANDS = {name: path for name, path in SCRIPTS.items() if path.startswith("circlekit.cli")}
"""The commands of ``circlekit.cli``; tests/toolchain starts the drivers."""

HEAVY = {"h5py", "rich", "ai_edge_litert"}
"""Packages that are slow to import."""


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


@pytest.fixture(scope="module")
def started() -> tuple[dict[str, list[str]], set[str]]:
    """Return what every command prints for --version and --help, and the modules that are loaded then.

    All run in one process.  No module of the package depends on what was imported before it: there are no
    import cycles (tests/test_layers.py).
    """
    commands = {name: SCRIPTS[name].split(":") for name in COMMANDS}
    done = subprocess.run(
        [sys.executable, "-c", ALL_COMMANDS, json.dumps(commands)], capture_output=True, text=True, check=True
    )
    printed, modules = json.loads(done.stdout)
    return printed, set(modules)


ALL_COMMANDS = """
import contextlib, importlib, io, json, sys
printed = {}
for name, (module, function) in json.loads(sys.argv[1]).items():
    for flag in ("--version", "--help"):
        with contextlib.redirect_stdout(io.StringIO()) as shown, contextlib.redirect_stderr(shown):
            sys.argv[1:] = [flag]
            try:
                code = getattr(importlib.import_module(module), function)()
            except SystemExit as end:
                code = end.code
        printed.setdefault(name, []).append(shown.getvalue() if not code else f"exit code {code}")
print(json.dumps([printed, list(sys.modules)]))
"""


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_says_its_version_and_usage(
    name: str, started: tuple[dict[str, list[str]], set[str]]
) -> None:
    version, usage = started[0][name]
    line = rf"({name} of )?circlekit \d\S+|{name} version \d\S+ \(circlekit \d\S+\)"  # the last is ONE's form
    assert re.fullmatch(rf"({line})\n", version)
    assert usage.startswith(f"usage: {name} ")


def test_help_loads_no_heavy_package(started: tuple[dict[str, list[str]], set[str]]) -> None:
    assert "circlekit.cli.command" in started[1]
    assert not started[1] & HEAVY


def test_exit_codes_and_output_arrive(tmp_path: Path) -> None:
    done = run_script("circle2circle", "--list-passes")
    assert (done.returncode, done.stderr) == (0, "")
    assert "\n  unroll_unidirseqlstm " in done.stdout
    done = run_script("circle2circle", "missing.circle", str(tmp_path / "out.circle"))
    assert (done.returncode, done.stdout) == (1, "")
    assert "missing.circle" in done.stderr
    done = run_script("circle2circle", "--nope")
    assert (done.returncode, done.stdout) == (255, "")


def test_a_verified_run_loads_no_heavy_package(tmp_path: Path) -> None:
    source, target = str(tmp_path / "in.circle"), str(tmp_path / "out.circle")
    save(parse_model("graph g(%x: f32[2]) -> %y { %y = Neg(%x) }"), source)
    code = "import sys; from circlekit.cli.circle2circle import main; main(); print(*sys.modules)"
    command = [sys.executable, "-c", code, source, target, "--O1", "--verify"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert not set(done.stdout.splitlines()[-1].split()) & HEAVY
