# SPDX-License-Identifier: Apache-2.0
"""Run a reference model on sets of inputs, and measure how much rounding can change its outputs.

A rewrite that folds a factor into weights rounds each weight once more, by at most half a unit in the last
place.  A deep model can amplify this error beyond any fixed tolerance.  So if outputs differ by more than the
usual tolerance, ``rounding_error`` measures what rounding can change: it runs the reference model once more,
with each float constant moved by one unit in the last place.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from circlekit.equivalence.named_results import PairedRuns, interpreter_of, run_with_pair
from circlekit.equivalence.reduction_steps import reachable_graphs
from circlekit.equivalence.rounding import (
    CANCELLATION_RUNS,
    MAX_EXTREME_ROUNDING_ERROR,
    MAX_ROUNDING_ERROR,
    cancellation_limit,
    excused_difference,
    is_cancelled,
    tolerated_error,
    with_moved_constants,
    with_moved_results,
)
from circlekit.equivalence.seeded_inputs import InputSet, input_sets, make_inputs
from circlekit.equivalence.unknown_sizes import (
    FIRST_LARGER_SIZE,
    LARGE_SIZES,
    Sizes,
    first_that_runs,
    has_unknown_dimensions,
)
from circlekit.errors import CirclekitError, UnsupportedError
from circlekit.interp.evaluate import Inputs
from circlekit.interp.interpreter import Interpreter, expect_runs, select_kernels
from circlekit.ir.graph import Model
from circlekit.ir.op import Op
from circlekit.ir.value import Array
from circlekit.ops.arithmetic.random_ops import Random
from circlekit.ops.numerics.output_stage import Kernels
from circlekit.ops.recurrent.sequence import RecurrentLayer

SIZE_ONE = "size_1"
"""The label of the additional run on normal inputs, in which unknown dimensions are 1."""

LARGER_SIZES = "larger_sizes"
"""The label of the run on normal inputs in which the unknown dimensions of each input are 6, 7, 8..."""

SIZES = [Sizes(2), Sizes(1), Sizes(FIRST_LARGER_SIZE)]
"""The sizes that are tried for unknown dimensions, in this order, before LARGE_SIZES.

A model runs with the first of these sizes that it takes.  The number 1 does not come first, because it hides
a rewrite that lets a batch dimension broadcast by mistake.
"""

LATER_RUNS = {"later_run": 1, "much_later_run": 8}
"""Runs with the state that earlier runs left: by label, the largest number of earlier runs.

