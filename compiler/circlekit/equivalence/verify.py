# SPDX-License-Identifier: Apache-2.0
"""Run models on sets of inputs, compare them by value, and verify a model after each pass.

A rewrite that folds a factor into weights rounds each weight once more, by at most half a unit in the last
place.  A deep model can amplify this error beyond any fixed tolerance.  So if outputs differ by more than the
usual tolerance, the model is run once more with each float constant moved by one unit in the last place,
which shows how much rounding can change.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from circlekit.equivalence.model_comparison import (
    Comparison,
    Outcome,
    compare_outputs,
    interface_differences,
    interface_of,
    similarity,
    weak_outputs,
)
from circlekit.equivalence.named_results import PairedRuns, run_with_pair
from circlekit.equivalence.reduction_steps import entry_views
from circlekit.equivalence.rounding import (
    MAX_ROUNDING_ERROR,
    cancellation_limit,
    excused,
    is_cancelled,
    tolerated_error,
    with_moved_constants,
    with_moved_results,
)
from circlekit.equivalence.seeded_inputs import InputSet, input_sets, make_inputs, seed_notes
from circlekit.errors import CirclekitError, EquivalenceError, UnsupportedError
from circlekit.interp.evaluate import Inputs
from circlekit.interp.interpreter import expect_runs, select_kernels
from circlekit.ir.clone import clone
from circlekit.ir.graph import Model
from circlekit.ir.value import Array
from circlekit.ops.numerics.output_stage import Kernels
from circlekit.passes.engine.optimization_report import OutputDifference
from circlekit.passes.engine.registry import find_pass

SIZE_ONE = "size_1"
"""The label of the run on normal inputs whose unknown dimensions are 1; other sets have 2."""

Records = Mapping[str, Inputs]
"""The inputs of several runs, by a label."""


@dataclass
class Run:
    """The outputs of a model on one set of inputs.

    ``kind``: the label of the input set or record.  ``kernels``: which integer results the run reproduces,
    those of LiteRT's reference kernels or of its optimized kernels; a model that is compared with this run
    must use the same kernels.
    """

    kind: str
    inputs: Inputs
    outputs: list[Array]
    kernels: Kernels = Kernels.REFERENCE

    @staticmethod
    def of(kind: str, model: Model, inputs: Inputs, kernels: Kernels, pair: PairedRuns | None = None) -> Run:
        """Run ``model``, and then the model of ``pair``; return the run of ``model``."""
        return Run(kind, inputs, run_with_pair(kind, model, inputs, kernels, pair), kernels)

    def again(self, model: Model) -> list[Array]:
        """Return the outputs of another ``model`` on the same inputs, with the same kernels."""
        return run_with_pair(self.kind, model, self.inputs, self.kernels)


def reference_runs(
    model: Model,
    records: Records | None = None,
    kernels: Kernels | None = None,
    pair: PairedRuns | None = None,
) -> tuple[list[Run], list[str]]:
    """Run ``model`` on ``records``, or on seeded inputs; return the runs, and notes on inputs that failed.

    Seeded inputs are normal, boundary and zero sets, with 2 for unknown dimensions or, if that fails, 1.  If
    it does not fail, one more run has normal inputs with 1 (SIZE_ONE).
    ``kernels``, ``pair``: see ``Verifier``.  Raise UnsupportedError if an operator has no kernel, and the
    error of the run if it fails on normal inputs or on a record.  Other seeded sets on which the run fails
    are left out.
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
    try:
        runs += _run_of_size_one(model, runs[0], kernels, pair)
    except CirclekitError as error:
        sizes = "unknown dimensions of 1, which the model does not take"
        notes.append(f"not compared with {sizes}: {error.message}")
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
    """Return [a run on normal inputs whose unknown dimensions are 1]; [] if ``normal`` is that run already.

    A rewrite may be wrong only for the size 1, because such a dimension broadcasts.
    """
    inputs = make_inputs(model.main, InputSet("normal"))
    given = normal.inputs.values() if isinstance(normal.inputs, Mapping) else normal.inputs
    if all(a.shape == b.shape for a, b in zip(inputs, given, strict=True)):
        return []
    expect_runs(model, 1)
    return [Run.of(SIZE_ONE, model, inputs, kernels, pair)]


