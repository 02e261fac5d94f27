# SPDX-License-Identifier: Apache-2.0
"""Find the operators that the targets cannot run, before and after a model is optimized."""

from __future__ import annotations

from circlekit.errors import EquivalenceError
from circlekit.ir.graph import Model
from circlekit.passes.engine.optimization_report import Report, TargetCheck
from circlekit.passes.engine.written_form import written_delegation, written_refusal
from circlekit.targets.planners import default_planner
from circlekit.targets.target import Target, find_target, target_names
from circlekit.targets.target_choice import OperatorCheck, TargetChoice, TargetSet, choose_targets
from circlekit.targets.unsupported import find_unsupported

RUNTIME_OF_DEFAULT = {"luci": "onert"}
"""{default target: another runtime for files of the same format}.

``luci`` is ONE's interpreter, ``onert`` its runtime on devices.  If the user named no target, ``TargetWatch``
examines the model for the other runtime, too.
"""


class TargetWatch:
    """Compares which operators of a model the targets can run, before and after it is optimized.

    The constructor examines the model before, ``conclude`` examines it afterwards.

    Arguments:
    ``choice``: the targets that the user named; None: the default target of ``format``.
    ``format``: the format in which the model will be written.
    ``special_forms``: whether a pass will make, on purpose, operators that only some runtimes have.

    Fields:
    ``targets``: the chosen targets.
    ``others``: runtimes that do not restrict the optimization.  The report gets a note if one of them runs
    the original but not the result.
    ``planner``: the memory planner for the arena sizes in the report.
    """

    def __init__(self, model: Model, choice: TargetChoice, format: str, special_forms: bool = False) -> None:
        self.format = format
        self._is_strict = choice is not None or not special_forms
        self.targets = choose_targets(choice, format)
        names = [RUNTIME_OF_DEFAULT.get(target.name) for target in self.targets if choice is None]
        self.others = tuple(find_target(name) for name in names if name in target_names())
        watched = (*self.targets, *self.others)
        self.planner = default_planner(format, [target.name for target in self.targets])
        self._before = {target: find_unsupported(model, target) for target in watched}
        # a delegation: which operators a delegate, such as XNNPACK, takes over from the runtime
        self._delegations = {target: written_delegation(model, format, target) for target in watched}

    def conclude(self, report: Report, model: Model) -> None:
        """Add to ``report`` the operators of the optimized ``model`` that the targets cannot run.

        An operator that legalization will replace by supported operators counts as supported.
        If outputs were verified, raise EquivalenceError for an operator that a target cannot run, although it
        was made from operators that the target ran (``TargetCheck.regressions``).  With ``special_forms``,
        this is an error only if the user named the targets.
        """
        for target, before in self._before.items():
            after = find_unsupported(model, target, self._refusal_of(target))
            old, new = self._delegations[target], written_delegation(model, self.format, target)
            delegations = None if old is None or new is None else (old, new)  # None: there is no delegate
            check = TargetCheck(target.name, target.title, before, after, delegations)
            if target in self.others:
                report.notes += _lost_runtime(check)
                continue
            report.targets.append(check)
            if report.verified and check.regressions and self._is_strict:
                raise _loss(check)

    def _refusal_of(self, target: Target) -> OperatorCheck:
        """Return a function of an operator: why ``target`` cannot run its legalized form, None if it can."""
        return written_refusal(TargetSet((target,), self.targets.is_default), self.format)


def _loss(check: TargetCheck) -> EquivalenceError:
    """Return the error about the first operator that the target of ``check`` cannot run any more."""
    lost = check.regressions[0]
    if check.before:  # the target did not run all of the original
        sentence = f"a pass made %{lost.result}, which {check.title} does not run: {lost.reason}"
    else:
        sentence = f"{check.title} ran the original, but does not run %{lost.result}: {lost.reason}"
    return EquivalenceError(sentence, f"at {lost.where}")


def _lost_runtime(check: TargetCheck) -> list[str]:
    """Return [a note] if the runtime of ``check`` runs the original model but not the result, else []."""
    if check.before or not check.after:
        return []
    kinds = ", ".join(dict.fromkeys(finding.operator for finding in check.after))
    advice = f"--target {check.name} prevents this"
    return [f"{check.title} would run the original, but not this model, because of {kinds}; {advice}"]
