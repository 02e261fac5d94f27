# SPDX-License-Identifier: Apache-2.0
"""Run a program whose standard output nobody reads any more."""

from __future__ import annotations

import subprocess
import sys


def run_with_closed_pipe(code: str) -> tuple[int, bytes]:
    """Return the exit code of the Python program ``code``, and what it printed to stderr."""
    command = [sys.executable, "-c", code]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        printed = process.stderr.read()
        return process.wait(), printed
