# SPDX-License-Identifier: Apache-2.0
"""The growth benchmark: its graphs are valid, and the number of function calls of O1 is linear."""

from __future__ import annotations

import cProfile
import pstats
from pathlib import Path

import pytest

import circlekit
from circlekit.ir.graph import Model
from circlekit.ir.verifier import check
from tools.bench.growth import measure_growth
from tools.bench.shapes import SHAPES, build


@pytest.mark.parametrize("shape", SHAPES)
def test_graphs_are_valid_and_of_the_requested_size(shape: str) -> None:
    model = build(shape, 60)
    check(model)
    assert 55 <= sum(map(len, model.graphs)) <= 70


def test_rows(tmp_path: Path) -> None:
    rows = list(measure_growth(["tree", "conv"], (80, 40), tmp_path))
    assert [row.graph for row in rows] == ["tree", "tree", "conv", "conv"]
    assert rows[0].operators < rows[1].operators
    assert rows[0].growth == rows[2].growth == 1
    assert rows[2].after == 10
    assert all(row.line().count("|") == len(row) + 1 for row in rows)


@pytest.mark.parametrize("shape", ["nchw", "tree", "factors", "graphs"])
def test_the_number_of_calls_is_linear(shape: str) -> None:
    """With quadratic work, eight times the operators need eight times the calls per operator."""
    few, many = (calls(build(shape, size)) / size for size in (60, 480))
    assert many < 2 * few


def calls(model: Model) -> int:
    """Return how many functions O1 calls; unlike the time, it is the same on every machine."""
    profile = cProfile.Profile()
    profile.runcall(circlekit.optimize, model, "O1")
    total: int = pstats.Stats(profile).total_calls  # type: ignore[attr-defined]
    return total
