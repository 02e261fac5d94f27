# SPDX-License-Identifier: Apache-2.0
"""ONE's recipes, rules and lists, unmodified."""

from __future__ import annotations

import dataclasses

from circlekit.recipes.dredd import run_case
from circlekit.recipes.dredd_cases import Case

UNSOUND = {
    "Net_Dangle_001": "nothing produces %ofm2",
}
"""Invalid models, and what the verifier says: no pass is run on them."""


def test_recipe_cooks_runs_and_optimizes(one_recipe: Case) -> None:
    """Cook, read back, run, optimize and run again; compare with LiteRT where it runs the model."""
    sound = one_recipe.name not in UNSOUND
    result = run_case(dataclasses.replace(one_recipe, passes=("O1",) if sound else ()))
    assert not result.failures, "\n".join(result.failures)
    if not sound:
        assert UNSOUND[one_recipe.name] in result.notes[0]


def test_dredd_case(one_dredd: Case) -> None:
    """The rules hold and values stay equal."""
    result = run_case(one_dredd)
    assert not result.failures, "\n".join(result.failures)
    assert result.rules > 0


def test_values_stay_equal(one_value: Case) -> None:
    """Values are equal before and after, with or without rules for the pass."""
    result = run_case(one_value)
    assert not result.failures, "\n".join(result.failures)
    assert result.compared > 0
