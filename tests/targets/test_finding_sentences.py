# SPDX-License-Identifier: Apache-2.0
"""What a finding says about a model: the place, the operator and its form, what the target has instead."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import circlekit
from circlekit.recipes.load import load_recipe
from circlekit.targets.target import find_target, target_names

RECIPES = sorted((Path(__file__).parents[2] / "recipes" / "ops").glob("*.ck"))

FORM = r"\S*:\S*"
"""Dtypes of the operands and of the results, such as f32,f32:f32."""


@pytest.mark.parametrize("name", target_names())
def test_each_sentence_names_operator_and_form_and_what_the_target_has(name: str) -> None:
    count = 0
    title = re.escape(find_target(name).title)
    for path in RECIPES:
        model = load_recipe(path)
        graphs = {graph.name: graph for graph in model.graphs}
        for finding in circlekit.check(model, name):
            count += 1
            op = graphs[finding.graph].ops[finding.index]
            code = finding.operator
            assert code in (op.code, getattr(op, "custom_code", None))
            assert finding.result == (op.results[0].name if op.results else "")
            result = f" > %{finding.result}" if op.results else ""
            assert str(finding).startswith(f"{finding.graph} > op {finding.index} {code}{result}: ")
            pattern = (
                rf"{title} has no {code}( for {FORM}; it has {FORM}(, {FORM})*)?"
                rf"|{title} has {code} for {FORM} only with .+, got .+"
            )
            assert re.fullmatch(pattern, finding.reason), (path.stem, finding)
            assert finding.remedy
    assert count
