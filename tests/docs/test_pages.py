# SPDX-License-Identifier: Apache-2.0
"""The examples of the guide run, and the README names the commands that are installed."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np

import circlekit
from circlekit.cli.catalog import FILE, as_json, catalog, flags_of
from circlekit.interp import unregister_custom
from circlekit.ir.text import parse_model
from circlekit.passes import all_passes, manifest
from circlekit.passes.pipelines import PIPELINES
from circlekit.rewrite.base import Pass

ROOT = Path(__file__).parents[2]


def test_a_custom_operator_of_ones_own() -> None:
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


def own_passes() -> dict[str, type[Pass]]:
    return {name: item for name, item in all_passes().items() if item.__module__.startswith("circlekit.")}


def test_the_catalog_of_flags_is_that_of_the_classes() -> None:
    found = catalog()
    assert found.passes == tuple(flags_of(own_passes().values())), "python tools/gen_passes.py writes it anew"
    assert found.pipelines == tuple(PIPELINES)
    assert FILE.read_text(encoding="utf-8") == as_json(found)


def test_the_manifest_of_passes_is_that_of_the_classes() -> None:
    entries = {name: manifest.entry_of(item) for name, item in own_passes().items()}
    assert manifest.manifest() == entries, "python tools/gen_passes.py writes it anew"
    assert manifest.FILE.read_text(encoding="utf-8") == manifest.as_json(entries)


def test_the_commands_of_the_readme_are_installed() -> None:
    table = (ROOT / "README.md").read_text().partition("## Commands")[2].partition("\nExit code")[0]
    named = set(re.findall(r"`(\w[\w-]*) [A-Z]", table))
    scripts = (ROOT / "pyproject.toml").read_text().partition("[project.scripts]")[2].partition("\n[")[0]
    assert {"circle2circle", "i5diff"} <= named <= set(re.findall(r"^([\w-]+) = ", scripts, re.MULTILINE))
