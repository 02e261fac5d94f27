# SPDX-License-Identifier: Apache-2.0
"""Real models: optimized with every pass verified, and recorded results reproduced before and after."""

from __future__ import annotations

from pathlib import Path

import numpy as np

import circlekit

TOLERANCE = {"tico": 1e-4, "tensorflow": 1e-5, "mlperf_tiny": 1e-5}
"""Largest difference from the recorded results, as a fraction of the largest magnitude, by folder."""


def recorded(path: Path, prefix: str) -> list[np.ndarray]:
    with np.load(path.with_suffix(".npz")) as file:
        return [file[f"{prefix}{i}"] for i in range(sum(name.startswith(prefix) for name in file.files))]


def check_results(model: circlekit.Model, path: Path) -> None:
    results = circlekit.run(model, recorded(path, "in"))
    for value, found, wanted in zip(model.main.outputs, results, recorded(path, "out"), strict=True):
        assert (found.shape, found.dtype) == (wanted.shape, wanted.dtype), value.name
        error = np.abs(found.astype(np.float64) - wanted).max()
        largest = np.abs(wanted.astype(np.float64)).max()
        exact = wanted.dtype.kind in "iub"
        allowed = 0 if exact else TOLERANCE[path.parent.name] * largest
        assert error <= allowed, value.name


def test_optimized_models_compute_what_was_recorded(model_path: Path) -> None:
    model = circlekit.load(model_path)
    check_results(model, model_path)
    report = circlekit.optimize(model, verify=True)
    assert report.verified
    expected = "would run the original"  # such a note: another runtime runs the original, but not the result
    assert [note for note in report.notes if expected not in note] == []
    check_results(model, model_path)
