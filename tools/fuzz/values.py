# SPDX-License-Identifier: Apache-2.0
"""Whether a mutated model computes after O1 what it computed before."""

from __future__ import annotations

import math

import numpy as np

from circlekit.equivalence.comparison import compare_outputs, interface_differences, interface_of
from circlekit.equivalence.reference_runs import reference_runs
from circlekit.equivalence.rounding_error import rounding_noise
from circlekit.equivalence.verify import Verifier
from circlekit.errors import CirclekitError, EquivalenceError
from circlekit.ir.graph import Model
from circlekit.ir.value import Array
from circlekit.ops.arithmetic.random_ops import Random

HUGE = 1e30

MOST_CALLS = 200
"""Graphs that loops of a model may run."""

MOST_ELEMENTS = 1 << 18
"""Of all values of a model together: larger ones take too long."""


def runs(model: Model) -> bool:
    """Whether the model computes something for inputs that it takes."""
    if elements(model) > MOST_ELEMENTS:
        return False
    try:
        reference_runs(model)
    except CirclekitError:
        return False
    return True


def elements(model: Model) -> int:
    """How many elements all values together have, unknown dimensions taken as 2."""
    return sum(math.prod(d or 2 for d in v.shape or ()) for g in model.graphs for v in g.values())


def difference(before: Model, after: Model) -> str:
    """``equal``, why nothing could be compared, or ``fault:`` and what is different."""
    if elements(before) > MOST_ELEMENTS:
        return "too large"
    try:
        verifier = Verifier(before)
    except CirclekitError:
        return "does not run"
    try:
        verifier.check(after, "O1")
    except EquivalenceError as error:
        huge = any(_is_huge(x) for run in verifier.runs for x in run.outputs)
        if huge or _is_odd(before):
            return "not finite"
        return "amplified rounding" if is_rounding(verifier, after) else f"fault: {error}"
    return "equal"


def is_rounding(verifier: Verifier, after: Model) -> bool:
    """Whether the constants, each one unit in the last place off, move the outputs as far as O1 did.

    A model that divides by what is almost zero makes much of little.  ``--verify`` refuses it beyond a
    limit, since a user shall know; what O1 did to it is no fault.
    """
    if interface_differences(verifier.interface, interface_of(after)):
        return False
    for run in verifier.runs:
        try:
            outputs = run.again(after)
        except CirclekitError:
            return False
        noise = rounding_noise(verifier.original, run, limit=1.0)
        found = compare_outputs(run.kind, verifier.names, run.outputs, outputs, noise)
        if not all(output.equal for output in found):
            return False
    return True


def give_seeds(model: Model) -> None:
    """A seed for every random operator that leaves it to the machine: its numbers are then to be compared.

    Without one they are other numbers for each name, and an operator of a branch gets another name when
    the branch takes the place of its IF.
    """
    for number, op in enumerate(model.ops()):
        if isinstance(op, Random) and not (op.seed or op.seed2):
            op.seed = number + 1


def _is_huge(array: Array) -> bool:
    """Whether numbers are so large that their order of operations decides on an overflow."""
    if array.dtype.kind not in "fc" or not array.size:
        return False
    with np.errstate(all="ignore"):
        return not float(np.max(np.abs(array))) < HUGE


def _is_odd(model: Model) -> bool:
    """Whether constants are infinite, not numbers or huge: rewrites may move what such numbers spoil."""
    for graph in model.graphs:
        for value in graph.values():
            data = value.data
            if data is not None and data.dtype.kind in "fc":
                with np.errstate(all="ignore"):
                    size = np.abs(data)
                if size.size and not float(np.max(size)) < 1e6:
                    return True
    return False
