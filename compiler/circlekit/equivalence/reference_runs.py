# SPDX-License-Identifier: Apache-2.0
"""Run a reference model on sets of inputs, and measure how much rounding can change its outputs.

A rewrite that folds a factor into weights rounds each weight once more, by at most half a unit in the last
place.  A deep model can amplify this error beyond any fixed tolerance.  So if outputs differ by more than the
usual tolerance, ``rounding_error`` measures what rounding can change: it runs the reference model once more,
with each float constant moved by one unit in the last place.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial

from circlekit.equivalence.named_results import PairedRuns, run_with_pair
from circlekit.equivalence.reduction_steps import reachable_graphs
from circlekit.equivalence.rounding import (
    MAX_ROUNDING_ERROR,
    cancellation_limit,
    excused,
    is_cancelled,
    tolerated_error,
    with_moved_constants,
    with_moved_results,
)
from circlekit.equivalence.seeded_inputs import InputSet, input_sets, make_inputs
from circlekit.errors import CirclekitError, UnsupportedError
from circlekit.interp.evaluate import Inputs
from circlekit.interp.interpreter import expect_runs, select_kernels
from circlekit.ir.graph import Model
from circlekit.ir.value import Array
from circlekit.ops.arithmetic.random_ops import Random
from circlekit.ops.numerics.output_stage import Kernels

SIZE_ONE = "size_1"
"""The label of the additional run on normal inputs, in which unknown dimensions are 1."""

UNEQUAL_SIZES = "unequal_sizes"
"""The label of the run on normal inputs in which the unknown dimensions of each input are 2, 3, 4..."""

SECOND_RUN = "second_run"
"""The label of the second run on the same normal inputs, with the state that the first run left."""

Records = Mapping[str, Inputs]
"""The inputs of several runs, by a label."""


@dataclass
class Run:
    """The outputs of a model on one set of inputs.

    ``label``: the name of the input set or record.  ``kernels``: which integer results the run reproduces,
    those of LiteRT's reference kernels or of its optimized kernels.  A model whose integers are compared with
    those of this run must use the same kernels.
    ``times``: how often the model runs, keeping its state; ``outputs`` are those of the last time.
    """

    label: str
    inputs: Inputs
    outputs: list[Array]
    kernels: Kernels = Kernels.REFERENCE
    times: int = 1

    @staticmethod
    def of(label: str, model: Model, inputs: Inputs, kernels: Kernels, pair: PairedRuns | None = None) -> Run:
        """Run ``model``, and then the model of ``pair``; return the run of ``model``."""
        return Run(label, inputs, run_with_pair(label, model, inputs, kernels, pair), kernels)

    def again(self, model: Model) -> list[Array]:
        """Return the outputs of another ``model`` on the same inputs, with the same kernels."""
        return run_with_pair(self.label, model, self.inputs, self.kernels, times=self.times)


def reference_runs(
    model: Model,
    records: Records | None = None,
    kernels: Kernels | None = None,
    pair: PairedRuns | None = None,
) -> tuple[list[Run], list[str]]:
    """Run ``model`` on ``records``, or on seeded inputs; return the runs, and notes on inputs that failed.

    Seeded inputs are normal, boundary and zero sets.  Their unknown dimensions are 2, or 1 if the run with 2
    fails.  A model that has run with 2 also runs on normal inputs with unknown dimensions of 1 (SIZE_ONE).
    A model with several unknown dimensions in one input also runs with UNEQUAL_SIZES, and a model that keeps
    state has a SECOND_RUN.
    ``kernels``, ``pair``: see ``Verifier``.
    Raise UnsupportedError if an operator has no kernel or seeded inputs cannot be made (``make_inputs``), and
    the error of the run if it fails on normal inputs or on a record.  Any other run that fails is left out.
    """
    kernels = select_kernels(model, kernels)
    if records is not None:
        expect_runs(model, len(records))
        return [_recorded_run(label, model, inputs, kernels, pair) for label, inputs in records.items()], []
    runs, notes = [], []
    sets = input_sets(model.main)
    expect_runs(model, len(sets))
    for which in sets:
        try:
            runs.append(_seeded_run(model, which, kernels, pair))
        except UnsupportedError as error:  # noqa: PERF203  # a handful of sets
            raise error.note("so the model cannot be verified: verifying runs it before and after") from None
        except CirclekitError as error:
            if which.kind == "normal":
                raise
            label = f"{which.label} inputs, which the model does not take"
            notes.append(f"not compared on {label}: {error.message}")
    further = {
        "with unknown dimensions of 1, which the model does not take": partial(
            _run_of_size_one, model, runs[0], kernels, pair
        ),
        "with unequal unknown dimensions, which the model does not take": partial(
            _run_of_unequal_sizes, model, kernels, pair
        ),
        "in a second run, which fails": partial(_second_run, model, runs[0]),
    }
    for where, more in further.items():
        try:
            runs += more()
        except CirclekitError as error:  # noqa: PERF203  # three runs
            notes.append(f"not compared {where}: {error.message}")
    return runs, notes


def _recorded_run(label: str, model: Model, inputs: Inputs, kernels: Kernels, pair: PairedRuns | None) -> Run:
    """Run ``model`` on the record ``label``; an error names the record."""
    try:
        return Run.of(label, model, inputs, kernels, pair)
    except CirclekitError as error:
        raise error.note(f"on {label} inputs") from None


def _seeded_run(model: Model, which: InputSet, kernels: Kernels, pair: PairedRuns | None) -> Run:
    """Run ``model`` on an input set, with 2 for unknown dimensions, or 1 if that fails.

    The number 1 comes second, because it hides a rewrite that lets a batch dimension broadcast by mistake.
    """
    try:
        return Run.of(which.label, model, make_inputs(model.main, which, unknown=2), kernels, pair)
    except UnsupportedError:
        raise
    except CirclekitError:
        return Run.of(which.label, model, make_inputs(model.main, which), kernels, pair)


def _run_of_size_one(model: Model, normal: Run, kernels: Kernels, pair: PairedRuns | None) -> list[Run]:
    """Return a list of one run, on normal inputs with unknown dimensions of 1; [] if ``normal`` is this run.

    A rewrite may be wrong only for the size 1, because such a dimension broadcasts.
    """
    inputs = make_inputs(model.main, InputSet("normal"))
    given = normal.inputs.values() if isinstance(normal.inputs, Mapping) else normal.inputs
    if all(a.shape == b.shape for a, b in zip(inputs, given, strict=True)):
        return []
    expect_runs(model, 1)
    return [Run.of(SIZE_ONE, model, inputs, kernels, pair)]


def _run_of_unequal_sizes(model: Model, kernels: Kernels, pair: PairedRuns | None) -> list[Run]:
    """Return a list of one run with UNEQUAL_SIZES; [] if no input has two unknown dimensions.

    Equal sizes hide a rewrite that exchanges two dimensions by mistake.
    """
    if all((value.shape or ()).count(None) < 2 for value in model.main.inputs):
        return []
    inputs = make_inputs(model.main, InputSet("normal"), unknown=2, step=1)
    expect_runs(model, 1)
    return [Run.of(UNEQUAL_SIZES, model, inputs, kernels, pair)]


def _second_run(model: Model, normal: Run) -> list[Run]:
    """Return a list of one run, the SECOND_RUN on the inputs of ``normal``; [] if the model keeps no state.

    The first run does not show what a model writes to its variables after the last read.
    """
    ops = (op for graph in reachable_graphs(model.main) for op in graph)
    if not any(op.stateful and not isinstance(op, Random) for op in ops):
        return []
    expect_runs(model, 2)
    second = replace(normal, label=SECOND_RUN, times=2)
    return [replace(second, outputs=second.again(model))]


def rounding_error(model: Model, run: Run, limit: float = MAX_ROUNDING_ERROR) -> list[float]:
    """Return the absolute change that rounding may make in each output of ``run``; 0 for a non-float output.

    To measure it, ``model`` is run once more on the inputs of ``run``, with each float constant moved by one
    unit in the last place.  ``limit``: the largest change to return, divided by the largest magnitude of the
    output.

    A small output may be what is left of larger terms that cancel (``is_cancelled``).  Its magnitude then
    does not tell the size of its error.  For such outputs, ``model`` is run again with both the constants and
    the float32 results of its operators moved, and the limit is ``cancellation_limit``.
    """
    expect_runs(model, 1)
    after = run.again(with_moved_constants(model))
    errors = [excused(a, b, limit) for a, b in zip(run.outputs, after, strict=True)]
    inputs = run.inputs.values() if isinstance(run.inputs, Mapping) else run.inputs
    largest = cancellation_limit(model, list(inputs))
    cancelled = [i for i, array in enumerate(run.outputs) if is_cancelled(array, largest)]
    if cancelled:
        after = run.again(with_moved_results(model))
        for i in cancelled:
            errors[i] = max(errors[i], min(tolerated_error(run.outputs[i], after[i]), largest))
    return errors
