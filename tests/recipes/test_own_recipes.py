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

MAX_COLUMNS = 120
MAX_LINES = 60

RECIPES = sorted(ROOT.rglob("*.ck"))
MODELS = [path for path in RECIPES if path.parent.name != "passes"]
"""Recipes of operators and networks; tests/passes/test_recipes_of_passes.py runs those of passes."""


def test_every_recipe_is_short() -> None:
    """A recipe must be readable in a minute."""
    for path in RECIPES:
        lines = path.read_text().splitlines()
        assert lines[0] == "# SPDX-License-Identifier: Apache-2.0", path
        assert len(lines) <= MAX_LINES, path
        assert max(map(len, lines)) <= MAX_COLUMNS, path


@pytest.mark.parametrize("path", MODELS, ids=lambda p: f"{p.parent.name}/{p.stem}")
def test_recipe_of_model(path: Path) -> None:
    """Shapes equal the inferred ones, the rules hold, and values equal LiteRT's if LiteRT runs the model."""
    check_shapes(load_recipe(path))
    for case in cases_of(path):
        assert not run_case(case).failures


def test_every_operator_has_a_recipe() -> None:
    found = {op.code for path in (ROOT / "ops").glob("*.ck") for g in load_recipe(path).graphs for op in g}
    missing = sorted(REGISTRY.keys() - found)
    assert not missing, f"write recipes/ops/NAME.ck for {', '.join(missing)}"
