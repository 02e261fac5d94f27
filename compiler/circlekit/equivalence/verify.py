# SPDX-License-Identifier: Apache-2.0
"""Compares whole models by value, and watches one while passes rewrite it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from circlekit.equivalence.comparison import (
    Comparison,
    OutputDifference,
    compare_outputs,
    interface_differences,
    interface_of,
    weak_outputs,
)
from circlekit.equivalence.entry_graphs import entry_views
from circlekit.equivalence.random_seeds import chance_notes
from circlekit.equivalence.reference_runs import Inputs, Run, reference_runs
from circlekit.equivalence.rounding_error import rounding_noise
from circlekit.errors import CirclekitError, EquivalenceError
from circlekit.interp.kernel_selection import select_kernels
from circlekit.ir.clone import clone
from circlekit.ir.graph import Model
from circlekit.ir.value import Array
from circlekit.ops.numerics.kernel_flavor import Kernels
from circlekit.passes.engine.registry import find_pass


def compare_models(
    a: Model, b: Model, inputs: Inputs | None = None, kernels: Kernels | None = None
) -> Comparison:
    """Compare interface and outputs of ``b`` with those of ``a``, the reference.

    ``inputs``: arrays in graph order or by name; without them three seeded sets are used (normal,
    boundary, zero), for the main graph and for each that a signature names.  Where the interfaces differ
    the values are compared only if the outputs can be paired by name and ``b`` takes the same inputs.
    ``kernels``: those of the model of which ``a`` is a part; None where it is a whole one.
    """
    found = Comparison(interface_differences(interface_of(a), interface_of(b)))
    kernels = select_kernels(a, kernels)
    runs, found.notes = reference_runs(a, inputs, kernels)
    if not _take_same_inputs(a, b):
        return found
    for run in runs:
        after = run.again(b)
        found.outputs += _compare_run(a, b, run, after)
    found.notes += [*chance_notes(a), *weak_outputs(a.main, [run.outputs for run in runs])]
    if inputs is None:
        for left, right in zip(entry_views(a), entry_views(b), strict=False):
            inner = compare_models(left, right, None, kernels)
            found.interface += inner.interface
            found.outputs += inner.outputs
            found.notes += inner.notes
    return found


def _take_same_inputs(a: Model, b: Model) -> bool:
    left, right = ([(v.name, v.dtype, v.rank) for v in m.main.inputs] for m in (a, b))
    return left == right


def _compare_run(a: Model, b: Model, run: Run, after: list[Array]) -> list[OutputDifference]:
    """The outputs of one run, paired by name where the lists of names differ."""
    names = [value.name for value in a.main.outputs]
    if names == [value.name for value in b.main.outputs]:
        return judge(a, run, names, after)
    theirs = dict(zip((value.name for value in b.main.outputs), after, strict=True))
    shared = [(n, x, theirs[n]) for n, x in zip(names, run.outputs, strict=True) if n in theirs]
    shared_names, before, there = (
        [n for n, _, _ in shared],
        [x for _, x, _ in shared],
        [y for _, _, y in shared],
    )
    return compare_outputs(run.kind, shared_names, before, there)


def judge(original: Model, run: Run, names: Sequence[str], after: Sequence[Array]) -> list[OutputDifference]:
    """Compare ``after`` with a run of ``original``; what exceeds the tolerance is held against its noise."""
    found = compare_outputs(run.kind, names, run.outputs, after)
    if all(output.equal for output in found):
        return found
    return compare_outputs(run.kind, names, run.outputs, after, rounding_noise(original, run))


def watch(verifier: Verifier, model: Model, name: str) -> None:
    """Check ``model`` after pass ``name``, or start anew where that is meant to change values."""
    kind = find_pass(name)
    if kind.changes_interface:
        verifier.restart(model, name)
    elif kind.changes_values:
        verifier.accept(model, name)
    else:
        verifier.check(model, name)


class Verifier:
    """Remembers what a model computes, and checks that it still does after each pass.

    ``original``: a copy from before.  ``kernels``: those of the whole model.  ``runs``: it on every set of
    inputs.  ``latest``: the outputs of the last check on the same sets.  ``notes``: what equality does not
    prove here.  ``others``: verifiers of the graphs that signatures name, besides the main one; None for one
    that cannot be run.
    """

    def __init__(self, model: Model, kernels: Kernels | None = None) -> None:
        self.original = clone(model)
        self.kernels = select_kernels(model, kernels)
        self.interface = interface_of(model)
        self.names = [value.name for value in model.main.outputs]
        self.runs: list[Run]
        self.runs, self.notes = reference_runs(model, None, self.kernels)
        self.notes += [*chance_notes(model), *weak_outputs(model.main, [run.outputs for run in self.runs])]
        self.latest = [run.outputs for run in self.runs]
        self.others = [self._other(view) for view in entry_views(model)]

    def _other(self, view: Model) -> Verifier | None:
        try:
            return Verifier(view, self.kernels)
        except CirclekitError as error:
            self.notes.append(f"the graph {view.main.name} is not verified: {error.message}")
            return None

    def restart(self, model: Model, step: str) -> None:
        """Take ``model`` as the new original: ``step`` is meant to change the interface."""
        notes = self.notes
        self.__init__(model)  # type: ignore[misc]  # all of it anew
        self.notes = [*notes, f"{step} is meant to change the interface: passes are verified behind it anew"]

    def accept(self, model: Model, step: str) -> None:
        """Take ``model`` as the new original: ``step`` is meant to change values, not the interface."""
        self._check_interface(model, step)
        self.original = clone(model)
        self.runs = [replace(r, outputs=r.again(model)) for r in self.runs]
        self.latest = [run.outputs for run in self.runs]
        self.others = [v and self._other(view) for v, view in self._pairs(model)]
        self.notes.append(f"{step} is meant to change values: the others are verified before and behind it")

    def check(self, model: Model, step: str) -> None:
        """EquivalenceError, naming ``step``, where ``model`` is not what it was before that step."""
        self._check_interface(model, step)
        self.latest = [self._check_run(model, step, run) for run in self.runs]
        for verifier, view in self._pairs(model):
            if verifier is not None:
                verifier.check(view, f"{step}, in the graph {view.main.name},")

    def _pairs(self, model: Model) -> Iterator[tuple[Verifier | None, Model]]:
        return zip(self.others, entry_views(model), strict=False)

    def _check_interface(self, model: Model, step: str) -> None:
        changed = interface_differences(self.interface, interface_of(model))
        if changed:
            raise EquivalenceError(f"{step} changed the interface: {'; '.join(changed)}")

    def _check_run(self, model: Model, step: str, run: Run) -> list[Array]:
        try:
            outputs = run.again(model)
        except CirclekitError as error:
            raise EquivalenceError(
                f"after {step} the model does not run: {error.message}", *error.where
            ) from error
        found = Comparison(outputs=judge(self.original, run, self.names, outputs))
        if not found.equal:
            raise EquivalenceError(f"{step} changed {found.worst}")
        return outputs
