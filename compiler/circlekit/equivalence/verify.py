# SPDX-License-Identifier: Apache-2.0
"""Compare models by value, and verify a model after each pass that rewrites it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from circlekit.equivalence.model_comparison import (
    Comparison,
    OutputDifference,
    compare_outputs,
    interface_differences,
    interface_of,
    weak_outputs,
)
from circlekit.equivalence.reference_runs import Inputs, Run, reference_runs, rounding_error
from circlekit.equivalence.seeded_inputs import seed_notes
from circlekit.equivalence.submodel import entry_views
from circlekit.errors import CirclekitError, EquivalenceError
from circlekit.interp.interpreter import select_kernels
from circlekit.ir.clone import clone
from circlekit.ir.graph import Model
from circlekit.ir.value import Array
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
    found = Comparison(interface_differences(interface_of(a), interface_of(b)))
    kernels = select_kernels(a, kernels)
    runs, found.notes = reference_runs(a, inputs, kernels)
    taken = [[(v.name, v.dtype, v.rank) for v in model.main.inputs] for model in (a, b)]
    if taken[0] != taken[1]:
        return found
    for run in runs:
        found.outputs += _compare_run(a, b, run, run.again(b))
    found.notes += [*seed_notes(a), *weak_outputs(a.main, [run.outputs for run in runs])]
    if inputs is None:
        for left, right in zip(entry_views(a), entry_views(b), strict=False):
            inner = compare_models(left, right, None, kernels)
            found.interface += inner.interface
            found.outputs += inner.outputs
            found.notes += inner.notes
    return found


def _compare_run(a: Model, b: Model, run: Run, after: list[Array]) -> list[OutputDifference]:
    """Compare the outputs of one run, paired by name if the lists of names differ."""
    names = [value.name for value in a.main.outputs]
    if names == [value.name for value in b.main.outputs]:
        return judge(a, run, names, after)
    by_name = dict(zip((value.name for value in b.main.outputs), after, strict=True))
    shared = [(n, x, by_name[n]) for n, x in zip(names, run.outputs, strict=True) if n in by_name]
    return compare_outputs(
        run.kind, [n for n, _, _ in shared], [x for _, x, _ in shared], [y for _, _, y in shared]
    )


def judge(original: Model, run: Run, names: Sequence[str], after: Sequence[Array]) -> list[OutputDifference]:
    """Compare ``after`` with a run of ``original``; differences within its rounding error are tolerated."""
    found = compare_outputs(run.kind, names, run.outputs, after)
    if all(output.equal for output in found):
        return found
    return compare_outputs(run.kind, names, run.outputs, after, rounding_error(original, run))


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
    """Runs a model before and after passes, and compares.

    ``original``: a copy of the reference.  ``kernels``: those of the whole model.  ``runs``: its run on each
    set of inputs.  ``latest``: the outputs of the last check on the same sets.  ``notes``: what was
    not compared.  ``others``: one verifier for each other graph that a signature names, or None if
    the graph cannot be run.
    """

    def __init__(self, model: Model, kernels: Kernels | None = None) -> None:
        self.notes: list[str] = []
        self._start(model, kernels)

    def _start(self, model: Model, kernels: Kernels | None = None) -> None:
        self.original = clone(model)
        self.kernels = select_kernels(model, kernels)
        self.interface = interface_of(model)
        self.names = [value.name for value in model.main.outputs]
        self.runs, notes = reference_runs(model, None, self.kernels)
        self.latest = [run.outputs for run in self.runs]
        self.notes += [*notes, *seed_notes(model), *weak_outputs(model.main, self.latest)]
        self.others = [self._other(view) for view in entry_views(model)]

    def _other(self, view: Model) -> Verifier | None:
        try:
            return Verifier(view, self.kernels)
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
            message = f"after {step} the model does not run: {error.message}"
            raise EquivalenceError(message, *error.where) from error
        found = Comparison(outputs=judge(self.original, run, self.names, outputs))
        if not found.equal:
            raise EquivalenceError(f"{step} changed {found.worst}")
        return outputs
