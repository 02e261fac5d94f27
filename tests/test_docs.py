# SPDX-License-Identifier: Apache-2.0
"""What the documents show runs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from circlekit.rewrite.base import PASSES

ROOT = Path(__file__).parents[1]


def test_a_pass_of_ones_own(monkeypatch: pytest.MonkeyPatch) -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text()
    found = re.search(r"<!-- own pass -->\n```python\n(.*?)```", text, re.DOTALL)
    assert found is not None
    monkeypatch.setitem(PASSES, "fuse_mul_with_mul", None)  # so that it is taken out again
    exec(compile(found[1], "CONTRIBUTING.md", "exec"), {"__name__": "own"})
    assert PASSES["fuse_mul_with_mul"].__module__ == "own"


def test_the_commands_of_the_readme_are_installed() -> None:
    table = (ROOT / "README.md").read_text().partition("## Commands")[2].partition("\nExit code")[0]
    named = set(re.findall(r"`(\w[\w-]*) [A-Z]", table))
    scripts = (ROOT / "pyproject.toml").read_text().partition("[project.scripts]")[2].partition("\n[")[0]
    assert {"circle2circle", "i5diff"} <= named <= set(re.findall(r"^([\w-]+) = ", scripts, re.MULTILINE))
