# SPDX-License-Identifier: Apache-2.0
"""Compare the values of two models, for each output and for each result that both models name."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from circlekit.equivalence.model_comparison import largest_magnitude, worst_difference
from circlekit.equivalence.seeded_inputs import with_seeds
from circlekit.equivalence.verify import Records, Run, Verifier
from circlekit.errors import CirclekitError
from circlekit.interp.interpreter import run
from circlekit.ir.graph import Model
from circlekit.ir.progress import progress
from circlekit.ir.value import Array

MAX_KEPT_BYTES = 1 << 30
"""Results of the first model are kept up to this size; later ones are not compared."""


@dataclass(frozen=True)
class Difference:
    """How far two arrays of one name are apart.

    ``absolute``: the largest difference of two elements.  ``relative``: the same, relative to the largest
    magnitude of the reference.  ``cosine``: of the angle between the arrays as vectors; None if one of them
    is zero.  ``inputs``: the set of inputs.  ``allowed``: the tolerated absolute difference, None for layers.
    """

    name: str
    inputs: str
    absolute: float
    relative: float
    cosine: float | None
    allowed: float | None = None

    @property
    def is_within(self) -> bool:
        return self.allowed is None or self.absolute <= self.allowed


@dataclass
class ValueComparison:
    """``outputs``, ``layers``: differences; layers in the order of the first model, on one set of inputs.

    ``verdict``: equal, different, or why the models were not compared.  ``notes``: what it does not prove.
    """

    verdict: str
    outputs: list[Difference] = field(default_factory=list)
    layers: list[Difference] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def compare_values(
    before: Model,
    after: Model,
    records: Records | None = None,
) -> ValueComparison:
    """Run both models; by default on seeded normal, boundary and zero inputs, layers on the normal ones.

    A model that cannot be run is not an error: the verdict says so.
    """
    try:
        progress().begin("running the first model")
        verifier = Verifier(before, records)
        progress().begin("running the second model")
        found = verifier.compare(after)
        result = ValueComparison("equal" if found.equal else "different", notes=found.interface + found.notes)
        result.outputs = _outputs(verifier, after, {(o.inputs, o.name): o for o in found.outputs})
        progress().begin("comparing layers")
        if found.outputs:
            result.layers = _layers(before, after, verifier.runs[0], result.notes)
    except CirclekitError as error:
        return ValueComparison(f"not compared: {error.message}")
    return result


def _outputs(verifier: Verifier, after: Model, found: dict[tuple[str, str], object]) -> list[Difference]:
    names = [value.name for value in after.main.outputs]
    outputs = []
    for past, latest in zip(verifier.runs, verifier.latest, strict=True):
        again = dict(zip(names, latest, strict=False))
        for name, array in zip(verifier.names, past.outputs, strict=True):
            outcome = found.get((past.kind, name))
            if outcome is None or name not in again or not _comparable(array, again[name]):
                continue
            worst = getattr(outcome, "worst", None)
            allowed = None if worst is None else worst.tolerance
            outputs.append(_difference(name, past.kind, array, again[name], allowed))
    return outputs


def _layers(before: Model, after: Model, first: Run, notes: list[str]) -> list[Difference]:
    """Compare results of the main graphs with equal names, dtypes and shapes."""
    shared = _result_names(before) & _result_names(after)
    kept: dict[str, Array] = {}
    size = 0

    def keep(name: str, array: Array) -> None:
        nonlocal size
        if name in shared and name not in kept:
            size += array.nbytes
            if size <= MAX_KEPT_BYTES:
                kept[name] = array.copy()

    layers: dict[str, Difference] = {}

    def compare(name: str, array: Array) -> None:
        if name in kept and name not in layers and _comparable(kept[name], array):
            layers[name] = _difference(name, first.kind, kept[name], array)

    for model, observe in ((before, keep), (after, compare)):
        with np.errstate(all="ignore"):  # boundary inputs may overflow
            run(with_seeds(model), first.inputs, on_value=observe, kernels=first.kernels)
    if size > MAX_KEPT_BYTES:
        notes.append(f"layers beyond {MAX_KEPT_BYTES >> 20} MiB of results are not compared")
    return [layers[name] for name in kept if name in layers]


def _result_names(model: Model) -> set[str]:
    return {value.name for op in model.main for value in op.results}


def _comparable(left: Array, right: Array) -> bool:
    return left.shape == right.shape and left.dtype == right.dtype and left.dtype.kind in "fiub"


def _difference(
    name: str, inputs: str, left: Array, right: Array, allowed: float | None = None
) -> Difference:
    worst = worst_difference(left, right)
    absolute = 0.0 if worst is None else worst.absolute
    scale = largest_magnitude(left.astype(np.float64))
    relative = absolute / scale if scale else (0.0 if absolute == 0 else float("inf"))
    return Difference(name, inputs, absolute, relative, cosine_similarity(left, right), allowed)


def cosine_similarity(left: Array, right: Array) -> float | None:
    """Return the cosine of the angle between two arrays as vectors; None if one is zero or not finite."""
    a, b = (array.astype(np.float64).reshape(-1) for array in (left, right))
    length = float(np.linalg.norm(a) * np.linalg.norm(b))
    if not length or not np.isfinite(length):
        return None
    return min(1.0, max(-1.0, float(a @ b) / length))
