# SPDX-License-Identifier: Apache-2.0
"""Run a model on the sets of inputs that equivalence is judged by, and estimate its rounding error.

A rewrite that folds a factor into weights rounds each weight once more, by at most half a unit in the last
place.  A deep model can amplify that beyond any fixed tolerance.  The estimate is the effect of moving all
its own weights by one unit in the last place.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from circlekit.equivalence.seeded_inputs import InputSet, input_sets, make_inputs, with_seeds
from circlekit.errors import CirclekitError, UnsupportedError
from circlekit.interp.interpreter import run, select_kernels
from circlekit.ir.clone import clone
from circlekit.ir.graph import Model
from circlekit.ir.text.fillers import seed_of
from circlekit.ir.value import Array
from circlekit.ops.numerics.output_stage import Kernels

Inputs = Sequence[Array] | Mapping[str, Array]


@dataclass
class Run:
    """The outputs of a model on one set of inputs.

    ``kind``: the label of the set, or "given".  ``kernels``: the kernels that computed integers; a model
    that is compared with this one must use the same.
    """

    kind: str
    inputs: Inputs
    outputs: list[Array]
    kernels: Kernels = Kernels.REFERENCE

    @staticmethod
    def of(kind: str, model: Model, inputs: Inputs, kernels: Kernels) -> Run:
        first = Run(kind, inputs, [], kernels)
        return replace(first, outputs=first.again(model))

    def again(self, model: Model) -> list[Array]:
        """Return the outputs of another ``model`` on the same inputs, with the same kernels."""
        with np.errstate(all="ignore"):  # boundary inputs may overflow
            return run(with_seeds(model), self.inputs, kernels=self.kernels)


def reference_runs(
    model: Model, inputs: Inputs | None = None, kernels: Kernels | None = None
) -> tuple[list[Run], list[str]]:
    """Run ``model`` on ``inputs``, or on every seeded set; return notes on sets that it cannot take too.

    ``kernels``: those of the whole model if ``model`` is a part of one.  UnsupportedError if an operator
    has no kernel; the error of the run if it fails on normal inputs.
    """
    kernels = select_kernels(model, kernels)
    if inputs is not None:
        return [Run.of("given", model, inputs, kernels)], []
    runs, notes = [], []
    for which in input_sets(model.main):
        try:
            runs.append(_seeded_run(model, which, kernels))
        except UnsupportedError as error:  # noqa: PERF203  # a handful of sets
            raise error.note("so the model cannot be verified: verifying runs it before and after") from None
        except CirclekitError as error:
            if which.kind == "normal":
                raise
            label = f"{which.label} inputs, which the model does not take"
            notes.append(f"not compared on {label}: {error.message}")
    return runs, notes


def _seeded_run(model: Model, which: InputSet, kernels: Kernels) -> Run:
    """Run with unknown dimensions of 2, which tells a broadcast from a batch, or of 1 if that fails."""
    if any(None in (value.shape or ()) for value in model.main.inputs):
        inputs = make_inputs(model.main, which, unknown=2)
        try:
            return Run.of(which.label, model, inputs, kernels)
        except UnsupportedError:
            raise
        except CirclekitError:
            pass
    inputs = make_inputs(model.main, which)
    return Run.of(which.label, model, inputs, kernels)


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
