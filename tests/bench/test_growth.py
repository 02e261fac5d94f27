# SPDX-License-Identifier: Apache-2.0
"""The graphs whose growth is measured, the rows, the picture; and that the time grows with the operators."""

from __future__ import annotations

from pathlib import Path

import pytest

from circlekit.ir.verify import check
from tools.bench.growth import HEADS, Growth, as_json, cells, measure_growth, plot
from tools.bench.shapes import SHAPES, build


@pytest.mark.parametrize("shape", SHAPES)
def test_graphs_are_sound_and_as_large_as_asked(shape: str) -> None:
    model = build(shape, 60)
    check(model)
    assert 55 <= len(model.main) <= 65


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


@pytest.mark.slow
@pytest.mark.parametrize("shape", SHAPES)
def test_time_is_linear(shape: str) -> None:
    """Eight times the operators; what is quadratic takes eight times as long for each."""
    rows = measure_growth([shape], (1_000, 8_000))
    assert rows[-1].growth < 3
