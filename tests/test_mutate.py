# SPDX-License-Identifier: Apache-2.0
"""The mutations that ``tools.mutate`` makes, and the list of equivalent ones that it leaves out."""

from __future__ import annotations

from pathlib import Path

from tools.mutate import equivalents, mutations


def test_equivalent_mutations_are_mutations_of_lines_that_exist() -> None:
    """An entry whose line has changed leaves nothing out: adapt the entry, or delete it."""
    listed = equivalents()
    files = {Path(place.partition(": ")[0]) for place, _ in listed}
    every = [m for path in files for m in mutations(path)]
    possible = {(f"{m.path}: {change}", m.text) for m in every for change in (f"{m.old} -> {m.new}", "*")}
    assert listed - possible == set()


def test_negative_numbers_are_not_mutated_but_negations_are(tmp_path: Path) -> None:
    path = tmp_path / "module.py"
    path.write_text("y = not (a < b and c)\nz = -(a + b)\nf(axis=-1)\n")
    found = sorted((m.line, m.old, m.new) for m in mutations(path))
    assert found == [(1, "<", "<="), (1, "and", "or"), (2, "+", "-")]
