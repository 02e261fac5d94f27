# SPDX-License-Identifier: Apache-2.0
"""Compare the values of two models, for each output and for each result that both models name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from circlekit.equivalence.model_comparison import Comparison, largest_magnitude, worst_difference
from circlekit.equivalence.seeded_inputs import with_seeds
from circlekit.equivalence.verify import Inputs, Records, Run, Verifier
from circlekit.errors import CirclekitError
from circlekit.interp.interpreter import run
from circlekit.ir.graph import Model
from circlekit.ir.progress import progress
from circlekit.ir.value import Array, Value
from circlekit.ops.quantization import is_quantized, per_tensor_quantization
from circlekit.passes.engine.optimization_report import equal_within

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

    ``verdict``: within what outputs are equal, which one differs, or why they were not compared.
    ``is_equal``: None if they were not.  ``notes``: what the comparison does not prove.
    """

    verdict: str
    is_equal: bool | None = None
    outputs: list[Difference] = field(default_factory=list)
    layers: list[Difference] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def compare_values(
    before: Model,
    after: Model,
    records: Records | None = None,
) -> ValueComparison:
    """Run both models; by default on seeded normal, boundary and zero inputs, layers on the normal ones.

    Values of different types, as those of a float model and of its quantized form, are compared as real
    numbers; the second model then gets the inputs of the first one quantized.  A model that cannot be run is
    not an error: the verdict says so.
    """
    try:
        progress().begin("running the first model")
        verifier = Verifier(before, records)
        progress().begin("running the second model")
        found = verifier.compare(after)
        result = ValueComparison(_verdict(found), found.equal, notes=found.interface + found.notes)
        result.outputs = _outputs(verifier, after, {(o.inputs, o.name): o for o in found.outputs})
        progress().begin("comparing layers")
        result.layers = _layers(before, after, verifier.runs[0], result.notes)
        if not found.outputs:
            names = {value.name for value in before.main.outputs}
            result.outputs = [layer for layer in result.layers if layer.name in names]
    except CirclekitError as error:
        return ValueComparison(f"not compared: {error.message}")
    return result


def _verdict(found: Comparison) -> str:
    worst = found.worst
    if not found.equal:
        return f"different: {worst or found.interface[0]}"
    if worst is None or worst.worst is None:
        return "equal: there are no elements to compare"
    return equal_within(worst.worst.absolute, worst.worst.tolerance)


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
    """Compare results of the main graphs with equal names and shapes; [] if the inputs do not fit."""
    old, new = _results(before), _results(after)
    inputs = _inputs_for(after, before, first.inputs)
    if inputs is None:
        return []
    has_equal_types = [v.type for v in before.main.inputs] == [v.type for v in after.main.inputs]
    kept: dict[str, Array] = {}
    size = 0

    def keep(name: str, array: Array) -> None:
        nonlocal size
        if name in old and name in new and name not in kept:
            size += array.nbytes
            if size <= MAX_KEPT_BYTES:
                kept[name] = array.copy()

    layers: dict[str, Difference] = {}

    def compare(name: str, array: Array) -> None:
        if name not in kept or name in layers:
            return
        left, right = kept[name], array
        if old[name].type != new[name].type:
            left, right = real_numbers(old[name], left), real_numbers(new[name], right)
        if _comparable(left, right):
            layers[name] = _difference(name, first.kind, left, right)

    run(with_seeds(before), first.inputs, on_value=keep, kernels=first.kernels)
    run(with_seeds(after), inputs, on_value=compare, kernels=first.kernels if has_equal_types else None)
    if size > MAX_KEPT_BYTES:
        notes.append(f"layers beyond {MAX_KEPT_BYTES >> 20} MiB of results are not compared")
    return [layers[name] for name in kept if name in layers]


def _results(model: Model) -> dict[str, Value]:
    return {value.name: value for op in model.main for value in op.results}


def _inputs_for(model: Model, other: Model, inputs: Inputs) -> Inputs | None:
    """Return ``inputs`` of ``other`` in the types of ``model``; None if number or shapes are not the same."""
    theirs, own = other.main.inputs, model.main.inputs
    if [v.type for v in theirs] == [v.type for v in own]:
        return inputs
    if isinstance(inputs, Mapping) or [v.shape for v in theirs] != [v.shape for v in own]:
        return None
    return [stored_numbers(b, real_numbers(a, x)) for a, b, x in zip(theirs, own, inputs, strict=True)]


def real_numbers(value: Value, array: Array) -> Array:
    """Return the numbers that ``array`` stands for: dequantized if it has one scale, else as they are."""
    form = per_tensor_quantization(value)
    if form is None or not is_quantized(value):
        return array.astype(np.float64) if array.dtype.kind in "fiub" else array
    return (array.astype(np.float64) - float(form.zero_point.sum())) * float(form.scale[0])


def stored_numbers(value: Value, numbers: Array) -> Array:
    """Return ``numbers`` as the elements of ``value``: the inverse of ``real_numbers``, within the limits."""
    form = per_tensor_quantization(value)
    if form is not None and is_quantized(value):
        levels = np.rint(numbers / float(form.scale[0])) + float(form.zero_point.sum())
        numbers = np.clip(levels, *value.dtype.limits)
    return numbers.astype(value.dtype.numpy)


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
