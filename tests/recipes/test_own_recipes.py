# SPDX-License-Identifier: Apache-2.0
"""The project's own recipes: models that are sound, one for every operator."""

from __future__ import annotations

from pathlib import Path

import pytest

from circlekit.io.read.load import load_bytes
from circlekit.io.write.save import to_bytes
from circlekit.ir.op import REGISTRY
from circlekit.ir.shape_inference import check_shapes
from circlekit.ir.verifier import verify
from circlekit.passes.engine.legalize import legalize
from circlekit.passes.engine.registry import all_passes
from circlekit.recipes.dredd import run_case
from circlekit.recipes.dredd_cases import cases_of
from circlekit.recipes.load import load_recipe

ROOT = Path(__file__).parents[2] / "recipes"
PASSES = ROOT / "passes"
RECIPES = sorted(ROOT.rglob("*.ck"))


@pytest.mark.parametrize("path", RECIPES, ids=lambda p: f"{p.parent.name}/{p.stem}")
def test_sound(path: Path) -> None:
    """A person reads it in a minute; it breaks no rule, and a file of its format holds it whole."""
    text = path.read_text()
    assert text.startswith("# SPDX-License-Identifier: Apache-2.0\n")
    assert max(map(len, text.splitlines())) <= 120
    assert len(text.splitlines()) <= 60
    model = load_recipe(path)
    assert not verify(model)
    check_shapes(model)
    assert not verify(load_bytes(to_bytes(legalize(model, model.format))))


@pytest.mark.parametrize("path", RECIPES, ids=lambda p: f"{p.parent.name}/{p.stem}")
def test_rules_hold_and_values_stay(path: Path, tmp_path: Path) -> None:
    for case in cases_of(path):
        assert not run_case(case, tmp_path).failures


UNCONDITIONAL = {"decompose_hardswish", "decompose_softmax", "remove_dead", "remove_duplicate_const"}
"""Passes that take every operator of their kind."""


NEEDS_DATA = {"freeze_batchnorm"}
"""Passes that want a file of recorded data, which a text cannot hold; their own tests make one."""


@pytest.mark.parametrize("name", sorted(all_passes().keys() - NEEDS_DATA))
def test_every_pass_has_a_positive_and_a_near_miss(name: str) -> None:
    """``PASS.ck`` and ``PASS-CONDITION.ck``, with rules that say which is which."""
    assert "order(" in (PASSES / f"{name}.ck").read_text()
    near = [path.read_text() for path in PASSES.glob(f"{name}-*.ck")]
    assert near or name in UNCONDITIONAL
    assert all("unchanged()" in text for text in near)


def test_every_operator_has_a_recipe() -> None:
    found = {op.code for path in (ROOT / "ops").glob("*.ck") for g in load_recipe(path).graphs for op in g}
    assert not REGISTRY.keys() - found
