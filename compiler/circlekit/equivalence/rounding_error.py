# SPDX-License-Identifier: Apache-2.0
"""Estimate how far rounding alone moves the outputs of a model.

A rewrite that folds a factor into weights rounds each weight once more, by at most half a unit in the last
place.  A deep model can amplify that beyond any fixed tolerance.  The estimate is the effect of moving all
its own weights by one unit in the last place.
"""

from __future__ import annotations

import numpy as np

from circlekit.equivalence.reference_runs import Run
from circlekit.ir.clone import clone
from circlekit.ir.graph import Model
from circlekit.ir.text.fillers import seed_of
from circlekit.ir.value import Array

SAFETY_FACTOR = 4.0
"""Tolerated difference as a multiple of the measured one, which is a sample, not a bound."""

LIMIT = 1e-4
"""Largest difference that is excused, relative to the largest magnitude of the output."""


def rounding_error(model: Model, run: Run, limit: float = LIMIT) -> list[float]:
    """Return the absolute difference that rounding may make in each output; 0 if it is not float.

    Runs ``model`` once more on the inputs of ``run``, every float constant moved by one unit in the last
    place, up or down (seeded).  ``limit``: the largest result, relative to the output's largest magnitude.
    """
    moved = clone(model)
    for graph in moved.graphs:
        for value in list(graph.values()):
            if value.data is not None and value.is_plain and value.data.dtype.kind == "f":
                value.data = _moved(value.data, seed_of(graph.name, value.name))
    after = run.again(moved)
    return [_excused(a, b, limit) for a, b in zip(run.outputs, after, strict=True)]


def _moved(data: Array, seed: int) -> Array:
    """Return each element's upper or lower neighbor; zeros, NaN and infinities stay."""
    up = np.random.Generator(np.random.PCG64(seed)).integers(0, 2, data.shape, dtype=np.int8) == 1
    with np.errstate(all="ignore"):
        neighbors = np.nextafter(data, np.where(up, np.inf, -np.inf).astype(data.dtype))
    keep = (data == 0) | ~np.isfinite(data) | ~np.isfinite(neighbors)
    return np.where(keep, data, neighbors)


def _excused(reference: Array, moved: Array, limit: float) -> float:
    if reference.dtype.kind != "f" or reference.shape != moved.shape:
        return 0.0
    both = np.isfinite(reference) & np.isfinite(moved)
    if not both.any():
        return 0.0
    exact = reference[both].astype(np.float64)
    error = float(np.abs(exact - moved[both]).max())
    return min(SAFETY_FACTOR * error, limit * float(np.abs(exact).max()))
