# SPDX-License-Identifier: Apache-2.0
"""What the documents show runs."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np

import circlekit
from circlekit.cli.catalog import FILE, as_json, catalog, flags_of
from circlekit.interp import unregister_custom
from circlekit.io.check.findings import RULES
from circlekit.ir.text import parse_model
from circlekit.passes import all_passes, manifest
from circlekit.passes.describe import page
from circlekit.passes.pipelines import PIPELINES
from circlekit.rewrite.base import PASSES, Pass

ROOT = Path(__file__).parents[1]


def test_a_pass_of_ones_own() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text()
    found = re.search(r"<!-- own pass -->\n```python\n(.*?)```", text, re.DOTALL)
    assert found is not None
    try:
        exec(compile(found[1], "CONTRIBUTING.md", "exec"), {"__name__": "own"})
    finally:
        made = PASSES.pop("fuse_mul_with_mul")
    assert made.__module__ == "own"


def test_a_custom_operator_of_ones_own() -> None:
    text = (ROOT / "docs" / "interpreter.md").read_text()
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


def test_the_page_of_passes_is_that_of_the_classes() -> None:
    own = own_passes()
    found = (ROOT / "docs" / "passes.md").read_text()
    assert found == page(own), "python tools/gen_passes.py writes it anew"
    assert all(f"## {name}\n" in found for name in own)


def test_the_rules_of_circle_verify_are_those_of_the_code() -> None:
    rows = [f"| `{name}` | {kind} | {what} |" for name, (kind, what) in RULES.items()]
    found = (ROOT / "docs" / "verify.md").read_text().splitlines()
    assert found[-len(rows) :] == rows, "python tools/gen_verify.py writes them anew"


def test_the_commands_of_the_readme_are_installed() -> None:
    table = (ROOT / "README.md").read_text().partition("## Commands")[2].partition("\nExit code")[0]
    named = set(re.findall(r"`(\w[\w-]*) [A-Z]", table))
    scripts = (ROOT / "pyproject.toml").read_text().partition("[project.scripts]")[2].partition("\n[")[0]
    assert {"circle2circle", "i5diff"} <= named <= set(re.findall(r"^([\w-]+) = ", scripts, re.MULTILINE))
