# SPDX-License-Identifier: Apache-2.0
"""Every recipe of the project, once: its rules, values, idempotence and soundness.

This is the one place that runs all recipes; other tests use samples of them.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from circlekit.ir.op import REGISTRY
from circlekit.ir.shape_inference import check_shapes
from circlekit.passes.engine.registry import all_passes
from circlekit.recipes.dredd import run_case
from circlekit.recipes.dredd_cases import cases_of
from circlekit.recipes.load import load_recipe
from circlekit.testing.check_pass import check_pass

ROOT = Path(__file__).parents[2] / "recipes"
PASSES = ROOT / "passes"

MAX_COLUMNS = 120
MAX_LINES = 60

NEEDS_DATA = "freeze_batchnorm"
"""Reads a file of recorded data, which a recipe cannot contain; its own tests write one."""

NAMES_OPERATORS = "remove_nodes_of"
"""Its setting names operators that must exist, so that it cannot run on its own result."""

UNCONDITIONAL = {"decompose_hardswish", "decompose_softmax", "remove_dead", "remove_duplicate_const"}
"""Passes without conditions: no near miss exists."""

TESTED = all_passes().keys() - {NEEDS_DATA, NAMES_OPERATORS}


def pass_of(path: Path) -> str | None:
    """Return the pass in the file name ``PASS.ck`` or ``PASS-CONDITION.ck`` of a recipe, or None."""
    name = path.stem.partition("-")[0]
    return name if path.parent == PASSES and name in TESTED else None


RECIPES = sorted(ROOT.rglob("*.ck"))
OTHERS = [path for path in RECIPES if pass_of(path) is None]
"""Recipes of operators and networks, and of several passes together."""


def test_every_recipe_is_short() -> None:
    """A recipe must be readable in a minute."""
    for path in RECIPES:
        lines = path.read_text().splitlines()
        assert lines[0] == "# SPDX-License-Identifier: Apache-2.0", path
        assert len(lines) <= MAX_LINES, path
        assert max(map(len, lines)) <= MAX_COLUMNS, path


@pytest.mark.parametrize("name", sorted(TESTED))
def test_recipes_of_pass(name: str) -> None:
    check_pass(name, PASSES, needs_near_miss=name not in UNCONDITIONAL)


@pytest.mark.parametrize("path", OTHERS, ids=lambda p: f"{p.parent.name}/{p.stem}")
def test_recipe_of_model(path: Path) -> None:
    """Shapes equal the inferred ones, the rules hold, and values equal LiteRT's."""
    check_shapes(load_recipe(path))
    for case in cases_of(path):
        assert not run_case(case).failures


def test_every_operator_has_a_recipe() -> None:
    found = {op.code for path in (ROOT / "ops").glob("*.ck") for g in load_recipe(path).graphs for op in g}
    missing = sorted(REGISTRY.keys() - found)
    assert not missing, f"write recipes/ops/NAME.ck for {', '.join(missing)}"
