# SPDX-License-Identifier: Apache-2.0
"""Commands as processes: every one of pyproject.toml is there, and nothing is lost at the end of one."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import TextIO

import pytest

from circlekit.api import load, save
from circlekit.cli import scripts
from circlekit.ir.text import parse_model

ROOT = Path(__file__).parents[2]
SCRIPTS = dict(
    re.findall(r'^([\w-]+) = "circlekit\.cli\.scripts:(\w+)"$', (ROOT / "pyproject.toml").read_text(), re.M)
)


def run_script(
    function: str, *arguments: str, stdout: int | TextIO = subprocess.PIPE
) -> subprocess.CompletedProcess[str]:
    code = f"import sys; from circlekit.cli.scripts import {function}; sys.exit({function}())"
    return subprocess.run(
        [sys.executable, "-c", code, *arguments],
        stdout=stdout,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )


@pytest.mark.parametrize("name", SCRIPTS)
def test_every_command_starts(name: str) -> None:
    done = run_script(SCRIPTS[name], "--version")
    assert re.fullmatch(rf"{name} of circlekit \S+\n", done.stdout), done.stderr
    assert done.returncode == 0


def test_every_script_is_a_command() -> None:
    assert len(SCRIPTS) == 20
    assert all(callable(getattr(scripts, function)) for function in SCRIPTS.values())


def test_exit_codes_and_what_was_printed_arrive(tmp_path: Path) -> None:
    done = run_script("circle2circle", "--list-passes")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines()[-1].startswith("unroll_unidirseqlstm")
    done = run_script("circle2circle", "missing.circle", str(tmp_path / "out.circle"))
    assert (done.returncode, done.stdout) == (1, "")
    assert "missing.circle" in done.stderr
    done = run_script("circle2circle", "--nope")
    assert (done.returncode, done.stdout) == (2, "")


LEAVE = """
import atexit, sys, threading, time
from circlekit.cli.scripts import leave

atexit.register(print, "last words")
threading.Thread(target=lambda: (time.sleep(0.1), print("thread"))).start()
print("first", end=" ")
leave(7)
"""


def test_the_end_waits_for_threads_and_exit_functions() -> None:
    done = subprocess.run([sys.executable, "-c", LEAVE], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (7, "first thread\nlast words\n", "")


def test_an_output_that_fails_at_the_end_is_told() -> None:
    code = "import sys; from circlekit.cli.scripts import leave; print('x'); leave(0)"
    done = subprocess.run(
        ["sh", "-c", '"$0" -c "$1" > /dev/full', sys.executable, code],
        capture_output=True, text=True, env={**os.environ, "PYTHONUNBUFFERED": ""},
    )  # fmt: skip
    assert done.returncode == 120
    assert "No space left" in done.stderr


@pytest.mark.parametrize("name", SCRIPTS)
def test_help_waits_for_no_numbers(name: str) -> None:
    code = (
        "import atexit, sys; atexit.register(lambda: print('\\n', *sys.modules));"
        f" from circlekit.cli.scripts import {SCRIPTS[name]} as run; run()"
    )
    done = subprocess.run([sys.executable, "-c", code, "--help"], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("usage: ")
    modules = set(done.stdout.splitlines()[-1].split())
    assert "circlekit.cli.common" in modules
    assert not modules & {"numpy", "circlekit.passes", "circlekit.ops", "importlib.metadata"}


@pytest.mark.parametrize(
    ("flags", "absent"),
    [
        (
            (),
            {
                "circlekit.passes.fuse.activation.fuse_gelu",
                "circlekit.interp",
                "circlekit.recipes",
                "circlekit.equivalence",
            },
        ),
        (
            ("--O1",),
            {
                "circlekit.passes.fuse.activation.fuse_gelu",
                "circlekit.passes.fuse.linear.fuse_mul_with_fullyconnected",
                "circlekit.recipes",
                "circlekit.equivalence",
                "importlib.metadata",
            },
        ),
        (("--O1", "--verify"), {"circlekit.recipes", "h5py"}),
    ],
)
def test_a_run_imports_what_it_needs(flags: tuple[str, ...], absent: set[str], tmp_path: Path) -> None:
    source, target = tmp_path / "in.circle", str(tmp_path / "out.circle")
    save(parse_model("graph g(%x: f32[2]) -> %y { %y = Neg(%x) }"), source)
    code = "import sys; from circlekit.cli.circle2circle import main; main(); print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code, str(source), target, *flags], capture_output=True, text=True, check=True
    )
    modules = set(done.stdout.splitlines()[-1].split())
    assert "circlekit.io.write.save" in modules
    assert not modules & absent


def test_a_pass_is_imported_when_its_operators_appear(tmp_path: Path) -> None:
    """FULLY_CONNECTED and MUL come of custom operators: at first no operator of the model is either."""
    source, target = tmp_path / "in.circle", str(tmp_path / "out.circle")
    custom = """
        graph g(%x: f32[1,2]) -> %z {
          %y = Opaque(%x, [[1.0, 2.0], [3.0, 4.0]]) {code: "CUSTOM", custom_code: "MatMul"} : f32[1,2]
          %z = Mul(%y, [2.0, 3.0])
        }
    """
    save(parse_model(custom), source)
    code = "import sys; from circlekit.cli.circle2circle import main; main(); print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code, str(source), target, "--O1"], capture_output=True, text=True, check=True
    )
    assert "circlekit.passes.fuse.linear.fuse_mul_with_fullyconnected" in done.stdout.splitlines()[-1].split()
    assert [op.code for op in load(target).main.ops] == ["FULLY_CONNECTED"]
