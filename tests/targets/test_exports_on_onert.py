# SPDX-License-Identifier: Apache-2.0
"""Models as PyTorch exporters write them, optimized for onert, load and run there with the same values."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

import circlekit
from circlekit.api.rewriting import Options
from circlekit.ir.graph import Model
from circlekit.targets.target import target_names
from tests.passes.kit import make_input
from tests.targets.exports import EXPORTS, TICO
from tools.probe_targets.runtimes import RUNTIMES, Job, run_jobs

needs_onert = pytest.mark.skipif(
    find_spec("onert") is None or "onert" not in target_names(),
    reason="onert, or its table, is not installed",
)


def check(model: Model, path: Path) -> None:
    """The optimized model runs in onert, with the values that ours gives for the original."""
    inputs = [make_input(value, "normal") for value in model.main.inputs]
    source = path.with_stem("source")
    circlekit.save(model, source)
    circlekit.convert(source, path, Options(passes=["O1"], target="onert"))
    (ran,) = run_jobs(RUNTIMES["onert"], [Job(path.read_bytes(), inputs)])
    assert ran.outputs is not None, ran.reason
    for ours, theirs in zip(circlekit.run(model, inputs), ran.outputs, strict=True):
        assert ours.shape == theirs.shape
        np.testing.assert_allclose(theirs, ours, rtol=0, atol=1e-5 * max(1, np.abs(ours).max()))


@needs_onert
@pytest.mark.parametrize("name", EXPORTS)
def test_export_runs_in_onert(name: str, tmp_path: Path) -> None:
    check(circlekit.parse(EXPORTS[name]), tmp_path / "model.circle")


@needs_onert
@pytest.mark.parametrize("path", TICO, ids=lambda path: path.stem)
def test_export_of_tico_runs_in_onert(path: Path, tmp_path: Path) -> None:
    check(circlekit.load(path), tmp_path / "model.circle")
