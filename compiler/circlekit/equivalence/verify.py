# SPDX-License-Identifier: Apache-2.0
"""Compare models by value, and verify a model after each pass that rewrites it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from circlekit.equivalence.model_comparison import (
    Comparison,
    Outcome,
    compare_outputs,
    interface_differences,
    interface_of,
    weak_outputs,
)
from circlekit.equivalence.reference_runs import Inputs, reference_runs, rounding_error
from circlekit.equivalence.seeded_inputs import seed_notes
from circlekit.equivalence.submodel import entry_views
from circlekit.errors import CirclekitError, EquivalenceError
from circlekit.interp.interpreter import select_kernels
from circlekit.ir.clone import clone
from circlekit.ir.graph import Model
from circlekit.ops.numerics.output_stage import Kernels
from circlekit.passes.engine.registry import find_pass


def compare_models(
    a: Model, b: Model, inputs: Inputs | None = None, kernels: Kernels | None = None
) -> Comparison:
    """Compare interface and outputs of ``b`` with those of ``a``, the reference.

    ``inputs``: arrays in graph order or by name; by default three kinds of seeded sets (normal, boundary,
    zero), for the main graph and for each graph that a signature names.  If the interfaces differ, values
    are compared only if ``b`` takes the same inputs, and outputs are paired by name.  ``kernels``: those of
    the whole model if ``a`` is a part of one.
    """
    return Verifier(a, inputs, kernels).compare(b)


def watch(verifier: Verifier, model: Model, name: str) -> None:
    """Verify ``model`` after pass ``name``; a pass that is meant to change values gives a new reference."""
    kind = find_pass(name)
    if kind.changes_interface:
        verifier.restart(model, name)
    elif kind.changes_values:
        verifier.accept(model, name)
    else:
        verifier.check(model, name)


class Verifier:
    """Runs a model once, and compares others with it.

    ``original``: a copy of the reference.  ``kernels``: those of the whole model.  ``names``: of its outputs.
    ``runs``: its run on each set of inputs.  ``latest``: the outputs of the last compared model on the same
    sets.  ``notes``: what was not compared.  ``others``: one verifier for each other graph that a signature
    names, or None if the graph cannot be run; none for given ``inputs``.
    """

    def __init__(self, model: Model, inputs: Inputs | None = None, kernels: Kernels | None = None) -> None:
        self._start(model, inputs, kernels)

    def _start(self, model: Model, inputs: Inputs | None = None, kernels: Kernels | None = None) -> None:
        self.original = clone(model)
        self.kernels = select_kernels(model, kernels)
        self.interface = interface_of(model)
        self.names = [value.name for value in model.main.outputs]
        self.runs, self.notes = reference_runs(model, inputs, self.kernels)
        self.latest = [run.outputs for run in self.runs]
        self.notes += [*seed_notes(model), *weak_outputs(model.main, self.latest)]
        self.others = [self._other(view) for view in entry_views(model)] if inputs is None else []

    def _other(self, view: Model) -> Verifier | None:
        try:
            return Verifier(view, kernels=self.kernels)
        except CirclekitError as error:
            self.notes.append(f"the graph {view.main.name} is not verified: {error.message}")
            return None

    def restart(self, model: Model, step: str) -> None:
        """Make ``model`` the reference after ``step``, which is meant to change the interface."""
        sentence = f"{step} is meant to change the interface: passes after it are verified from there"
        notes = [*self.notes, sentence]
        self._start(model)
        self.notes = notes  # the new reference has the same notes again

    def accept(self, model: Model, step: str) -> None:
        """Make ``model`` the reference after ``step``, which is meant to change values only."""
        self._check_interface(model, step)
        self.original = clone(model)
        self.runs = [replace(r, outputs=r.again(model)) for r in self.runs]
        self.latest = [run.outputs for run in self.runs]
        self.others = [verifier and self._other(view) for verifier, view in self._pairs(model)]
        self.notes.append(f"{step} is meant to change values: passes before and after it are verified")

    def check(self, model: Model, step: str) -> None:
        """EquivalenceError, naming ``step``, if ``model`` computes something else than the reference."""
        self._check_interface(model, step)
        try:
            found = Comparison(outputs=self._compare_outputs(model))
        except CirclekitError as error:
            message = f"after {step} the model does not run: {error.message}"
            raise EquivalenceError(message, *error.where) from error
        if not found.equal:
            raise EquivalenceError(f"{step} changed {found.worst}")
        for verifier, view in self._pairs(model):
            if verifier is not None:
                verifier.check(view, f"{step}, in the graph {view.main.name},")

    def compare(self, model: Model) -> Comparison:
        """Return every difference of ``model`` from the reference."""
        found = Comparison(interface_differences(self.interface, interface_of(model)), notes=[*self.notes])
        taken = [[(v.name, v.dtype, v.rank) for v in each.main.inputs] for each in (self.original, model)]
        if taken[0] == taken[1]:
            found.outputs = self._compare_outputs(model)
        for verifier, view in self._pairs(model):
            if verifier is not None:
                inner = verifier.compare(view)
                found.interface += inner.interface
                found.outputs += inner.outputs
                found.notes += inner.notes
        return found

    def _pairs(self, model: Model) -> Iterator[tuple[Verifier | None, Model]]:
        return zip(self.others, entry_views(model), strict=False)

    def _check_interface(self, model: Model, step: str) -> None:
        changed = interface_differences(self.interface, interface_of(model))
        if changed:
            raise EquivalenceError(f"{step} changed the interface: {'; '.join(changed)}")

    def _compare_outputs(self, model: Model) -> list[Outcome]:
        """Run ``model`` on every set of inputs; tolerate what rounding can do to the reference."""
        self.latest = [run.again(model) for run in self.runs]
        names = [value.name for value in model.main.outputs]
        found = []
        for run, latest in zip(self.runs, self.latest, strict=True):
            before = dict(zip(self.names, run.outputs, strict=True))
            after = dict(zip(names, latest, strict=True))
            outcomes = compare_outputs(run.kind, before, after)
            if not all(outcome.equal for outcome in outcomes):
                noise = dict(zip(self.names, rounding_error(self.original, run), strict=True))
                outcomes = compare_outputs(run.kind, before, after, noise)
            found += outcomes
        return found
