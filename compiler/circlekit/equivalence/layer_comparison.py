# SPDX-License-Identifier: Apache-2.0
"""Comparison of two models by results that have the same name in both main graphs; also across types."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from circlekit.equivalence.model_comparison import (
    Comparison,
    Outcome,
    allowed_difference,
    compare_arrays,
    similarity,
)
from circlekit.equivalence.real_numbers import have_equal_types, inputs_for, real_numbers
from circlekit.equivalence.rounding import excused, with_moved_constants
from circlekit.equivalence.seeded_inputs import with_seeds
from circlekit.equivalence.verify import Inputs, Run, Verifier
from circlekit.interp.interpreter import expect_runs
from circlekit.interp.interpreter import run as run_model
from circlekit.ir.dtypes import DType
from circlekit.ir.graph import Model
from circlekit.ir.resource_limits import adding_up, hold_memory, need_memory
from circlekit.ir.value import Array, Value
from circlekit.ops.numerics.output_stage import Kernels


def compare_models(verifier: Verifier, after: Model) -> Comparison:
    """Do what ``verifier.compare`` does; compare a float model with its quantized form as real numbers.

    Seeded inputs are then the normal ones only: the others exceed the range of most quantized inputs.
    """
    found, before = verifier.compare(after), verifier.original
    old, new = _dtypes(before), _dtypes(after)
    if all(new[name] is dtype for name, dtype in old.items() if name in new):
        return found
    names = [value.name for value in before.main.outputs]
    runs = verifier.runs[:1] if verifier.records is None else verifier.runs
    outputs = [outcome for run in runs for outcome in compare_layers(before, after, run, names)]
    if outputs:
        found.outputs = outputs
        found.notes.append("inputs or outputs have different types: values are compared as real numbers")
    return found


def _dtypes(model: Model) -> dict[str, DType]:
    return {value.name: value.dtype for value in (*model.main.inputs, *model.main.outputs)}


def compare_layers(
    before: Model, after: Model, run: Run, names: Collection[str] | None = None
) -> list[Outcome]:
    """Compare the results that both models name, in the order in which ``after`` computes them.

    ``run``: the run of ``before``.  ``names``: of the results to compare, by default all.  Differences are
    tolerated as for outputs, in proportion to each result.  Values of different types are compared as real
    numbers; then ``after`` gets the inputs quantized.  Return [] if the models take other inputs.  Raise
    LimitError if the results do not fit into memory.
    """
    inputs = inputs_for(after, before, run.inputs)
    if inputs is None:
        return []
    old, new = _results(before), _results(after)
    shared = [name for name in new if name in old and (names is None or name in names)]
    kernels = run.kernels if inputs is run.inputs else None
    with adding_up():
        left, right = (
            _values(before, run.inputs, run.kernels, shared), _values(after, inputs, kernels, shared)
        )  # fmt: skip
        found = [_compared(old[n], left[n], new[n], right[n]) for n in shared if n in left and n in right]
        suspects = [outcome.name for outcome in found if not outcome.equal and not outcome.reason]
        if suspects:
            moved = _values(with_moved_constants(before), run.inputs, run.kernels, suspects)
            noise = {name: excused(left[name], moved[name]) for name in suspects if name in moved}
            found = [_tolerating(outcome, noise.get(outcome.name, 0.0)) for outcome in found]
    return [replace(outcome, inputs=run.kind) for outcome in found]


def _compared(a: Value, left: Array, b: Value, right: Array) -> Outcome:
    tolerance = allowed_difference(left)
    if not have_equal_types([a], [b]):
        left, right = real_numbers(a, left), real_numbers(b, right)
    return replace(compare_arrays(a.name, left, right, tolerance), similarity=similarity(left, right))


def _tolerating(outcome: Outcome, noise: float) -> Outcome:
    worst = outcome.worst
    return (
        outcome
        if worst is None
        else replace(outcome, worst=replace(worst, tolerance=max(worst.tolerance, noise)))
    )


def _results(model: Model) -> dict[str, Value]:
    return {value.name: value for op in model.main for value in op.results}


def _values(
    model: Model, inputs: Inputs, kernels: Kernels | None, names: Collection[str]
) -> dict[str, Array]:
    """Return the named results of ``model``; in a loop, the first of each name."""
    wanted, found = set(names), dict[str, Array]()

    def keep(name: str, array: Array) -> None:
        if name in wanted and name not in found:
            need_memory(array.nbytes, "keeping the results of all operators")
            hold_memory(array.nbytes)
            found[name] = array

    expect_runs(model, 1)
    run_model(with_seeds(model), inputs, on_value=keep, kernels=kernels)
    return found
