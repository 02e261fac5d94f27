# SPDX-License-Identifier: Apache-2.0
"""Mutants of the recipes of operators, for a runtime that lacks the operator: values stay equal."""

from __future__ import annotations

from pathlib import Path

import pytest

from circlekit.ir.clone import clone
from circlekit.ir.graph import Model
from circlekit.ir.model_equality import difference
from circlekit.ir.resources.resource_limits import limited
from circlekit.passes.engine.legalize import LEGALIZATIONS, legalize
from circlekit.recipes.load import load_recipe
from circlekit.targets.target import Target
from tests.passes.kit import interface_of, verify
from tests.passes.legal.made_up_runtimes import runtime
from tests.passes.mutants import mutants
from tests.passes.test_near_misses import assert_same_values

RECIPES = sorted((Path(__file__).parents[3] / "recipes" / "ops").glob("*.ck"))

RUN_BYTES = 1 << 24
"""The memory limit of a run.  Inputs are random, also those that are shapes, so results could be huge."""


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)
def test_mutants_keep_their_values(path: Path) -> None:
    base = load_recipe(path)
    if len(base.graphs) > 1 or not all(op.results for op in base.main):
        pytest.skip("mutants have one graph, and operators with results")
    target = runtime(" ".join({op.code for op in base.main}))
    for what, model in [("as it is", clone(base)), *mutants(base)]:
        check_mutant(base, model, what, target)
        for name in always_replaced(base):
            check_mutant(base, model, f"{what}, for {name}", runtime(name=name))


def always_replaced(model: Model) -> list[str]:
    """Return the runtimes for which an operator of ``model`` may be replaced although they have it."""
    items = [
        item for item in LEGALIZATIONS if any(isinstance(op, getattr(item, "kinds", ())) for op in model.main)
    ]
    return sorted({name for item in items for name in item.targets})


def check_mutant(base: Model, model: Model, what: str, target: Target) -> None:
    """Check that ``model``, a mutant of ``base``, has the same values and interface after legalization."""
    legal = legalize(model, "circle", targets=[target])
    if difference(legal, model) is None:
        return
    verify(legal)
    assert interface_of(legal) == interface_of(model), what
    with limited(memory=RUN_BYTES):
        assert_same_values(legal, model, base, what)
