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
    """Assert that onert runs the optimized model with the values that we compute for the original."""
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


def run_in_onert(model: Model) -> tuple[bool, bool]:
    """Return whether onert runs ``model`` with our values, and whether the check has no finding."""
    inputs = [make_input(value, "normal") for value in model.main.inputs]
    (ran,) = run_jobs(RUNTIMES["onert"], [Job(to_bytes(model, "circle"), inputs)])
    found, wanted = ran.outputs or [], circlekit.run(model, inputs)
    equal = [a.shape == b.shape and np.allclose(a, b, atol=1e-4) for a, b in zip(wanted, found, strict=False)]
    return len(found) == len(wanted) and all(equal), not circlekit.check(model, "onert")


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
        (True, 1, 4, "%b = Add(%a, [[1.0], [2.0], [3.0]])\n%y = Mul(%b, %x)", "%y"),
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
    """The ignored keep_num_dims is a finding only if a later operator or an output depends on the shape."""
    model = circlekit.parse(DENSE.format(batch=batch, units=units, rest=rest, outputs=outputs))
    assert run_in_onert(model) == (runs, runs)


@needs_onert
def test_a_sum_along_a_wrong_axis_on_onert_is_found_by_the_check() -> None:
    """The rows of [2,4] are added to [2,2,4] along another axis than those of [2,1,4]."""
    model = circlekit.parse("""
graph main(%x: f32[2,1,4], %u: f32[2,2,4]) -> %y {
  %w = const f32[4,4] gaussian(0, 1)
  %a = FullyConnected(%x, %w, none) {keep_num_dims: true}
  %y = Add(%a, %u)
}
""")
    assert run_in_onert(model) == (False, False)


@needs_onert
@pytest.mark.parametrize(
    ("runs", "unread", "body", "outputs"),
    [
        (True, "f32", "%a = Abs(%x) %b = Neg(%a) %y = Exp(%b)", "%y"),
        (False, "f32", "%a = Abs(%x) %b = Neg(%a) %y = Exp(%b)", "%a, %y"),
        (False, "f32", "%y = Exp(%x) %a = Abs(%x) %b = Neg(%a)", "%a, %b, %y"),  # onert may run Exp last
        (True, "f32", "%a = Abs(%x) %b = Neg(%a) %y = Add(%b, %a)", "%a, %y"),
        (True, "i8", "%y = Neg(%x)", "%y"),
        (False, "i16", "%y = Neg(%x)", "%y"),
        (False, "u64", "%y = Neg(%x)", "%y"),
    ],
)
def test_inputs_and_outputs_that_onert_does_not_take(
    runs: bool, unread: str, body: str, outputs: str
) -> None:
    """An output may be overwritten once its last reader has run; unread inputs of i16 or u64 are refused."""
    model = circlekit.parse(f"graph main(%x: f32[2,3], %u: {unread}[3]) -> {outputs} {{\n{body}\n}}")
    assert run_in_onert(model) == (runs, runs)
    if unread == "f32":
        circlekit.optimize(model, ["remove_dead"], target="onert")
        assert run_in_onert(model) == (True, True)


@needs_onert
@pytest.mark.parametrize("dtype", ["i32", "i64"])
def test_limited_integers_run_in_onert(dtype: str) -> None:
    body, outputs = "%a = Concatenation(%x, %x) {axis: 1, act: RELU6}", "%a"
    if dtype == "i32":  # onert has MINIMUM for i32, but not for i64
        body, outputs = f"{body} %y = Maximum(%x, [-3])", "%a, %y"
    model = circlekit.parse(f"graph main(%x: {dtype}[2,3]) -> {outputs} {{\n{body}\n}}")
    assert run_in_onert(model) == (False, False)
    circlekit.optimize(model, ["remove_dead"], target="onert", verify=True)
    assert run_in_onert(model) == (True, True)
