# SPDX-License-Identifier: Apache-2.0
"""Whole models against what other programs computed: PyTorch and LiteRT."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from circlekit import io
from circlekit.errors import UnsupportedError
from circlekit.interp import run
from circlekit.ir.value import Array
from tests.ops.litert import assert_close

TOLERANCE = {"tico": 1e-4}
"""Of the largest magnitude, by folder: PyTorch rounds differently from LiteRT's reference kernels."""

LITERT_TOLERANCE = 1e-5

TRAPS = Path(__file__).parents[3] / "shared" / "peer" / "traps"


def recorded(path: Path) -> tuple[list[Array], list[Array]]:
    """Inputs and outputs in graph order, of an npz file."""
    with np.load(path) as data:
        sides = [[data[f"{side}{i}"] for i in range(len(data.files)) if f"{side}{i}" in data.files]
                 for side in ("in", "out")]  # fmt: skip
    return sides[0], sides[1]


def check_recorded(model_path: Path, npz: Path, tolerance: float) -> None:
    inputs, wanted = recorded(npz)
    model = io.load(model_path)
    try:
        outputs = run(model, inputs)
    except UnsupportedError as error:
        pytest.skip(error.message)
    for got, expected in zip(outputs, wanted, strict=True):
        assert_close(got, expected, tolerance)


def test_model(model_path: Path) -> None:
    tolerance = TOLERANCE.get(model_path.parent.name, LITERT_TOLERANCE)
    check_recorded(model_path, model_path.with_suffix(".npz"), tolerance)


CASES = sorted(TRAPS.glob("*/model.tflite"))


@pytest.mark.skipif(not CASES, reason=f"no recorded cases at {TRAPS}")
@pytest.mark.parametrize("path", CASES, ids=lambda p: p.parent.name)
def test_trap(path: Path) -> None:
    """The models on which the peer's passes were measured, unchanged."""
    check_recorded(path, path.with_name("io.npz"), LITERT_TOLERANCE)
