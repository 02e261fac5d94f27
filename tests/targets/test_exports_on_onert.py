# SPDX-License-Identifier: Apache-2.0
"""Models as PyTorch exporters write them, optimized for onert, load and run there with the same values."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

import circlekit
from circlekit.api.options import Options
from circlekit.io.write.save import to_bytes
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


DENSE = """
graph main(%x: f32[{batch},3,4]) -> {outputs} {{
  %w = const f32[{units},4] gaussian(0, 1)
  %a = FullyConnected(%x, %w, none) {{keep_num_dims: true}}
  {rest}
}}
"""


@needs_onert
@pytest.mark.parametrize(
    ("runs", "batch", "units", "rest", "outputs"),
    [
        (True, 1, 4, "%b = Logistic(%a)\n%y = Mul(%b, %x)", "%y"),
        (True, 2, 4, "%b = Gelu(%a)\n%c = Add(%b, [1.0, 2.0, 3.0, 4.0])\n%y = Reshape(%c, [6, 4])", "%y"),
        (True, 2, 4, "%b = FullyConnected(%x, %w, none) {keep_num_dims: true}\n"
                     "%c = Mul(%a, %b)\n%y = Reshape(%c, [3, 8])", "%y"),
        (False, 2, 4, "%y = Add(%a, %x)", "%y"),
        (False, 3, 4, "%b = Add(%a, %x)\n%y = Reshape(%b, [36])", "%y"),
        (False, 2, 4, "%y = Transpose(%a, [1, 0, 2])", "%y"),
        (False, 2, 4, "%y = Reshape(%a, [3, 8])", "%y, %a"),
    ],
)  # fmt: skip
def test_a_shape_that_onert_computes_otherwise(
    runs: bool, batch: int, units: int, rest: str, outputs: str
) -> None:
    """The attribute that onert ignores is a finding only where a reader tells the difference."""
    model = circlekit.parse(DENSE.format(batch=batch, units=units, rest=rest, outputs=outputs))
    inputs = [make_input(value, "normal") for value in model.main.inputs]
    (ran,) = run_jobs(RUNTIMES["onert"], [Job(to_bytes(model, "circle"), inputs)])
    wanted = circlekit.run(model, inputs)
    equal = ran.outputs is not None and all(
        a.shape == b.shape and np.allclose(a, b, atol=1e-4) for a, b in zip(wanted, ran.outputs, strict=True)
    )
    assert equal == runs
    assert bool(circlekit.check(model, "onert")) != runs
