# SPDX-License-Identifier: Apache-2.0
"""Every pass, pairs of passes, and O1 on random graphs: values, interface, rest, text, files, LiteRT."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

from circlekit.errors import RewriteError
from circlekit.passes import all_passes
from tests.passes.random.checks import Original
from tests.passes.random.graphs import PARTS, Step, count_ops, make, random_steps

PASSES = sorted(
    name for name, item in all_passes().items() if not (item.changes_values or item.changes_interface)
)

RESTLESS = {"convert_nchw_to_nhwc"}
"""Runs once, whatever the layout is afterwards: others move its transposes back for fewer bytes."""

FIRST = 1000
"""The seed of the first model; each test takes others."""


def original(seed: int) -> Original:
    return Original(*make(seed, random_steps(seed)))


@pytest.mark.parametrize("seed", range(FIRST, FIRST + 24))
def test_o1(seed: int, tmp_path: Path) -> None:
    before = original(seed)
    for format in ("circle", "tflite"):
        after = before.check("O1", format)
        assert count_ops(after) <= count_ops(before.model)
    before.check_files(after, tmp_path, litert=True)


@pytest.mark.parametrize("name", PASSES)
def test_single_pass(name: str) -> None:
    """Two models made for all, and one that has what the pass may look for more often."""
    for seed in (1, 2, PASSES.index(name) + 2 * FIRST):
        original(seed).check([name], "circle", is_text_checked=False)


@pytest.mark.parametrize("seed", range(3 * FIRST, 3 * FIRST + 40))
def test_passes_in_any_order(seed: int) -> None:
    random = np.random.default_rng(seed)
    passes = [name for name in PASSES if name not in RESTLESS]
    names = [str(name) for name in random.choice(passes, int(random.integers(2, 9)), replace=False)]
    with suppress(RewriteError):  # one undoes what the other does
        original(seed).check(names, "circle" if seed % 2 else "tflite", is_text_checked=False)


def test_models_are_made_the_same_again() -> None:
    steps = random_steps(FIRST)
    one, two = (Original(*make(FIRST, steps)) for _ in range(2))
    assert one.text == two.text
    for a, b in zip(one.outputs[0], two.outputs[0], strict=True):
        np.testing.assert_array_equal(a, b)


def test_every_part_makes_something() -> None:
    """A part that never fits would test nothing."""
    for index, part in enumerate(PARTS):
        models = [make(seed, [Step(0, seed), Step(index, seed)])[0] for seed in range(60)]
        assert any(count_ops(model) > 1 for model in models), part