def rounding_error(model: Model, run: Run, limit: float = MAX_ROUNDING_ERROR) -> list[float]:
    """Return the absolute change that rounding may make in each output of ``run``; 0 for a non-float output.

    To measure it, ``model`` is run once more on the inputs of ``run``, with each float constant moved by one
    unit in the last place.  ``limit``: the largest difference to return, divided by the largest magnitude of
    the output.  If an output may be only what is left of larger terms that cancel (``is_cancelled``), its
    magnitude is no measure for errors.  Then ``model`` is run again with the float32 results of its operators
    moved too, and ``cancellation_limit`` is the limit for that output.
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


def watch(verifier: Verifier, model: Model, name: str) -> None:
    """Verify ``model`` after the pass ``name``.

    If the pass changes values or the interface on purpose, ``model`` becomes the new reference.  Otherwise
    raise EquivalenceError if outputs or interface differ from those of the reference.
    """
    pass_class = find_pass(name)
    if pass_class.changes_interface:
        verifier.restart(model, name)
    elif pass_class.changes_values:
        verifier.accept(model, name)
    else:
        verifier.check(model, name)


class Verifier:
    """Runs a reference model once, and compares other models with it.

    Arguments:
    ``records``: inputs of the main graph, as arrays in graph order or by name.  By default these are the
    seeded sets of ``reference_runs``, for the main graph and each other graph that a signature names.
    ``kernels``: the kernel set; by default ``select_kernels`` chooses it.  For a part of a model, give the
    set of the whole model.
    ``pair``: runs a second model on the same inputs, right after each run of the reference.
    The constructor raises the errors of ``reference_runs``.

    Fields:
    ``original``: a copy of the reference.  ``names``: the names of its outputs.  ``interface``: its inputs,
    outputs and signatures as text.
    ``runs``: the run of the reference on each set of inputs.
    ``latest``: the outputs of the last compared model on the same sets; at first those of the reference.
    ``notes``: sentences about what was not compared.
    ``closest``: for each output name, the outcome that came closest to its tolerance in any ``check`` that
    passed.  The name of an output of another graph is ``GRAPH: NAME``.
    ``others``: for each other graph that a signature names, in the order of ``entry_views``, a verifier, or
    None if the graph cannot be run.  The list is empty if ``records`` are given.
    """

    def __init__(
        self,
        model: Model,
        records: Records | None = None,
        kernels: Kernels | None = None,
        pair: PairedRuns | None = None,
    ) -> None:
        self.closest: dict[str, Outcome] = {}
        self.records, self.pair = records, pair
        self._start(model, records, kernels)

    def _start(self, model: Model, records: Records | None = None, kernels: Kernels | None = None) -> None:
        """Make ``model`` the reference: run it, and set all fields except ``closest``."""
        self.original = clone(model)
        self.interface = interface_of(model)
        self.names = [value.name for value in model.main.outputs]
        self.runs, self.notes = reference_runs(model, records, kernels, self.pair)
        self.latest = [run.outputs for run in self.runs]
        self.notes += [*seed_notes(model), *weak_outputs(model.main, self.latest)]
        views = entry_views(model)
        if records is not None:
            reason = "which a signature names, is not compared: the given inputs are for the main graph"
            self.notes += [f"the graph {view.main.name}, {reason}" for view in views]
        self.others = [self._other(view) for view in views] if records is None else []

    def _other(self, view: Model) -> Verifier | None:
        """Return a verifier of ``view``; if the view cannot be run, add a note and return None."""
        try:
            return Verifier(view, kernels=self.runs[0].kernels)
        except CirclekitError as error:
            self.notes.append(f"the graph {view.main.name} is not verified: {error.message}")
            return None

    def restart(self, model: Model, step: str) -> None:
        """Make ``model`` the reference after ``step``, which changes the interface on purpose."""
        sentence = f"{step} is meant to change the interface: passes after it are compared with its result"
        notes = [*self.notes, sentence]
        try:
            self._start(model, self.records)
        except CirclekitError as error:
            if self.records is None:
                raise
            reason = "because the given inputs do not fit the new interface"
            notes.append(f"later passes are verified on seeded inputs, {reason}: {error.message}")
            self._start(model)
        self.notes = notes  # drop the notes that _start made: they repeat the old ones

    def accept(self, model: Model, step: str) -> None:
        """Make ``model`` the reference after ``step``, which changes values on purpose, not the interface.

        Raise EquivalenceError if the interface differs, and the error of the run if ``model`` does not run.
        """
        self._check_interface(model, step)
        self.original = clone(model)
        expect_runs(model, len(self.runs))
        self.runs = [replace(r, outputs=r.again(model)) for r in self.runs]
        self.latest = [run.outputs for run in self.runs]
        # None stays None: the graph could not be run before
        self.others = [verifier and self._other(view) for verifier, view in self._pairs(model)]
        self.notes.append(f"{step} is meant to change values: only passes before and after it are verified")

    def check(self, model: Model, step: str) -> None:
        """Raise EquivalenceError, naming ``step``, if ``model`` fails or differs in outputs or interface."""
        self._check_interface(model, step)
        try:
            comparison = Comparison(outputs=self._compare_outputs(model))
        except CirclekitError as error:
            message = f"after {step} the model does not run: {error.message}"
            raise EquivalenceError(message, *error.where) from error
        if not comparison.equal:
            raise EquivalenceError(f"{step} changed {comparison.worst}")
        # if a name has several outcomes, the last one, with the largest excess, stays in the dict
        self._record(
            {outcome.name: outcome for outcome in sorted(comparison.outputs, key=lambda o: o.excess)}
        )
        for verifier, view in self._pairs(model):
            if verifier is not None:
                verifier.check(view, f"{step}, in the graph {view.main.name},")
                self._record({f"{view.main.name}: {name}": o for name, o in verifier.closest.items()})

    def _record(self, outcomes: Mapping[str, Outcome]) -> None:
        """Put an outcome into ``closest`` if it came closer to its tolerance than the recorded one."""
        for name, outcome in outcomes.items():
            if name not in self.closest or outcome.excess > self.closest[name].excess:
                self.closest[name] = outcome

    def differences(self) -> list[OutputDifference]:
        """Return for each output the difference of a checked model that came closest to its tolerance.

        Outputs without elements are left out.
        """
        return [
            OutputDifference(name, outcome.inputs, outcome.worst.absolute, outcome.worst.tolerance)
            for name, outcome in self.closest.items()
            if outcome.worst is not None
        ]

    def compare(self, model: Model) -> Comparison:
        """Return the comparison of ``model`` with the reference.

        Outputs with equal names are compared.  If the inputs of the main graphs differ in name, dtype or
        rank, the outputs of the main graphs are not compared.
        Raise a CirclekitError if ``model`` cannot be run.
        """
        result = Comparison(interface_differences(self.interface, interface_of(model)), notes=[*self.notes])
        inputs = [[(v.name, v.dtype, v.rank) for v in each.main.inputs] for each in (self.original, model)]
        if inputs[0] == inputs[1]:
            result.outputs = self._compare_outputs(model)
            self._measure(result.outputs, [value.name for value in model.main.outputs])
        for verifier, view in self._pairs(model):
            if verifier is not None:
                inner = verifier.compare(view)
                result.interface += inner.interface
                result.outputs += inner.outputs
                result.notes += inner.notes
        return result

    def _measure(self, outcomes: list[Outcome], names: list[str]) -> None:
        """Set the similarity of ``outcomes``.  ``names``: the output names of the last compared model."""
        pairs: dict[tuple[str, str], tuple[Array, Array | None]] = {}
        for past, latest in zip(self.runs, self.latest, strict=True):
            after = dict(zip(names, latest, strict=True))
            for name, array in zip(self.names, past.outputs, strict=True):
                pairs[past.kind, name] = (array, after.get(name))
        for outcome in outcomes:
            left, right = pairs[outcome.inputs, outcome.name]
            if right is not None:
                outcome.similarity = similarity(left, right)

    def _pairs(self, model: Model) -> Iterator[tuple[Verifier | None, Model]]:
        """Yield each verifier in ``others``, with the view of ``model`` whose main graph it compares."""
        return zip(self.others, entry_views(model), strict=False)

    def _check_interface(self, model: Model, step: str) -> None:
        changed = interface_differences(self.interface, interface_of(model))
        if changed:
            raise EquivalenceError(f"{step} changed the interface: {'; '.join(changed)}")

    def _compare_outputs(self, model: Model) -> list[Outcome]:
        """Return the outcomes of ``model`` on all sets of inputs; tolerate what rounding can change."""
        # the outputs, by label, if ``model`` is the second model of ``pair`` and so has already run
        known = self.pair.outputs if self.pair is not None and self.pair.after is model else {}
        expect_runs(model, len(self.runs) - len(known))
        self.latest = [known.get(past.kind) or past.again(model) for past in self.runs]
        names = [value.name for value in model.main.outputs]
        all_outcomes = []
        for past, latest in zip(self.runs, self.latest, strict=True):
            before = dict(zip(self.names, past.outputs, strict=True))
            after = dict(zip(names, latest, strict=True))
            outcomes = compare_outputs(past.kind, before, after)
            if not all(outcome.equal for outcome in outcomes):
                noise = dict(zip(self.names, rounding_error(self.original, past), strict=True))
                outcomes = compare_outputs(past.kind, before, after, noise)
            all_outcomes += outcomes
        return all_outcomes
