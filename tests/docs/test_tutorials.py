# SPDX-License-Identifier: Apache-2.0
"""Every tutorial runs from its first block to its last, in a process and a directory of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs import page_runner

DOCS = Path(__file__).parents[2] / "docs"
PAGES = sorted(DOCS.glob("tutorials/*.md"))


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.stem)
def test_the_tutorial_runs(page: Path, tmp_path: Path) -> None:
    scripts = str(Path(sys.executable).parent)  # the commands of this environment
    environment = {**os.environ, "PATH": scripts + os.pathsep + os.environ["PATH"]}
    command = [sys.executable, page_runner.__file__, str(page)]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, encoding="utf-8")
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    "text",
    [
        "```pycon\n>>> 1 + 1\n3\n```\n",
        "```python\nraise ValueError\n```\n",
        "```console\n$ echo one\ntwo\n```\n",
        "```console\n$ exit 3\n```\n",
    ],
    ids=["session", "python", "output", "exit code"],
)
def test_a_page_that_is_wrong_fails(text: str, tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(text)
    done = subprocess.run([sys.executable, page_runner.__file__, str(page)], capture_output=True)
    assert done.returncode == 1
