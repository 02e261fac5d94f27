# SPDX-License-Identifier: Apache-2.0
"""Find what the targets cannot run of a model, before and after it is optimized."""

from __future__ import annotations

from circlekit.errors import EquivalenceError
from circlekit.ir.graph import Model
from circlekit.passes.engine.optimization_report import Report, TargetCheck
from circlekit.passes.engine.written_form import written_refusal
from circlekit.targets.findings import Refusal, TargetChoice, TargetSet, choose_targets, find_unsupported
from circlekit.targets.target import Target, find_target, target_names

RUNTIME_OF_DEFAULT = {"luci": "onert"}
"""{default target: runtime that the user may want to use instead, although it was not asked for}."""


class TargetWatch:
    """Examines a model before and after it is optimized.

    ``targets``: what was chosen, or the default for ``format``.  ``others``: runtimes that do not restrict
    the optimization; the report gets a note if one of them could run only the original.  ``named_passes``:
    whether passes were asked for by name, which a default target does not restrict.
    """

    def __init__(self, model: Model, choice: TargetChoice, format: str, named_passes: bool = False) -> None:
        self.format = format
        self._is_strict = choice is not None or not named_passes
        self.targets = choose_targets(choice, format)
        names = [RUNTIME_OF_DEFAULT.get(target.name) for target in self.targets if choice is None]
        self.others = tuple(find_target(name) for name in names if name in target_names())
        watched = (*self.targets, *self.others)
        self._before = {target: find_unsupported(model, target) for target in watched}

    def conclude(self, report: Report, model: Model) -> None:
        """Add to ``report`` what the targets cannot run of the optimized ``model``, as it is written.

        Raise EquivalenceError if the report is verified and a target does not run what it ran before.
        """
        for target, before in self._before.items():
            after = find_unsupported(model, target, self._refusal_of(target))
            check = TargetCheck(target.name, target.title, before, after)
            if target in self.others:
                report.notes += _lost_runtime(check)
                continue
            report.targets.append(check)
            if report.verified and check.regressions and self._is_strict:
                first = check.regressions[0]
                raise EquivalenceError(
                    f"{target.title} ran the original, but does not run %{first.result}: {first.reason}",
                    f"at {first.graph} > op {first.index} {first.operator}",
                )

    def _refusal_of(self, target: Target) -> Refusal:
        """Return why ``target`` does not run an operator, not even as it is written for the targets."""
        return written_refusal(TargetSet((target,), self.targets.is_default), self.format)


def _lost_runtime(check: TargetCheck) -> list[str]:
    """Return the sentence on a runtime that would run the original, and not the result."""
    if check.before or not check.after:
        return []
    kinds = ", ".join(dict.fromkeys(finding.operator for finding in check.after))
    flag = f"--target {check.name} keeps what it runs"
    return [f"{check.title} would run the original, but not this model, because of {kinds}; {flag}"]
