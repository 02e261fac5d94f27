# SPDX-License-Identifier: Apache-2.0
"""Real models: optimized with every pass verified, and recorded results reproduced before and after."""

from __future__ import annotations

from pathlib import Path

import circlekit
from tests.passes.kit import assert_close
from tests.recorded_values import recorded

TOLERANCE = {"tico": 1e-4, "tensorflow": 1e-5, "mlperf_tiny": 1e-5}
"""Largest difference from the recorded results, as a fraction of the largest magnitude, by folder."""


def check_results(model: circlekit.Model, path: Path) -> None:
    inputs, wanted = recorded(path.with_suffix(".npz"))
    assert_close(circlekit.run(model, inputs), wanted, path.name, TOLERANCE[path.parent.name])


def test_optimized_models_compute_what_was_recorded(model_path: Path) -> None:
    model = circlekit.load(model_path)
    check_results(model, model_path)
    report = circlekit.optimize(model, verify=True)
    assert report.verified
    expected = "would run the original"  # such a note: another runtime runs the original, but not the result
    assert [note for note in report.notes if expected not in note] == []
    check_results(model, model_path)
