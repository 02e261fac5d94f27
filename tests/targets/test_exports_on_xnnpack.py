# SPDX-License-Identifier: Apache-2.0
"""PyTorch exports, optimized for XNNPACK: the delegate takes no smaller share of operators than before."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("ai_edge_litert")

import circlekit
from circlekit.ir.graph import Model
from circlekit.targets.delegation import find_delegation
from circlekit.targets.target import find_target
from tests.passes.kit import make_input
from tests.targets.exports import EXPORTS, TICO
from tools.bench.delegate import Delegation, delegation, start, written

TARGET = "litert-xnnpack"


def check(model: Model) -> None:
    """Check LiteRT on the optimized model: no more partitions, no smaller share delegated, close values."""
    before, after = written(model), written(model, ["O1"], TARGET)
    old, new = delegation(before), delegation(after)
    assert new.partitions <= old.partitions
    assert new.delegated * old.all >= old.delegated * new.all
    for content, found in ((before, old), (after, new)):
        assert_foreseen(content, found)
    inputs = [make_input(value, "normal") for value in model.main.inputs]
    for expected, actual in zip(*(outputs(content, inputs) for content in (before, after)), strict=True):
        np.testing.assert_allclose(actual, expected, rtol=0, atol=1e-5 * max(1, np.abs(expected).max()))


def assert_foreseen(content: bytes, found: Delegation) -> None:
    """Assert that the target's table and LiteRT agree on the numbers of partitions and operators."""
    foreseen = find_delegation(circlekit.load(content).main, find_target(TARGET))
    assert foreseen is not None
    assert (foreseen.partitions, foreseen.delegated, foreseen.operators) == found[:3]


def outputs(content: bytes, inputs: list[np.ndarray]) -> list[np.ndarray]:
    interpreter = start(content)
    for detail, array in zip(interpreter.get_input_details(), inputs, strict=True):
        interpreter.set_tensor(detail["index"], array)
    interpreter.invoke()
    return [interpreter.get_tensor(detail["index"]).copy() for detail in interpreter.get_output_details()]


@pytest.mark.parametrize("name", EXPORTS)
def test_export_is_delegated(name: str) -> None:
    check(circlekit.parse(EXPORTS[name]))


@pytest.mark.parametrize("path", TICO, ids=lambda path: path.stem)
def test_export_of_tico_is_delegated(path: Path) -> None:
    check(circlekit.load(path))
