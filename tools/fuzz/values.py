# SPDX-License-Identifier: Apache-2.0
"""Compare the values of a mutated model before and after O1."""

from __future__ import annotations

import math

import numpy as np

from circlekit.equivalence.model_comparison import compare_outputs, interface_differences, interface_of
from circlekit.equivalence.random_seeds import unseeded
from circlekit.equivalence.reference_runs import reference_runs, rounding_error
from circlekit.equivalence.verify import Verifier
from circlekit.errors import CirclekitError, EquivalenceError
from circlekit.ir.graph import Model
from circlekit.ir.value import Array

MAX_CALLS = 200
"""Graph runs allowed in one comparison, so that endless loops end."""

MAX_ELEMENTS = 1 << 18
"""Elements of all values of a model together; larger models take too long."""

OVERFLOW_RISK = 1e30
"""Outputs above this may overflow in one order of operations and not in another."""

LARGE_CONSTANT = 1e6
"""A constant that is larger, infinite or NaN may spoil other elements once a rewrite has moved it."""


def can_run(model: Model) -> bool:
    """Return whether the model runs on seeded inputs and has at most MAX_ELEMENTS."""
    if count_elements(model) > MAX_ELEMENTS:
        return False
    try:
        reference_runs(model)
    except CirclekitError:
        return False
    return True


def count_elements(model: Model) -> int:
    """Return the number of elements of all values; a dimension that is unknown or 0 counts as 2."""
    return sum(math.prod(d or 2 for d in v.shape or ()) for g in model.graphs for v in g.values())


def compare_values(before: Model, after: Model) -> str:
    """Return ``equal``, ``fault:`` and the difference, or why values cannot be compared or judged."""
    if count_elements(before) > MAX_ELEMENTS:
        return "too large"
    try:
        verifier = Verifier(before)
    except CirclekitError:
        return "does not run"
    try:
        verifier.check(after, "O1")
    except EquivalenceError as error:
        outputs = [array for run in verifier.runs for array in run.outputs]
        constants = [v.data for g in before.graphs for v in g.values() if v.data is not None]
        if _exceeds(outputs, OVERFLOW_RISK) or _exceeds(constants, LARGE_CONSTANT):
            return "not finite"
        return "amplified rounding" if is_rounding(verifier, after) else f"fault: {error}"
    return "equal"


def is_rounding(verifier: Verifier, after: Model) -> bool:
    """Return whether rounding errors of the constants explain the difference.

    A model that divides by almost zero amplifies these errors.  Beyond a limit, ``--verify`` refuses even
    such a difference, because a user has to know of it; but it is not a fault of O1.
    """
    if interface_differences(verifier.interface, interface_of(after)):
        return False
    for run in verifier.runs:
        try:
            outputs = run.again(after)
        except CirclekitError:
            return False
        noise = dict(zip(verifier.names, rounding_error(verifier.original, run, limit=1.0), strict=True))
        before, now = (dict(zip(verifier.names, arrays, strict=True)) for arrays in (run.outputs, outputs))
        found = compare_outputs(run.label, before, now, noise)
        if not all(output.equal for output in found):
            return False
    return True


def set_random_seeds(model: Model) -> None:
    """Give a seed to every random operator that has none, so that its results can be compared."""
    for number, op in enumerate(unseeded(model.graphs), 1):
        op.seed = number


def _exceeds(arrays: list[Array], limit: float) -> bool:
    """Return whether some float element is NaN, or at least ``limit`` in magnitude."""
    with np.errstate(all="ignore"):
        return any(bool((~(np.abs(a) < limit)).any()) for a in arrays if a.dtype.kind in "fc")