A model may keep what it computed in several earlier runs, as SVDF does.
"""

LATER_RUN_FAILS = "in a later run, which fails"
"""What a note says is not compared if LATER_RUNS fail."""

Records = Mapping[str, Inputs]
"""The inputs of several runs, by a label."""


@dataclass
class Run:
    """The outputs of a model on one set of inputs.

    ``label``: the name of the input set or record.  ``kernels``: which integer results the run reproduces,
    those of LiteRT's reference kernels or of its optimized kernels.  A model whose integers are compared with
    those of this run must use the same kernels.
    ``earlier``: inputs of runs before this one, whose state the model keeps.
    ``kind``: the kind of a seeded ``InputSet``; "" for a record, whatever its label is.
    """

    label: str
    inputs: Inputs
    outputs: list[Array]
    kernels: Kernels = Kernels.REFERENCE
    earlier: Sequence[Inputs] = ()
    kind: str = ""

    @staticmethod
    def of(
        label: str, interpreter: Interpreter, inputs: Inputs, pair: PairedRuns | None = None, kind: str = ""
    ) -> Run:
        """Run the model of ``interpreter``, and then the model of ``pair``; return the run of the first."""
        outputs = run_with_pair(label, interpreter, inputs, pair)
        return Run(label, inputs, outputs, interpreter.kernels, kind=kind)

    @property
    def arrays(self) -> list[Array]:
        """The arrays of ``inputs``."""
        return list(self.inputs.values() if isinstance(self.inputs, Mapping) else self.inputs)

    @property
    def max_rounding_error(self) -> float:
        """MAX_EXTREME_ROUNDING_ERROR for a boundary or threshold set, else MAX_ROUNDING_ERROR."""
        is_extreme = self.kind in ("boundary", "threshold")
        return MAX_EXTREME_ROUNDING_ERROR if is_extreme else MAX_ROUNDING_ERROR

    def again(self, model: Model) -> list[Array]:
        """Return the outputs of another ``model`` on the same inputs, with the same kernels."""
        return next(outputs_on([self], model))


def outputs_on(runs: Sequence[Run], model: Model) -> Iterator[list[Array]]:
    """Yield the outputs of another ``model`` on the inputs of each run.

    All ``runs`` must have the same kernels; ``model`` runs with these.  It is prepared for running only once.
    The work of all these runs is announced at the first one.
    """
    if runs:
        expect_runs(model, sum(1 + len(run.earlier) for run in runs))
        interpreter = interpreter_of(model, runs[0].kernels)
        for run in runs:
            yield run_with_pair(run.label, interpreter, run.inputs, earlier=run.earlier)


def reference_runs(
    model: Model,
    records: Records | None = None,
    kernels: Kernels | None = None,
    pair: PairedRuns | None = None,
) -> tuple[list[Run], list[str]]:
    """Run ``model`` on ``records``, or on seeded inputs; return the runs, and notes on inputs that failed.

    Seeded inputs are those of ``input_sets``.  Their unknown dimensions are the first of SIZES and
    LARGE_SIZES with which the model runs.  A model that has run with 2 also runs on normal inputs with
    unknown dimensions of 1 (SIZE_ONE), and with larger ones (LARGER_SIZES).  A model that keeps state also
    has LATER_RUNS, on seeded inputs and on records.
    ``kernels``, ``pair``: see ``Verifier``.
    Raise UnsupportedError if an operator has no kernel or seeded inputs cannot be made (``make_inputs``).  If
    the run on a record fails, raise its error.  If the runs on all seeded sets fail, raise the error of the
    run on normal inputs.  Any other run that fails is left out, with a note.
    """
    interpreter = interpreter_of(model, select_kernels(model, kernels))
    if records is not None:
        expect_runs(model, len(records))
        given = [_recorded_run(label, interpreter, inputs, pair) for label, inputs in records.items()]
        return _with_further_runs(given, {LATER_RUN_FAILS: partial(_later_recorded_runs, model, given)})
    runs: list[Run] = []
    failed: dict[str, CirclekitError] = {}
    sets = input_sets(model.main)
    expect_runs(model, len(sets))
    for which in sets:
        try:
            runs.append(_seeded_run(interpreter, which, pair))
        except UnsupportedError as error:  # noqa: PERF203  # a handful of sets
            raise error.note("so the model cannot be verified, because verification runs it") from None
        except CirclekitError as error:
            failed[which.label] = error
    if not runs:
        first = next(iter(failed.values()))
        raise first.note("on seeded inputs; give inputs that the model takes")
    reason = "inputs, which the model does not take"
    notes = [f"not compared on {label} {reason}: {e.message}" for label, e in failed.items()]
    further = {
        "with unknown dimensions of 1, which the model does not take": partial(
            _run_of_sizes, SIZE_ONE, Sizes(1), interpreter, runs[0], pair
        ),
        "with larger unknown dimensions, which the model does not take": partial(
            _run_of_sizes, LARGER_SIZES, Sizes(FIRST_LARGER_SIZE, step=1), interpreter, runs[0], pair
        ),
        LATER_RUN_FAILS: partial(_later_seeded_runs, model, runs[0]),
    }
    runs, more_notes = _with_further_runs(runs, further)
    return runs, [*notes, *more_notes]


def _with_further_runs(
    runs: list[Run], further: Mapping[str, Callable[[], list[Run]]]
) -> tuple[list[Run], list[str]]:
    """Return ``runs`` with those of ``further``, and a note for each of these that fails.

    ``further``: functions that return runs; the keys say what is not compared if the function fails.
    """
    notes = []
    for where, more in further.items():
        try:
            runs = runs + more()
        except CirclekitError as error:  # noqa: PERF203  # three runs
            notes.append(f"not compared {where}: {error.message}")
    return runs, notes


def _recorded_run(label: str, interpreter: Interpreter, inputs: Inputs, pair: PairedRuns | None) -> Run:
    """Run the model on the record ``label``; an error names the record."""
    try:
        return Run.of(label, interpreter, inputs, pair)
    except CirclekitError as error:
        raise error.note(f"on {label} inputs") from None


def _seeded_run(interpreter: Interpreter, which: InputSet, pair: PairedRuns | None) -> Run:
    """Run the model on an input set, with the first sizes that it takes."""
    graph = interpreter.model.main

    def run(sizes: Sizes) -> Run:
        return Run.of(which.label, interpreter, make_inputs(graph, which, sizes), pair, which.kind)

    return first_that_runs(graph, run, SIZES)


def _has_sizes(model: Model, run: Run, sizes: Sizes) -> bool:
    """Return whether the unknown dimensions of the inputs of ``model`` are ``sizes`` in ``run``."""
    shapes = [sizes.fill(value.shape or ()) for value in model.main.inputs]
    return all(array.shape == shape for array, shape in zip(run.arrays, shapes, strict=True))


def _run_of_sizes(
    label: str, sizes: Sizes, interpreter: Interpreter, normal: Run, pair: PairedRuns | None
) -> list[Run]:
    """Return a list of one run, on normal inputs with unknown dimensions of ``sizes``.

    Return [] if the model has no unknown dimensions, or does not run with the first of SIZES.

    A rewrite may be wrong only for the size 1, because such a dimension broadcasts; or only for larger sizes,
    for example if it removes a slice of 3 rows.  Equal sizes hide a rewrite that exchanges two dimensions.
    """
    model = interpreter.model
    if not has_unknown_dimensions(model.main) or not _has_sizes(model, normal, SIZES[0]):
        return []
    inputs = make_inputs(model.main, InputSet("normal"), sizes)
    expect_runs(model, 1)
    return [Run.of(label, interpreter, inputs, pair)]


def _stateful_operators(model: Model) -> list[Op]:
    """Return the operators that run and keep state other than a random stream."""
    ops = (op for graph in reachable_graphs(model.main) for op in graph)
    return [op for op in ops if op.stateful and not isinstance(op, Random)]


def _later_seeded_runs(model: Model, normal: Run) -> list[Run]:
    """Return the LATER_RUNS on the inputs of ``normal``; [] if the model keeps no state.

    A first run does not show what a model writes to its variables after the last read.  The inputs of the
    earlier runs are normal ones with other seeds.
    """
    if not _stateful_operators(model):
        return []
    sizes = next(sizes for sizes in [*SIZES, *LARGE_SIZES] if _has_sizes(model, normal, sizes))
    sets = (InputSet("normal", seed=number) for number in range(1, max(LATER_RUNS.values()) + 1))
    return _later_runs(model, normal, [make_inputs(model.main, which, sizes) for which in sets])


def _later_recorded_runs(model: Model, runs: Sequence[Run]) -> list[Run]:
    """Return the LATER_RUNS on the last record, after the records before it; a single record runs twice.

    Return [] if there is no record, or if the model keeps no state.
    """
    if not runs or not _stateful_operators(model):
        return []
    return _later_runs(model, runs[-1], [run.inputs for run in runs[:-1]] or [runs[0].inputs])


def _later_runs(model: Model, run: Run, earlier: Sequence[Inputs]) -> list[Run]:
    """Run ``model`` once more on the inputs of ``run`` for each of LATER_RUNS; return these runs.

    Before each of them, the model runs on the last items of ``earlier``, as many as LATER_RUNS says.  Only
    the first of LATER_RUNS is returned if the others would show no more.
    """
    later = [replace(run, label=label, earlier=earlier[-count:]) for label, count in LATER_RUNS.items()]
    # a recurrent layer replaces its whole state in each run: one earlier run shows what it keeps
    replaces_state = all(isinstance(op, RecurrentLayer) for op in _stateful_operators(model))
    if len(earlier) == 1 or replaces_state:
        del later[1:]  # the others would be equal, or show no more
    outputs = outputs_on(later, model)
    return [replace(run, outputs=arrays) for run, arrays in zip(later, outputs, strict=True)]


def rounding_error(model: Model, run: Run, limit: float | None = None) -> list[float]:
    """Return the absolute change that rounding may make in each output of ``run``; 0 for a non-float output.

    To measure it, ``model`` is run once more on the inputs of ``run``, with each float constant moved by one
    unit in the last place.  ``limit``: the largest change to return, divided by the largest magnitude of the
    output; by default ``run.max_rounding_error``.

    A small output may be what is left of larger terms that cancel (``is_cancelled``).  Its magnitude then
    does not tell the size of its error.  For such outputs, ``model`` is run CANCELLATION_RUNS times with
    constants and float32 results of its operators moved, and the limit is ``cancellation_limit``.  All
    float32 outputs of the negative set are measured in this way, too, but without a limit: a model may add
    the small numbers of this set to larger ones and subtract these again, as in a layer norm, and then little
    more than rounding errors is left.
    """
    after = run.again(with_moved_constants(model))
    limit = run.max_rounding_error if limit is None else limit
    errors = [excused_difference(a, b, limit) for a, b in zip(run.outputs, after, strict=True)]
    is_small = run.kind == "negative"
    largest = math.inf if is_small else cancellation_limit(model, run.arrays)
    cancelled = [i for i, array in enumerate(run.outputs) if is_cancelled(array, largest)]
    for seed in range(CANCELLATION_RUNS if cancelled else 0):
        after = run.again(with_moved_results(model, seed))
        for i in cancelled:
            errors[i] = max(errors[i], min(tolerated_error(run.outputs[i], after[i]), largest))
    return errors
