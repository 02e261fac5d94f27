# SPDX-License-Identifier: Apache-2.0
"""Every recipe of passes, once: positives, near misses, values, idempotence and validity."""

from __future__ import annotations

from pathlib import Path

import pytest

from circlekit.passes.engine.registry import all_passes
from circlekit.recipes.dredd import run_case
from circlekit.recipes.dredd_cases import cases_of
from circlekit.recipes.load import load_recipe
from circlekit.rewrite.base import Budget, Context
from circlekit.testing.check_pass import check_pass

RECIPES = Path(__file__).parents[2] / "recipes" / "passes"

NEEDS_DATA = "freeze_batchnorm"
"""This pass reads a file of recorded data, which a recipe cannot contain; its own tests write such a file."""

NAMES_OPERATORS = "remove_nodes_of"
"""The setting of this pass names operators that must exist, so the pass cannot run on its own result."""

TESTED = all_passes().keys() - {NEEDS_DATA, NAMES_OPERATORS}


@pytest.mark.parametrize("name", sorted(TESTED))
def test_recipes_of_pass(name: str) -> None:
    check_pass(name, RECIPES)


@pytest.mark.parametrize("name", sorted(n for n in TESTED if not all_passes()[n].changes_interface))
def test_changes_are_the_counted_rewrites(name: str) -> None:
    """A pass that counts its rewrites reports their number, and makes no more of them than it may."""
    for path in sorted(RECIPES.glob(f"{name}*.ck")):
        if path.stem.partition("-")[0] == name:
            changes = changes_of(name, path, budget := Budget())
            assert budget.made in (0, changes), path.stem
            for left in range(budget.made + 1) if budget.made else ():
                assert changes_of(name, path, Budget(left)) == left, path.stem


def changes_of(name: str, path: Path, budget: Budget) -> int:
    """Return how many changes a pass alone reports for the model of a recipe."""
    model, rules = load_recipe(path), cases_of(path, passes=[name])[0].rules()
    context = Context(rules.format or model.format, settings=rules.settings, budget=budget)
    return all_passes()[name]().run(model, context)


OTHERS = [path for path in sorted(RECIPES.glob("*.ck")) if path.stem.partition("-")[0] not in TESTED]
"""Recipes of several passes together, and of the passes NEEDS_DATA and NAMES_OPERATORS."""


@pytest.mark.parametrize("path", OTHERS, ids=lambda path: path.stem)
def test_other_recipes(path: Path) -> None:
    for case in cases_of(path):
        assert not run_case(case).failures
