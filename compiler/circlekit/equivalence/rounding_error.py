# SPDX-License-Identifier: Apache-2.0
"""How far rounding alone moves the outputs of a model.

A rewrite that folds a factor into weights rounds each weight once more, by at most half a unit in the
last place.  A deep model can amplify that beyond any fixed tolerance; what it does with its own weights
one unit off tells how much.
"""

from __future__ import annotations

import numpy as np

from circlekit.equivalence.reference_runs import Run
from circlekit.ir.clone import clone
from circlekit.ir.graph import Model
from circlekit.ir.text.fillers import seed_of
from circlekit.ir.value import Array

FACTOR = 4.0
"""How many times the measured noise a difference may be: one measurement is a sample, not a bound."""

LIMIT = 1e-4
"""The most that noise excuses, as a fraction of the largest magnitude of the output."""


def rounding_noise(model: Model, run: Run, limit: float = LIMIT) -> list[float]:
    """For each output, the absolute difference that rounding may make; 0 for what is no float.

    ``limit``: the most that it may be, as a fraction of the largest magnitude of the output.  Runs ``model``
    once with every float constant moved by one unit in the last place, up or down (seeded).
    """
    moved = clone(model)
    for graph in moved.graphs:
        for value in list(graph.values()):
            if value.data is not None and value.is_plain and value.data.dtype.kind == "f":
                value.data = _moved(value.data, seed_of(graph.name, value.name))
    after = run.again(moved)
    return [_excused(a, b, limit) for a, b in zip(run.outputs, after, strict=True)]


def _moved(data: Array, seed: int) -> Array:
    """Each element next to what it was; zeros and what is not finite stay."""
    up = np.random.Generator(np.random.PCG64(seed)).integers(0, 2, data.shape, dtype=np.int8) == 1
    with np.errstate(all="ignore"):
        next_to = np.nextafter(data, np.where(up, np.inf, -np.inf).astype(data.dtype))
    keep = (data == 0) | ~np.isfinite(data) | ~np.isfinite(next_to)
    return np.where(keep, data, next_to)


def _excused(reference: Array, moved: Array, limit: float) -> float:
    if reference.dtype.kind != "f" or reference.shape != moved.shape:
        return 0.0
    both = np.isfinite(reference) & np.isfinite(moved)
    if not both.any():
        return 0.0
    exact = reference[both].astype(np.float64)
    noise = float(np.abs(exact - moved[both]).max())
    return min(FACTOR * noise, limit * float(np.abs(exact).max()))
