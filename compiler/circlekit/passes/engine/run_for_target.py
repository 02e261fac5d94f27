# SPDX-License-Identifier: Apache-2.0
"""Run a pass; undo the run if the target took the old operators, but does not take all of the new ones.

A target takes an operator if it can run the operator.

A pass with ``obeys_target``, such as any pass that is declared by pictures, refuses such a rewrite before it
changes the graph.  Any other pass may make operators anywhere, so its result is examined.

``TargetRules.checks`` are functions that return why the runtime, or its delegate, does not take an operator;
None if it does.  ``TargetRules.barred`` gives the reason why a pass must not rewrite an operator.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import replace

from circlekit.ir.graph import Model
from circlekit.ir.op import Op
from circlekit.ir.snapshot import Snapshot
from circlekit.rewrite.base import Context, Pass
from circlekit.rewrite.target_rules import TargetRules

WHOLE_PASS = ""
"""In a key (pass, operator) of ``TargetRules.barred``: the pass does not run, whatever the operator."""


def run_for_target(item: Pass, model: Model, context: Context) -> int:
    """Run a pass as ``Pass.run`` does, without rewrites whose result the target does not take.

    If the pass makes an operator that the target does not take, the run is undone and repeated.  In the new
    run, ``Context.accepts`` forbids the rewrite that made this operator.  If that rewrite is not known, the
    pass does not run any more.

    But an operator that the target does not take stays in two cases:

    - The run removed, or made right, another operator that the target did not take.  The new operator may be
      made of that one.  Which rewrite removed which operators is not known, so all new operators stay.
    - The target does not take an operator of the original model for the same reason.

    If the user did not name the target, it does not restrict a pass with ``makes_special_forms``.
    A pass that the user named runs without ``Context.exact``.  Return the number of changes.
    """
    if context.exact and item.name in context.named:
        context = replace(context, exact=False)
    rules = context.target
    if rules is not None and rules.is_default and item.makes_special_forms:
        rules, context = None, replace(context, target=None)
    if rules is None or item.obeys_target:
        return item.run(model, context)
    while (item.name, WHOLE_PASS) not in rules.barred:
        start = _Start(model, context, rules)
        trial = _trial(item)
        changes = trial.run(model, context)
        # operators that are new or changed, and operators that are gone or changed
        new, old = start.snapshot.changed() if changes else ([], [])
        # for each check, the new operators that it refuses, with the reason
        wrong = [
            {op: sentence for op in new if (sentence := check(op)) is not None} for check in rules.checks
        ]
        if not any(wrong):  # ``item`` gets what ``trial`` remembers about its run
            vars(item).update(vars(trial))
            return changes
        places = {op: op.results[0].name if op.results else "" for op in new}
        start.restore(context)
        lost = _lost(model, rules, old, wrong, places)
        if not lost:  # ``restore`` has undone the run, so do it again
            return item.run(model, context)
        _bar(item.name, lost, rules)
    return 0


def _lost(
    model: Model,
    rules: TargetRules,
    old: Sequence[Op],
    wrong: Sequence[Mapping[Op, str]],
    places: Mapping[Op, str],
) -> dict[str, str]:
    """Return the operators for which a run of a pass is undone, as {name of the first result: reason}.

    These are new operators that the target does not take; the two cases of ``run_for_target`` in which such
    operators stay are left out.
    ``model``: the restored model.  ``old``: the operators that the run removed or changed.  ``wrong``: for
    each check, the new or changed operators that it refused after the run, with the reason.  ``places``: the
    names that the first results of these operators had after the run; "" without results.
    """
    lost: dict[str, str] = {}
    for check, sentences in zip(rules.checks, wrong, strict=True):
        wrong_before = {op for op in old if check(op) is not None}
        # if the run removed one of ``wrong_before``, or made it right, the new refused operators may be made
        # of it, so they stay
        if wrong_before <= sentences.keys():
            lost |= {places[op]: text for op, text in sentences.items() if op not in wrong_before}
    if lost:
        known = {check(op) for op in model.ops() for check in rules.checks}
        lost = {place: text for place, text in lost.items() if text not in known}
    return lost


def _trial(item: Pass) -> Pass:
    """Return a copy of ``item`` for a run that may be undone; what the run stores in it stays in the copy."""
    trial = copy(item)
    for name, content in vars(item).items():
        if isinstance(content, set | dict | list):
            setattr(trial, name, copy(content))
    return trial


class _Start:
    """The state before a run of a pass, which ``restore`` brings back."""

    def __init__(self, model: Model, context: Context, rules: TargetRules) -> None:
        if rules.snapshot is None or not rules.snapshot.is_of(model):
            rules.snapshot = Snapshot(model)
        self.snapshot = rules.snapshot
        counters = (context.budget, context.folded)
        self.counters = [(counter, copy(counter)) for counter in counters if counter is not None]
        self.refusals = len(context.refusals or ())
        rules.accepted.clear()

    def restore(self, context: Context) -> None:
        """Bring back the model, the refusals, the budget and the work of constant folding."""
        self.snapshot.restore()
        if context.refusals is not None:
            del context.refusals[self.refusals :]
        for counter, before in self.counters:
            vars(counter).update(vars(before))


def _bar(name: str, lost: Mapping[str, str], rules: TargetRules) -> None:
    """Bar the pass ``name`` from rewriting the operators from which it made unsupported ones.

    A new operator has the name of the operator from which it was made, perhaps with "/" and more text.  If
    the current run rewrote no operator of such a name, bar the pass from running at all.
    ``lost``: why the unsupported operators do not run, by the names of their first results.
    """
    found = {
        (name, result): sentence
        for place, sentence in lost.items()
        for result in rules.accepted
        if place == result or place.startswith(f"{result}/")
    }
    result, sentence = next(iter(lost.items()))
    rules.barred.update(found or {(name, WHOLE_PASS): f"%{result}: {sentence}"})


def target_obstacle(name: str, context: Context) -> str:
    """Return how the target prevented the pass ``name`` from running, as a sentence; "" if it did not."""
    sentence = None if context.target is None else context.target.barred.get((name, WHOLE_PASS))
    reason = "it would make an operator that does not run"
    return "" if sentence is None else f"{name} is left out, because {reason}: {sentence}"
