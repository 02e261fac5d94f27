# SPDX-License-Identifier: Apache-2.0
"""Every recipe of passes, once: positives, near misses, values, idempotence and validity."""

from __future__ import annotations

from pathlib import Path

import pytest

from circlekit.passes.engine.registry import all_passes
from circlekit.recipes.dredd import run_case
from circlekit.recipes.dredd_cases import cases_of
from circlekit.testing.check_pass import check_pass

RECIPES = Path(__file__).parents[2] / "recipes" / "passes"

NEEDS_DATA = "freeze_batchnorm"
"""Reads a file of recorded data, which a recipe cannot contain; its own tests write one."""

NAMES_OPERATORS = "remove_nodes_of"
"""Its setting names operators that must exist, so that it cannot run on its own result."""

UNCONDITIONAL = {
    "decompose_hardswish", "decompose_softmax", "remove_dead", "remove_duplicate_const",
    "replace_square_with_mul",
}  # fmt: skip
"""Passes without conditions: no near miss exists."""


TESTED = all_passes().keys() - {NEEDS_DATA, NAMES_OPERATORS}


@pytest.mark.parametrize("name", sorted(TESTED))
def test_recipes_of_pass(name: str) -> None:
    check_pass(name, RECIPES, needs_near_miss=name not in UNCONDITIONAL)


OTHERS = [path for path in sorted(RECIPES.glob("*.ck")) if path.stem.partition("-")[0] not in TESTED]
"""Recipes of several passes together, and of the two passes above."""


@pytest.mark.parametrize("path", OTHERS, ids=lambda path: path.stem)
def test_recipe_of_several_passes(path: Path) -> None:
    for case in cases_of(path):
        assert not run_case(case).failures
