# SPDX-License-Identifier: Apache-2.0
"""Find what the targets cannot run of a model, before and after it is optimized."""

from __future__ import annotations

from circlekit.errors import EquivalenceError
from circlekit.ir.graph import Model
from circlekit.passes.engine.optimization_report import Report, TargetCheck
from circlekit.passes.engine.written_form import written_delegation, written_refusal
from circlekit.targets.findings import Refusal, TargetChoice, TargetSet, choose_targets, find_unsupported
from circlekit.targets.planners import default_planner
from circlekit.targets.target import Target, find_target, target_names

RUNTIME_OF_DEFAULT = {"luci": "onert"}
"""By default target: another runtime of the same files, which the user may have without naming it."""


class TargetWatch:
    """Examines a model before and after it is optimized.

    ``targets``: what the user chose, or the default for ``format``.  ``others``: runtimes that do not
    restrict the optimization; the report gets a note if one of them runs the original and not the result.
    ``special_forms``: whether a pass makes forms on purpose that a default target need not have.
    ``planner``: places the arenas whose size the report shows.
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
        self._delegated = {target: written_delegation(model, format, target) for target in watched}

    def conclude(self, report: Report, model: Model) -> None:
        """Add to ``report`` what the targets cannot run of the optimized ``model``, in the form to be
        written.

        Raise EquivalenceError if outputs were verified and an operator does not run that was made from
        operators that did; not for a default target if a pass makes special forms.
        """
        for target, before in self._before.items():
            after = find_unsupported(model, target, self._refusal_of(target))
            first, last = self._delegated[target], written_delegation(model, self.format, target)
            delegations = None if first is None or last is None else (first, last)
            check = TargetCheck(target.name, target.title, before, after, delegations)
            if target in self.others:
                report.notes += _lost_runtime(check)
                continue
            report.targets.append(check)
            if report.verified and check.regressions and self._is_strict:
                lost = check.regressions[0]
                raise EquivalenceError(
                    f"{target.title} ran the original, but does not run %{lost.result}: {lost.reason}",
                    f"at {lost.graph} > op {lost.index} {lost.operator}",
                )

    def _refusal_of(self, target: Target) -> Refusal:
        """Return the function that says why ``target`` does not run an operator in the form to be written."""
        return written_refusal(TargetSet((target,), self.targets.is_default), self.format)


def _lost_runtime(check: TargetCheck) -> list[str]:
    """Return the sentence on a runtime that would run the original, and not the result."""
    if check.before or not check.after:
        return []
    kinds = ", ".join(dict.fromkeys(finding.operator for finding in check.after))
    flag = f"--target {check.name} keeps what it runs"
    return [f"{check.title} would run the original, but not this model, because of {kinds}; {flag}"]
