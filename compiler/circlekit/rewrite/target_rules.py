# SPDX-License-Identifier: Apache-2.0
"""The limits that the target of an optimization sets for rewrites."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from circlekit.ir.op import Op
    from circlekit.ir.snapshot import Snapshot


def _itself(op: Op) -> Sequence[Op]:
    """Return ``op`` alone: the default of ``TargetRules.written``, by which no operator is replaced."""
    return (op,)


@dataclass
class TargetRules:
    """What the target of an optimization allows.

    A runtime takes the operators that it can run; a delegate takes those that it runs itself.
    ``checks``: functions that return why the target does not take an operator; None if it takes the operator.
    The first function checks the runtimes; if there is a delegate, a second function checks the delegate.
    ``names``: the names of the runtimes.
    ``is_default``: whether the user named no target, so that this is the default one.  Then passes with
    ``makes_special_forms`` may make operators that the target cannot run.
    ``accepted``: the names of the first results of the operators that ``Context.accepts`` has accepted in the
    current run of a pass.
    ``barred``: {(name of a pass, name of the first result of an operator): why the pass must not rewrite it}.
    The reason is that an earlier run of the pass rewrote the operator, made an operator that the target does
    not take, and was undone.  "" as the second name stands for all operators.
    ``snapshot``: the state of the model before the current run of a pass, to undo the run.
    ``run_bytes``: the fixed cost of copying one run of contiguous elements: the number of bytes that could be
    copied in the same time.
    ``written``: a function from an operator to the operators in the written file: the operator itself or, if
    the runtime lacks the operator, the operators by which legalization replaces it.
    """

    checks: Sequence[Callable[[Op], str | None]]
    names: tuple[str, ...] = ()
    is_default: bool = False
    accepted: list[str] = field(default_factory=list)
    barred: dict[tuple[str, str], str] = field(default_factory=dict)
    snapshot: Snapshot | None = None
    run_bytes: int = 0
    written: Callable[[Op], Sequence[Op]] = _itself

    def refusal(self, old: Iterable[Op], new: Iterable[Op]) -> str | None:
        """Return why the target does not take the operators ``new``, which replace ``old``, or None.

        A refusal by one of ``checks`` counts only if the same check takes all operators of ``old``.
        """
        before, after = list(old), list(new)
        for check in self.checks:
            sentence = next(filter(None, map(check, after)), None)
            if sentence is not None and not any(map(check, before)):
                return sentence
        return None

    def growth_refusal(self, old: Iterable[Op], new: Iterable[Op]) -> str | None:
        """Return why ``new`` would cost more than ``old``, which it replaces, in the written file.

        That is, the target lacks an operator of ``new``, and legalization would then write more operators for
        ``new`` than for ``old``.  Return None otherwise, and for the default target, for which the model is
        not legalized.
        """
        if self.is_default:
            return None
        after = [(op, len(self.written(op))) for op in new]
        lacking = next((op for op, count in after if count > 1), None)
        if lacking is None:
            return None
        count, before = sum(count for _, count in after), sum(len(self.written(op)) for op in old)
        if count <= before:
            return None
        return f"a target has no {lacking.code}: {count} operators would be written instead of {before}"
