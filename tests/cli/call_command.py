# SPDX-License-Identifier: Apache-2.0
"""Run a command as its installed script does, in this process: starting a new process would take too long."""

from __future__ import annotations

import contextlib
import io
import os
import sys
from importlib import import_module
from pathlib import Path
from subprocess import CompletedProcess

from tests.cli.scripts import SCRIPTS


def call_command(name: str, *words: str, cwd: Path | None = None) -> CompletedProcess[str]:
    """Return the exit code and what the command printed; ``cwd``: the working folder."""
    module, function = SCRIPTS[name].split(":")
    streams = [io.TextIOWrapper(io.BytesIO(), "utf-8", write_through=True) for _ in range(2)]
    before, sys.argv, folder = sys.argv, [name, *words], Path.cwd()
    try:
        os.chdir(cwd or folder)
        with contextlib.redirect_stdout(streams[0]), contextlib.redirect_stderr(streams[1]):
            try:
                code = getattr(import_module(module), function)()
            except SystemExit as end:
                code = end.code
    finally:
        sys.argv = before
        os.chdir(folder)
    printed = [stream.buffer.getvalue().decode() for stream in streams]
    return CompletedProcess([name, *words], code or 0, *printed)
