# SPDX-License-Identifier: Apache-2.0
"""Compare a model by value with a reference, once or after each pass."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace

from circlekit.equivalence.array_comparison import Outcome, similarity
from circlekit.equivalence.model_comparison import (
    Comparison,
    compare_outputs,
    interface_differences,
    interface_of,
    weak_outputs,
)
from circlekit.equivalence.named_results import PairedRuns
from circlekit.equivalence.random_seeds import seed_notes
from circlekit.equivalence.real_numbers import have_equal_types
from circlekit.equivalence.reduction_steps import entry_views, reachable_graphs
from circlekit.equivalence.reference_runs import Records, Run, outputs_on, reference_runs, rounding_error
from circlekit.equivalence.small_channels import ChannelComparison
from circlekit.errors import CirclekitError, EquivalenceError, shown
from circlekit.ir.clone import clone
from circlekit.ir.graph import Model
from circlekit.ir.value import Array, Value
from circlekit.ops.numerics.output_stage import Kernels
from circlekit.passes.engine.optimization_report import OutputDifference
from circlekit.passes.engine.registry import find_pass


def watch(verifier: Verifier, model: Model, name: str) -> None:
    """Verify ``model`` after the pass ``name``; raise EquivalenceError if it does not run.

    What else is compared depends on what the pass changes on purpose:

    - The interface: nothing; ``model`` becomes the new reference.
    - Values: raise EquivalenceError if the interface differs; ``model`` becomes the new reference.
    - Neither: raise EquivalenceError if outputs or the interface differ.

    If the pass drops state on purpose, only first runs are compared (``Verifier.omit_later_runs``).
    """
    pass_class = find_pass(name)
    if pass_class.drops_state:
        verifier.omit_later_runs(name)
    if pass_class.changes_interface:
        verifier.restart(model, name)
    elif pass_class.changes_values:
        verifier.accept(model, name)
    else:
        verifier.check(model, name)


@contextmanager
def _running_after(step: str) -> Iterator[None]:
    """Return a context that replaces the error of a run by an EquivalenceError that names ``step``."""
    try:
        yield
    except CirclekitError as error:
        message = f"after {step} the model does not run: {error.message}"
        raise EquivalenceError(message, *error.where) from error


def _quantization_text(value: Value) -> str:
    """Return the scales and zero points of ``value`` as text."""
    form = value.quantization
    if form is None:
        return "not quantized"
    return f"of scale {form.scale.tolist()} and zero point {form.zero_point.tolist()}"


def _in_its_graph(verifier: Verifier, notes: Iterable[str]) -> list[str]:
    """Return ``notes`` of ``verifier``, with the name of the graph that it compares."""
    return [f"in the graph {shown(verifier.original.main.name)}: {note}" for note in notes]


class Verifier:
    """Runs a reference model, and compares other models with it.

    Arguments:
    ``records``: {label: inputs of the main graph}, each as arrays in graph order or by name.  By default,
    these are the seeded sets of ``reference_runs``, for the main graph and each other graph that a signature
    names.
    ``kernels``: the kernel set; by default ``select_kernels`` chooses it.  For a part of a model, give the
    set of the whole model.
    ``pair``: runs a second model on the same inputs, right after each run of the reference.
    The constructor raises the errors of ``reference_runs``.

    Fields:
    ``original``: a copy of the reference.  ``names``: the names of its outputs.  ``interface``: its inputs,
    outputs and signatures, as ``interface_of`` returns them.
    ``runs``: the run of the reference on each set of inputs.
    ``latest``: the outputs of the last compared model on the same sets; at first those of the reference.
    ``notes``: sentences about what was not compared or proves little, for this and all earlier references.  A
    note that no longer holds after the pass P begins with ``before P``.
    ``closest``: for each output name, the outcome that came closest to its tolerance, among all in which a
    ``check`` found no difference in the whole graph.  The name of an output of another graph is
    ``GRAPH: NAME``.
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
        self.records, self.kernels, self.pair = records, kernels, pair
        self._start(model)
        self.notes = [*self._reference_notes]

    def _start(self, model: Model) -> None:
        """Run ``model`` and make it the reference."""
        self._set_reference(model, *reference_runs(model, self.records, self.kernels, self.pair))

    def _set_reference(self, model: Model, runs: list[Run], omissions: list[str]) -> None:
        """Make ``model``, whose ``runs`` are given, the reference; set all fields that depend on it.

        ``omissions``: notes on sets of inputs, or runs on them, that are not compared.
        """
        self.original = clone(model)
        self.interface = interface_of(model)
        self.names = [value.name for value in model.main.outputs]
        self.runs, self._omissions = runs, omissions
        self.latest = [run.outputs for run in runs]
        self._channels = ChannelComparison(self.original)
        seeds = seed_notes(reachable_graphs(model.main))
        notes = [*omissions, *seeds, *weak_outputs(model.main, self.latest)]
        self.others = []
        for view in entry_views(model):
            verifier, more_notes = self._other(view)
            notes += more_notes
            if self.records is None:
                self.others.append(verifier)
        self._reference_notes = list(dict.fromkeys(notes))

    def _other(self, view: Model) -> tuple[Verifier | None, list[str]]:
        """Return a verifier of ``view`` and its notes; None and a note if the graph is not compared."""
        name = shown(view.main.name)
        if self.records is not None:
            reason = "which a signature names, is not compared: the given inputs are for the main graph"
            return None, [f"the graph {name}, {reason}"]
        try:
            verifier = Verifier(view, kernels=self.runs[0].kernels)
        except CirclekitError as error:
            return None, [f"the graph {name} is not verified: {error.message}"]
        return verifier, _in_its_graph(verifier, verifier.notes)

    def omit_later_runs(self, step: str) -> None:
        """Compare only first runs, because ``step`` drops the state that a later run shows.

        This ends when a new reference is run: with ``restart``; for the graphs in ``others`` also with
        ``accept``.
        """
        notes = []
        first = [run for run in self.runs if not run.earlier]
        if len(first) < len(self.runs):
            self.runs, self.latest = first, [run.outputs for run in first]
            notes = [f"{step} is meant to drop state: later runs are not compared after it"]
            self._omissions = [*self._omissions, *notes]
        for verifier in self.others:
            if verifier is not None:
                known = len(verifier.notes)
                verifier.omit_later_runs(step)
                notes += _in_its_graph(verifier, verifier.notes[known:])
        self.notes += notes
        self._reference_notes += notes

    def restart(self, model: Model, step: str) -> None:
        """Make ``model`` the reference after ``step``, which changes the interface on purpose.

        If ``model`` does not run on the records, use seeded inputs from now on.  Raise EquivalenceError if it
        does not run on these either.
        """
        old = self._reference_notes
        sentences = [f"{step} is meant to change the interface: passes after it are compared with its result"]
        with _running_after(step):
            try:
                self._start(model)
            except CirclekitError as error:
                if self.records is None:
                    raise
                reason = f"because the new model does not run on the given inputs: {error.message}"
                sentences.append(f"later passes are verified on seeded inputs, {reason}")
                self.records = None
                self._start(model)
        self._renew_notes(step, old, sentences)

    def accept(self, model: Model, step: str) -> None:
        """Make ``model`` the reference after ``step``, which changes values on purpose, not the interface.

        Raise EquivalenceError if the interface differs, or if ``model`` does not run.
        """
        self._check_interface(model, step)
        old = self._reference_notes
        with _running_after(step):
            outputs = outputs_on(self.runs, model)
            runs = [replace(run, outputs=arrays) for run, arrays in zip(self.runs, outputs, strict=True)]
            self._set_reference(model, runs, self._omissions)
        sentence = f"{step} is meant to change values: only passes before and after it are verified"
        self._renew_notes(step, old, [sentence])

    def _renew_notes(self, step: str, old: Sequence[str], sentences: Sequence[str]) -> None:
        """Add ``sentences`` about ``step`` to ``notes``, then the notes on the new reference.

        ``old``: the notes on the reference before ``step``.
        """
        ended = set(old).difference(self._reference_notes)
        past = [f"before {step}: {note}" if note in ended else note for note in self.notes]
        self.notes = [*past, *sentences, *(note for note in self._reference_notes if note not in past)]

    def check(self, model: Model, step: str) -> None:
        """Raise EquivalenceError, naming ``step``, if ``model`` does not run or differs from the reference.

        The interface and the outputs of all runs are compared, also those of the graphs in ``others``.  The
        scales and zero points of integer inputs and outputs must be equal.
        """
        self._check_interface(model, step)
        self._check_scales(model, step)
        with _running_after(step):
            comparison = Comparison(outputs=self._compare_outputs(model))
        if not comparison.equal:
            raise EquivalenceError(f"{step} changed {comparison.worst}")
        # if a name has several outcomes, the last one, with the largest excess, stays in the dict
        self._record(
            {outcome.name: outcome for outcome in sorted(comparison.outputs, key=lambda o: o.excess)}
        )
        for verifier, view in self.other_graphs(model):
            verifier.check(view, f"{step}, in the graph {shown(view.main.name)},")
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
        """Return the comparison of ``model`` with the reference: interfaces, and outputs of the main graphs.

        Outputs with equal names are compared, but none if the inputs of the main graphs differ in name, dtype
        or rank.  Raise a CirclekitError if ``model`` cannot be run.
        """
        result = Comparison(interface_differences(self.interface, interface_of(model)))
        inputs = [[(v.name, v.dtype, v.rank) for v in each.main.inputs] for each in (self.original, model)]
        if inputs[0] == inputs[1]:
            result.outputs = self._compare_outputs(model)
            self._measure(result.outputs, [value.name for value in model.main.outputs])
        return result

    def _measure(self, outcomes: list[Outcome], names: list[str]) -> None:
        """Set the similarity of ``outcomes``.  ``names``: the output names of the last compared model."""
        pairs: dict[tuple[str, str], tuple[Array, Array | None]] = {}
        for past, latest in zip(self.runs, self.latest, strict=True):
            after = dict(zip(names, latest, strict=True))
            for name, array in zip(self.names, past.outputs, strict=True):
                pairs[past.label, name] = (array, after.get(name))
        for outcome in outcomes:
            left, right = pairs[outcome.inputs, outcome.name]
            if right is not None:
                outcome.similarity = similarity(left, right)

    def other_graphs(self, model: Model) -> Iterator[tuple[Verifier, Model]]:
        """Yield each verifier in ``others``, with the view of ``model`` whose main graph it compares."""
        for verifier, view in zip(self.others, entry_views(model), strict=False):
            if verifier is not None:
                yield verifier, view

    def _check_interface(self, model: Model, step: str) -> None:
        changed = interface_differences(self.interface, interface_of(model))
        if changed:
            raise EquivalenceError(f"{step} changed the interface: {'; '.join(changed)}")

    def _check_scales(self, model: Model, step: str) -> None:
        """Raise EquivalenceError if scales or zero points of integer inputs or outputs differ."""
        sides = [[*main.inputs, *main.outputs] for main in (self.original.main, model.main)]
        for a, b in zip(*sides, strict=True):
            if not have_equal_types([a], [b]):
                change = f"%{a.name} was {_quantization_text(a)}, is {_quantization_text(b)}"
                raise EquivalenceError(f"{step} changed the interface: {change}")

    def _compare_outputs(self, model: Model) -> list[Outcome]:
        """Return the outcomes of ``model`` on all sets of inputs; tolerate what rounding can change."""
        # the outputs, by label, if ``model`` is the second model of ``pair`` and so has already run
        known = self.pair.outputs if self.pair is not None and self.pair.after is model else {}
        others = outputs_on([past for past in self.runs if past.label not in known], model)
        self.latest = [known[p.label] if p.label in known else next(others) for p in self.runs]
        names = [value.name for value in model.main.outputs]
        all_outcomes = []
        for past, latest in zip(self.runs, self.latest, strict=True):
            before = dict(zip(self.names, past.outputs, strict=True))
            after = dict(zip(names, latest, strict=True))
            outcomes = compare_outputs(past.label, before, after)
            if not all(outcome.equal for outcome in outcomes):
                noise = dict(zip(self.names, rounding_error(self.original, past), strict=True))
                outcomes = compare_outputs(past.label, before, after, noise)
            indices = {name: index for index, name in enumerate(self.names)}
            all_outcomes += [
                self._channels.outcome(o, past, indices[o.name], after[o.name]) for o in outcomes
            ]
        return all_outcomes
