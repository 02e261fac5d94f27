# SPDX-License-Identifier: Apache-2.0
"""Find out whether targets run what legalization writes for an operator.

When a model is written, legalization replaces each operator that the format or a target lacks by other
operators.  So a pass may make an operator that a target lacks, if the target runs what is written instead.
"""

from __future__ import annotations

from collections.abc import Sequence

from circlekit.ir.graph import Model
from circlekit.ir.op import Op
from circlekit.ir.value import Value
from circlekit.passes.engine.legalize import legalize
from circlekit.passes.support.lone_model import can_stand_alone, is_folded, lone_model
from circlekit.rewrite.base import Context
from circlekit.rewrite.target_rules import TargetRules
from circlekit.targets.delegation import Delegation, find_delegation
from circlekit.targets.target import Target
from circlekit.targets.target_choice import OperatorCheck, TargetSet, choose_targets

MAX_COMPARED_BYTES = 1 << 10
"""The data of a larger constant are not compared: the constant is equal only to itself."""


def _key(op: Op) -> object:
    """Return a key for ``op``; operators with equal keys are legalized in the same way."""
    types = [
        v and (v.dtype, v.shape, v.quantization, v.is_variable, repr(v.extra))
        for v in (*op.inputs, *op.results)
    ]
    same = tuple(map(op.inputs.index, op.inputs))  # tells f(x, x) from f(x, y)
    return type(op), repr(op.attribute_items()), same, *types, *map(_content, op.inputs)


def _content(operand: Value | None) -> object:
    """Return the bytes of a small constant, or a large constant itself; else whether ``is_folded``."""
    if operand is None or operand.data is None:
        return operand is not None and is_folded(operand)
    is_compared = operand.data.nbytes <= MAX_COMPARED_BYTES and not operand.data.dtype.hasobject
    return operand.data.tobytes() if is_compared else operand


class _WrittenForms:
    """Tells for a single operator which operators are written instead, after legalization for ``targets``.

    Legalization is slow, so of operators with equal keys (``_key``) only the first is legalized.
    """

    def __init__(self, targets: TargetSet, format: str) -> None:
        self.targets, self.format = targets, format
        self._made: dict[object, list[Op]] = {}

    def ops(self, op: Op, check: OperatorCheck) -> list[Op] | None:
        """Return the operators that legalization writes instead of ``op``, which ``check`` refuses.

        Return None if ``check`` refuses one of the written operators, too.  Also return None if ``op`` calls
        a graph or has no declaration: it cannot be legalized on its own.  An operand that constant folding
        will compute counts as constant.
        """
        if not can_stand_alone(op):
            return None
        key = _key(op)
        if key not in self._made:
            model = legalize(lone_model(op), self.format, targets=self.targets.legalized, is_excerpt=True)
            self._made[key] = list(model.ops())
        made = self._made[key]
        return made if all(check(op) is None for op in made) else None

    def refusal(self, check: OperatorCheck) -> OperatorCheck:
        """Return a function that says why ``check`` refuses both an operator and what is written for it.

        The function returns None if the operator, or all that is written for it, is accepted.
        """

        def refusal(op: Op) -> str | None:
            sentence = check(op)
            return None if sentence is None or self.ops(op, check) is not None else sentence

        return refusal

    def written(self, op: Op) -> Sequence[Op]:
        """Return the operators that are written for ``op``.

        Return ``op`` itself if the targets run it, or if they do not run what legalization would write.
        """
        check = self.targets.refusal
        return (op,) if check(op) is None else self.ops(op, check) or (op,)


def written_refusal(targets: TargetSet, format: str) -> OperatorCheck:
    """Return a function that says why ``targets`` do not run an operator when it is written as ``format``.

    The function returns None if the targets run the operator, or the operators that legalization writes for
    it.  An operand that constant folding will compute counts as constant.
    """
    return _WrittenForms(targets, format).refusal(targets.refusal)


def written_delegation(model: Model, format: str, target: Target) -> Delegation | None:
    """Return how much of the main graph of ``model`` the delegate of ``target`` runs, in how many partitions.

    First the model is legalized for ``format``.  If the target does not read ``format``, a format that it
    reads is taken instead.  No other pass runs.  Return None if the target has no delegate.
    """
    if not target.delegated:
        return None
    format = format if format in target.formats else min(target.formats)
    return find_delegation(legalize(model, format).main, target)


def rules_for(context: Context) -> TargetRules:
    """Return the target rules in ``context``; if it has none, the rules of its format's default target.

    The default rules are made once for each ``context``: they remember the legalized operators.
    """
    if context.target is None and context.default_rules is None:
        found = rules_of_targets(choose_targets(None, context.format), context.format)
        context.default_rules = found or TargetRules([])
    return context.target or context.default_rules or TargetRules([])


def rules_of_targets(targets: TargetSet, format: str, is_legalized: bool = False) -> TargetRules | None:
    """Return the rules for a model that has to run on all of ``targets`` when it is written as ``format``.

    Return None if there are no targets.
    ``is_legalized``: whether the model is legalized already.  Then the targets have to run each operator as
    it is: passes do not make operators again that legalization has replaced.
    """
    if not targets:
        return None
    names = tuple(target.name for target in targets)
    run_bytes = max(target.run_bytes for target in targets)
    if is_legalized:
        return TargetRules(targets.checks, names, targets.is_default, run_bytes=run_bytes)
    forms = _WrittenForms(targets, format)
    checks = [forms.refusal(check) for check in targets.checks]
    return TargetRules(checks, names, targets.is_default, run_bytes=run_bytes, written=forms.written)
