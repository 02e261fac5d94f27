# SPDX-License-Identifier: Apache-2.0
"""An example of the guide runs, the page of passes has all of them, the README's commands are installed."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np

import circlekit
from circlekit.cli.front_door import SUMMARIES
from circlekit.interp import unregister_custom
from circlekit.ir.text import parse_model
from circlekit.passes.engine.describe import page
from circlekit.passes.engine.registry import all_passes
from circlekit.passes.pipelines import in_order

ROOT = Path(__file__).parents[2]


def test_the_custom_operator_of_the_guide_runs() -> None:
    text = (ROOT / "docs" / "guide" / "interpreter.md").read_text()
    found = re.search(r"<!-- custom operator -->\n```python\n(.*?)```", text, re.DOTALL)
    assert found is not None
    model = parse_model(
        'graph main(%x: f32[2]) -> %y { %y = Opaque(%x) {code: "CUSTOM", custom_code: "Scaled"} : f32[2] }'
    )
    try:
        exec(compile(found[1], "interpreter.md", "exec"), {"__name__": "own"})
        (out,) = circlekit.run(model, [np.array([1, 3], np.float32)])
    finally:
        unregister_custom("Scaled")
    assert out.tolist() == [2, 6]


def test_the_generated_page_of_passes_has_a_section_for_each() -> None:
    own = {n: item for n, item in all_passes().items() if item.__module__.startswith("circlekit.")}
    found = page(own)
    assert re.findall(r"^## (\w+)$", found, re.MULTILINE) == in_order(own)
    assert "| [remove_dead](#remove_dead) | O1 |" in found


def test_the_commands_of_the_readme_are_installed() -> None:
    table = (ROOT / "README.md").read_text().partition("## Commands")[2].partition("\nExit code")[0]
    subcommands = set(re.findall(r"^\| `circlekit ([\w-]+)", table, re.MULTILINE))
    assert subcommands == set(SUMMARIES)
    named = set(re.findall(r"`([a-z]\w[\w-]*)[` ]", table)) - {"circlekit"}
    scripts = (ROOT / "pyproject.toml").read_text().partition("[project.scripts]")[2].partition("\n[")[0]
    assert {"circle2circle", "i5diff"} <= named <= set(re.findall(r"^([\w-]+) = ", scripts, re.MULTILINE))
