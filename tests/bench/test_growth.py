# SPDX-License-Identifier: Apache-2.0
"""The graphs whose growth is measured, the rows, the picture; and that O1 takes as many steps an operator."""

from __future__ import annotations

import cProfile
import pstats
from pathlib import Path

import pytest

import circlekit
from circlekit.ir.graph import Model
from circlekit.ir.verifier import check
from tools.bench.growth import HEADS, Growth, as_json, cells, measure_growth, page, plot
from tools.bench.measure import machine
from tools.bench.shapes import SHAPES, build


@pytest.mark.parametrize("shape", SHAPES)
def test_graphs_are_sound_and_as_large_as_asked(shape: str) -> None:
    model = build(shape, 60)
    check(model)
    assert 55 <= sum(map(len, model.graphs)) <= 70


def test_rows(tmp_path: Path) -> None:
    told: list[Growth] = []
    rows = measure_growth(["tree", "conv"], (80, 40), tmp_path, told.append)
    assert rows == told
    assert [row.shape for row in rows] == ["tree", "tree", "conv", "conv"]
    assert rows[0].operators < rows[1].operators
    assert rows[0].growth == rows[2].growth == 1
    assert rows[2].after == 10
    assert all(len(cells(row)) == len(HEADS) for row in rows)
    assert as_json(rows)[3]["shape"] == "conv"
    assert not list(tmp_path.iterdir())


def test_picture(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    path = tmp_path / "growth.png"
    plot([Growth("tree", n, n, 1.0, 2.0, 3.0, 1.0) for n in (10, 100)], path)
    assert path.read_bytes().startswith(b"\x89PNG")


def test_page() -> None:
    text = page([Growth("tree", 1_000, 999, 1.0, 20.0, 3.0, 1.25)], machine())
    assert "\n| tree | 1,000 | 999 | 1 | 20 | 3 | 1.25 |\n" in text
    assert "\n| graph | operators | after O1 | load | O1 | save | growth |\n| --- | ---: |" in text


@pytest.mark.parametrize("shape", SHAPES)
def test_work_is_linear(shape: str) -> None:
    """Eight times the operators: what is quadratic makes eight times the calls for each."""
    few, many = (calls(build(shape, size)) / size for size in (150, 1_200))
    assert many < 2 * few


def calls(model: Model) -> int:
    """How many functions O1 calls; unlike the time, that is the same on every machine."""
    profile = cProfile.Profile()
    profile.runcall(circlekit.optimize, model, "O1")
    total: int = pstats.Stats(profile).total_calls  # type: ignore[attr-defined]
    return total
