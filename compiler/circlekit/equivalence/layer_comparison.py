# SPDX-License-Identifier: Apache-2.0
"""Compare two models, even a float model with its quantized form, layer by layer."""

from __future__ import annotations

from collections.abc import Collection, Sequence
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
from circlekit.ir.op import Op
from circlekit.ir.resources.resource_limits import count_memory, counted_memory, need_memory
from circlekit.ir.value import Array, Value
from circlekit.ops.numerics.output_stage import Kernels


def compare_models(verifier: Verifier, after: Model) -> Comparison:
    """Compare ``after`` with the reference of ``verifier``: see ``Verifier.compare``.

    If an input or output has different dtypes in the two models, as in a float model and its quantized form,
    the outputs are compared as real numbers.  Of the seeded inputs, only the normal ones are used then: the
    others exceed the range of most quantized inputs.  Raise a CirclekitError if ``after`` cannot be run,
    LimitError if the outputs do not fit into memory.
    """
    comparison, before = verifier.compare(after), verifier.original
    old, new = _dtypes(before), _dtypes(after)
    if all(new[name] is dtype for name, dtype in old.items() if name in new):
        return comparison
    names = [value.name for value in before.main.outputs]
    runs = verifier.runs[:1] if verifier.records is None else verifier.runs
    outputs = [outcome for run in runs for outcome in compare_layers(before, after, run, names)]
    if outputs:
        comparison.outputs = outputs
        comparison.notes.append("inputs or outputs have different types: values are compared as real numbers")
    return comparison


def _dtypes(model: Model) -> dict[str, DType]:
    """Return the dtypes of inputs and outputs by their names."""
    return {value.name: value.dtype for value in (*model.main.inputs, *model.main.outputs)}


def compare_layers(
    before: Model, after: Model, run: Run, names: Collection[str] | None = None
) -> list[Outcome]:
    """Compare the results in the main graphs that have the same name in both models.

    The outcomes are in the order in which ``after`` computes the results.  ``run``: a run of ``before``;
    ``after`` gets the same inputs, quantized if needed.  ``names``: the results to compare, by default all.
    Differences are tolerated as for outputs of models; values of different types are compared as real
    numbers.  Return [] if ``inputs_for`` has no inputs for ``after``.  Raise LimitError if the results do not
    fit into memory, or another CirclekitError if a model cannot be run.
    """
    inputs = inputs_for(after, before, run.inputs)
    if inputs is None:
        return []
    old, new = _results(before), _results(after)
    shared = [name for name in new if name in old and (names is None or name in names)]
    kernels = run.kernels if inputs is run.inputs else None
    with counted_memory():
        left = results_by_name(before, run.inputs, run.kernels, shared)
        right = results_by_name(after, inputs, kernels, shared)
        outcomes = [_compared(old[n], left[n], new[n], right[n]) for n in shared if n in left and n in right]
        suspects = [outcome.name for outcome in outcomes if not outcome.equal and not outcome.reason]
        if suspects:
            moved = results_by_name(with_moved_constants(before), run.inputs, run.kernels, suspects)
            noise = {name: excused(left[name], moved[name]) for name in suspects if name in moved}
            outcomes = [_tolerating(outcome, noise.get(outcome.name, 0.0)) for outcome in outcomes]
    return [replace(outcome, inputs=run.kind) for outcome in outcomes]


def _compared(a: Value, left: Array, b: Value, right: Array) -> Outcome:
    tolerance = allowed_difference(left)
    if not have_equal_types([a], [b]):
        left, right = real_numbers(a, left), real_numbers(b, right)
    return replace(compare_arrays(a.name, left, right, tolerance), similarity=similarity(left, right))


def _tolerating(outcome: Outcome, noise: float) -> Outcome:
    """Return ``outcome`` with a tolerance of at least ``noise``."""
    worst = outcome.worst
    if worst is None:
        return outcome
    return replace(outcome, worst=replace(worst, tolerance=max(worst.tolerance, noise)))


def _results(model: Model) -> dict[str, Value]:
    """Return the results of operators in the main graph by their names, which are unique in a graph."""
    return {value.name: value for op in model.main for value in op.results}


def results_by_name(
    model: Model, inputs: Inputs, kernels: Kernels | None, names: Collection[str]
) -> dict[str, Array]:
    """Run ``model`` and return the results of operators in the main graph that have these names."""
    wanted, results = set(names), dict[str, Array]()
    seeded = with_seeds(model)

    def keep(op: Op, arrays: Sequence[Array]) -> None:
        for value, array in zip(op.results, arrays, strict=True):
            if value.name in wanted and op.graph is seeded.main:
                need_memory(array.nbytes, "keeping the results of all operators")
                count_memory(array.nbytes)
                results[value.name] = array

    expect_runs(model, 1)
    run_model(seeded, inputs, observe=keep, kernels=kernels)
    return results
