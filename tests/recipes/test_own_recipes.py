# SPDX-License-Identifier: Apache-2.0
"""Every recipe of an operator or a network, once: its rules, shapes and values."""

from __future__ import annotations

from pathlib import Path

import pytest

from circlekit.ir.op import REGISTRY
from circlekit.ir.shape_inference import check_shapes
from circlekit.recipes.dredd import run_case
from circlekit.recipes.dredd_cases import cases_of
from circlekit.recipes.load import load_recipe

ROOT = Path(__file__).parents[2] / "recipes"

SPDX = "# SPDX-License-Identifier: Apache-2.0"
MAX_COLUMNS = 120
MAX_LINES = 60

RECIPES = sorted(ROOT.rglob("*.ck"))
MODELS = [path for path in RECIPES if path.parent.name != "passes"]
"""Recipes of operators and networks; tests/passes/test_recipes_of_passes.py runs those of passes."""


def test_every_recipe_is_short() -> None:
    """A recipe must be readable in a minute."""
    for path in RECIPES:
        lines = path.read_text().splitlines()
        assert lines[0] == SPDX, f"{path}: expected the first line {SPDX!r}, got {lines[0]!r}"
        assert len(lines) <= MAX_LINES, f"{path}: expected up to {MAX_LINES} lines, got {len(lines)}"
        columns = max(map(len, lines))
        assert columns <= MAX_COLUMNS, f"{path}: expected up to {MAX_COLUMNS} columns, got {columns}"


@pytest.mark.parametrize("path", MODELS, ids=lambda p: f"{p.parent.name}/{p.stem}")
def test_recipe_of_model(path: Path) -> None:
    """Shapes equal the inferred ones, the rules hold, and values equal LiteRT's if LiteRT runs the model."""
    check_shapes(load_recipe(path))
    for case in cases_of(path):
        failures = run_case(case).failures
        assert not failures, f"{path.name}: " + "\n".join(failures)


def test_every_operator_has_a_recipe() -> None:
    found = {op.code for path in (ROOT / "ops").glob("*.ck") for g in load_recipe(path).graphs for op in g}
    missing = sorted(REGISTRY.keys() - found)
    assert not missing, (
        f"expected a recipe for every operator; write one in recipes/ops for {', '.join(missing)}"
    )
