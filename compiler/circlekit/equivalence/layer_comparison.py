# SPDX-License-Identifier: Apache-2.0
"""Compare two models, which may be a float model and its quantized form, layer by layer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from circlekit.equivalence.array_comparison import Outcome, allowed_difference, compare_arrays, similarity
from circlekit.equivalence.model_comparison import Comparison
from circlekit.equivalence.named_results import results_by_name
from circlekit.equivalence.real_numbers import have_equal_types, inputs_for, real_numbers
from circlekit.equivalence.reference_runs import Run
from circlekit.equivalence.rounding import excused_difference, with_moved_constants
from circlekit.equivalence.verify import Verifier
from circlekit.errors import shown
from circlekit.interp.evaluate import Inputs
from circlekit.interp.interpreter import select_kernels
from circlekit.ir.graph import Model
from circlekit.ir.resources.resource_limits import counted_memory
from circlekit.ir.value import Array, Value

Results = Mapping[str, Array]
"""The arrays of results of operators, by name."""


def compare_models(verifier: Verifier, after: Model) -> Comparison:
    """Compare ``after`` with the reference model of ``verifier``: the main graphs, then those of signatures.

    The outputs of a graph are compared as ``Verifier.compare`` does.  There is one exception: if an input or
    output of the graph has another dtype, scale or zero point in the second model, as in a float model and
    its quantized form, the outputs are compared as real numbers (see ``real_numbers``).  Of seeded inputs,
    only the first set, ``normal``, is then used: the other sets exceed the range of most quantized inputs.
    Raise LimitError if the outputs do not fit into memory, or another CirclekitError if ``after`` cannot run.
    """
    result, is_real = Comparison(notes=[*verifier.notes]), False
    for each, model in [(verifier, after), *verifier.pairs(after)]:
        comparison, outputs = each.compare(model), _compare_real_numbers(each, model)
        place = "" if model is after else f"in the graph {shown(model.main.name)}: "
        result.interface += [place + sentence for sentence in comparison.interface]
        result.outputs += outputs or comparison.outputs
        is_real |= bool(outputs)
    if is_real:
        differing = "inputs or outputs have different dtypes or scales"
        result.notes.append(f"{differing}: values are compared as real numbers")
    return result


def _compare_real_numbers(verifier: Verifier, after: Model) -> list[Outcome]:
    """Compare outputs as real numbers; [] if inputs and outputs with equal names have equal types."""
    old, new = _interface(verifier.original), _interface(after)
    names = old.keys() & new.keys()
    if have_equal_types([old[name] for name in names], [new[name] for name in names]):
        return []
    runs = verifier.runs[:1] if verifier.records is None else verifier.runs
    return [outcome for run in runs for outcome in _compare_outputs(verifier, after, run)]


def _interface(model: Model) -> dict[str, Value]:
    """Return the inputs and outputs of the main graph by their names."""
    return {value.name: value for value in (*model.main.inputs, *model.main.outputs)}


def _compare_outputs(verifier: Verifier, after: Model, run: Run) -> list[Outcome]:
    """Compare the outputs of ``after`` on the inputs of ``run`` with the outputs of ``run``.

    ``run``: a run of the reference.  Return [] if ``after`` does not take the inputs of ``run``.
    """
    before, pair = verifier.original, verifier.pair
    names = [value.name for value in before.main.outputs]
    given = _inputs_of(run, before, after)
    if given is None:
        return []
    inputs, earlier = given
    if pair is not None and pair.after is after and run.label in pair.outputs:  # ``after`` has already run
        outputs = pair.outputs[run.label]
    else:
        outputs = replace(run, inputs=inputs, earlier=earlier, kernels=select_kernels(after)).again(after)
    left = dict(zip(names, run.outputs, strict=True))
    right = dict(zip((value.name for value in after.main.outputs), outputs, strict=True))
    return compare_results(before, after, run, left, right)


def _inputs_of(run: Run, before: Model, after: Model) -> tuple[Inputs, list[Inputs]] | None:
    """Return the inputs of ``run``, a run of ``before``, and those of earlier runs, converted for ``after``.

    Return None if ``after`` does not take them.
    """
    inputs = inputs_for(after, before, run.inputs)
    if inputs is None:
        return None
    converted = (inputs_for(after, before, each) for each in run.earlier)
    return inputs, [each for each in converted if each is not None]  # each fits, as ``inputs`` does


def compare_layers(before: Model, after: Model, run: Run) -> list[Outcome]:
    """Compare the results in the main graphs that have the same name in both models.

    ``run``: a run of ``before``.  ``after`` gets the same inputs, quantized if it takes integers.  Return []
    if ``after`` does not take these inputs.  Outcomes and errors are those of ``compare_results``.
    """
    given = _inputs_of(run, before, after)
    if given is None:
        return []
    inputs, earlier = given
    names = shared_results(before, after)
    kernels = run.kernels if inputs is run.inputs else None  # None: chosen for ``after``, the quantized model
    with counted_memory():
        left = results_by_name(before, run.inputs, run.kernels, names, run.earlier)
        right = results_by_name(after, inputs, kernels, names, earlier)
        return compare_results(before, after, run, left, right)


def compare_results(before: Model, after: Model, run: Run, left: Results, right: Results) -> list[Outcome]:
    """Return an outcome for each value in ``left`` and ``right`` that has the same name in both models.

    ``left``, ``right``: results or outputs of ``before`` and of ``after``.  ``run``: the run of ``before``.
    The tolerance is ``allowed_difference``, or the change that rounding can make (``excused_difference``) if
    that change is larger.  The change is measured only if a result exceeds ``allowed_difference``: then
    ``before`` runs once more with slightly moved constants.  Values with different dtypes, scales or zero
    points are compared as real numbers.
    Raise LimitError if the results do not fit into memory, or another CirclekitError if the run fails.
    """
    old, new = _results(before), _results(after)
    shared = [name for name in shared_results(before, after) if name in left and name in right]
    outcomes = [_compared(old[name], left[name], new[name], right[name]) for name in shared]
    # an outcome with a reason (shapes or dtypes differ) does not depend on a tolerance
    suspects = [outcome.name for outcome in outcomes if not outcome.equal and not outcome.reason]
    if suspects:
        moved = results_by_name(with_moved_constants(before), run.inputs, run.kernels, suspects, run.earlier)
        noise = {name: excused_difference(left[name], array) for name, array in moved.items()}
        outcomes = [_tolerating(outcome, noise.get(outcome.name, 0.0)) for outcome in outcomes]
    return [replace(outcome, inputs=run.label) for outcome in outcomes]


def shared_results(before: Model, after: Model) -> list[str]:
    """Return the names of results and outputs that both main graphs have, in the order of ``after``."""
    known = _results(before)
    return [name for name in _results(after) if name in known]


def _compared(a: Value, left: Array, b: Value, right: Array) -> Outcome:
    """Compare ``right``, the elements of ``b``, with the reference ``left``, the elements of ``a``."""
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
    """Return results and outputs of the main graph by name; an output may be an input or a constant."""
    results = (value for op in model.main for value in op.results)
    return {value.name: value for value in (*results, *model.main.outputs)}
