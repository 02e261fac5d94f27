# SPDX-License-Identifier: Apache-2.0
"""``python -m circlekit`` is the command ``circlekit``."""

from __future__ import annotations

import subprocess
import sys

import circlekit


def test_the_package_runs_as_a_command() -> None:
    command = [sys.executable, "-m", "circlekit", "--version"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert circlekit.__version__ in done.stdout
