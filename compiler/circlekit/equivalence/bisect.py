# SPDX-License-Identifier: Apache-2.0
"""Find the pass and the rewrite that change what a model computes; make a small model with the fault."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from circlekit.equivalence.delta_debugging import MAX_TRIES, reduce_model
from circlekit.equivalence.reference_runs import Records
from circlekit.equivalence.verify import Verifier, watch
from circlekit.errors import CirclekitError, EquivalenceError
from circlekit.interp.evaluate import model_inputs
from circlekit.ir.clone import clone
from circlekit.ir.graph import Model
from circlekit.ir.verifier import check
from circlekit.passes.engine.legalize import legalize
from circlekit.passes.engine.pass_manager import run_passes
from circlekit.passes.engine.registry import find_pass
from circlekit.passes.engine.run_for_target import run_for_target
from circlekit.passes.engine.written_form import rules_of_targets
from circlekit.passes.pipelines import Phase
from circlekit.rewrite.base import Budget, Context
from circlekit.targets.target_choice import NO_TARGETS, TargetSet


@dataclass(frozen=True)
class Step:
    """A pass or the legalization.

    ``name``: the name of the pass, or ``writing as FORMAT`` for the legalization.
    ``run``: a function that runs the step on a copy of a model, and returns the copy.  The budget counts the
    rewrites and limits their number; None: they are neither counted nor limited.  The legalization ignores
    the budget.
    ``verify``: a function that raises EquivalenceError if the model after the step is wrong.  Its arguments
    are a verifier whose reference is the model before the step, the model after the step, and ``name``.
    """

    name: str
    run: Callable[[Model, Budget | None], Model]
    verify: Callable[[Verifier, Model, str], None]


@dataclass
class Culprit:
    """A pass, or the legalization, that fails or changes what a model computes.

    ``step``: the name of the pass, or ``writing as FORMAT`` for the legalization.
    ``fault``: what is wrong after the step, as text.
    ``model``: the smallest model found that shows the fault.
    ``total``: how many rewrites the step makes; 0 if they were not counted.
    ``number``: the number of the first wrong rewrite, from 1 to ``total``; 0 if no rewrites were counted.
    ``op``: the operator at which this rewrite began, as text.

    If the step alone does not cause the fault, ``model`` is the model before the step, and ``number`` is 0.
    """

    step: str
    fault: str
    model: Model
    number: int = 0
    total: int = 0
    op: str = ""

    def __str__(self) -> str:
        if not self.number:
            return f"{self.step} is wrong: {self.fault}"
        return f"{self.step} is wrong, in rewrite {self.number} of {self.total}, of {self.op}: {self.fault}"


def find_culprit(
    model: Model,
    passes: Sequence[Phase | str],
    format: str,
    tries: int = MAX_TRIES,
    settings: Mapping[str, Any] | None = None,
    exact: bool = False,
    named: Collection[str] = (),
    records: Records | None = None,
    targets: TargetSet = NO_TARGETS,
) -> Culprit | None:
    """Return the first of ``passes`` that fails or wrongly changes what ``model`` computes, else None.

    Legalization for ``format`` counts as the last pass.  ``model`` is not changed.  ``tries``: how many
    models may be tested to find a smaller one.  ``settings``: values of the passes' options, by name.
    ``exact``, ``named``: see ``Context``.  ``records``: the inputs on which models are compared; a smaller
    model that does not take these inputs is compared on seeded inputs.
    ``targets``: the targets that have to run the model.  Raise the error of the run if ``model`` itself
    cannot be run, and RewriteError for an unknown pass.
    """
    rules = rules_of_targets(targets, format)
    common = Context(format, settings=settings or {}, exact=exact, named=named, target=rules)
    copy, verifier = clone(model), Verifier(model, records)
    snapshot, current = clone(model), ""

    def before(name: str) -> None:
        nonlocal snapshot, current
        current = name
        if _epochs(snapshot) != _epochs(copy):  # an earlier pass changed the model
            snapshot = clone(copy)

    def after(name: str, changes: int) -> None:
        if changes:
            check(copy)
            watch(verifier, copy, name)

    try:
        run_passes(copy, passes, common, after, before)
    except Exception as error:  # a pass may fail in any way
        if not current:  # no pass was begun, for example because the name of one is unknown
            raise
        step = _pass_step(current, common)
        return _narrow(step, snapshot, _sentence(error), tries, records)

    def legalized(model: Model, budget: Budget | None) -> Model:
        return legalize(model, format, targets=targets.legalized)

    step = Step(f"writing as {format}", legalized, Verifier.check)
    fault = _fault(step, copy, records=records)
    return None if fault is None else _narrow(step, copy, fault[1], tries, records)


def _epochs(model: Model) -> list[int]:
    """Return a number for each graph, which increases with every change of the graph."""
    return [graph.epoch for graph in model.graphs]


def _pass_step(name: str, common: Context) -> Step:
    """Return the step that runs the pass ``name``.  ``common``: the context without a budget."""
    pass_class = find_pass(name)

    def run(model: Model, budget: Budget | None) -> Model:
        copy = clone(model)
        run_for_target(pass_class(), copy, replace(common, budget=budget))
        return copy

    return Step(name, run, watch)


def _fault(
    step: Step, model: Model, budget: Budget | None = None, records: Records | None = None
) -> tuple[str, str] | None:
    """Return (kind, description) of the fault that ``step`` causes in ``model``; None if it causes none.

    The kinds are:

    - ``raises TYPE``: ``step`` raises an exception of that type
    - ``invalid``: the new model breaks a rule of ``ir.verifier``
    - ``values``: the new model fails in a run, or its outputs or interface changed by mistake
    """
    verifier = Verifier(model, records if _takes(model, records) else None)
    try:
        changed = step.run(model, budget)
    except Exception as error:  # a pass may fail in any way
        return f"raises {type(error).__name__}", _sentence(error)
    try:
        check(changed)
        step.verify(verifier, changed, step.name)
    except CirclekitError as error:
        return "values" if isinstance(error, EquivalenceError) else "invalid", _sentence(error)
    return None


def _takes(model: Model, records: Records | None) -> bool:
    """Return whether the inputs of all ``records`` fit ``model``."""
    try:
        for inputs in (records or {}).values():
            model_inputs(model, 0, inputs)
    except CirclekitError:
        return False
    return True


def _sentence(error: Exception) -> str:
    """Return the fault that ``error`` reports, as text for ``Culprit.fault``."""
    if isinstance(error, EquivalenceError):
        return error.message
    if isinstance(error, CirclekitError):
        return " ".join([error.message, *error.where[:1]])
    return f"it raises {type(error).__name__}: {error}"


def _narrow(step: Step, model: Model, sentence: str, tries: int, records: Records | None) -> Culprit:
    """Return the culprit: find the first wrong rewrite of ``step``, and reduce ``model``.

    ``model``: the model before the step.
    ``sentence``: the fault that was found after the step, in comparison with the model before all passes.
    ``tries``: how many models the reduction may test.
    """
    culprit = Culprit(step.name, sentence, model)
    unlimited = Budget()
    fault = _fault(step, model, unlimited, records)
    if fault is None:  # the step alone is right: the fault needs the rounding of earlier passes, too
        return culprit
    kind, culprit.fault = fault
    before_rewrite = None
    if unlimited.made:  # the pass counts its rewrites
        culprit.total = unlimited.made
        # the least number of rewrites with which the step is wrong
        culprit.number = 1 + bisect_left(
            range(1, culprit.total),
            True,
            key=lambda count: _fault(step, model, Budget(count), records) is not None,
        )
        first_wrong = Budget(culprit.number)
        _, culprit.fault = _fault(step, model, first_wrong, records) or fault
        culprit.op = first_wrong.last
        if culprit.number > 1:
            before_rewrite = step.run(model, Budget(culprit.number - 1))

    def shows(candidate: Model) -> bool:
        fault = _fault(step, candidate, records=records)
        return fault is not None and fault[0] == kind

    # if the step fails in the same way on the model before the first wrong rewrite, begin with that model
    start = before_rewrite if before_rewrite is not None and shows(before_rewrite) else model
    culprit.model = reduce_model(start, shows, tries)
    return culprit
