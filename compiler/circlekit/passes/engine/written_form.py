# SPDX-License-Identifier: Apache-2.0
"""Whether targets run an operator in the form in which legalization writes it."""

from __future__ import annotations

import numpy as np

from circlekit.ir.graph import Graph, Model
from circlekit.ir.op import Op, OpaqueOp
from circlekit.ir.value import Value
from circlekit.passes.engine.legalize import legalize
from circlekit.rewrite.base import TargetRules
from circlekit.targets.delegation import Delegation, find_delegation
from circlekit.targets.findings import Refusal, TargetSet
from circlekit.targets.operator_form import form_of
from circlekit.targets.target import Target


def written_refusal(targets: TargetSet, format: str, check: Refusal | None = None) -> Refusal:
    """Return a function that says why ``targets`` do not take an operator when it is written as ``format``.

    The function returns None for an operator that they take, or for which legalization writes operators that
    they take; an operand that constant folding will compute counts as constant.  ``check``: one of
    ``targets.checks``, by default the first: whether they run it.
    """
    check = check or targets.refusal
    runs: dict[object, bool] = {}  # legalization is slow: once for operators that are alike

    def refusal(op: Op) -> str | None:
        sentence = check(op)
        if sentence is None or isinstance(op, OpaqueOp) or op.called_graphs():
            return sentence
        shapes = tuple(value and value.shape for value in (*op.inputs, *op.results))
        constant = tuple(value is None or _is_folded(value) for value in op.inputs)
        key = (sentence, form_of(op), shapes, constant, repr(op.attribute_items()))
        if key not in runs:
            written = legalize(lone_model(op), format, targets=targets.legalized, is_excerpt=True)
            runs[key] = all(check(made) is None for made in written.ops())
        return None if runs[key] else sentence

    return refusal


def written_delegation(model: Model, format: str, target: Target) -> Delegation | None:
    """Return what the delegate of ``target`` runs of the main graph of ``model``, written without passes.

    ``format``: what is written, if the target reads that.  Return None if there is no delegate.
    """
    if not target.delegated:
        return None
    format = format if format in target.formats else min(target.formats)
    return find_delegation(legalize(model, format).main, target)


def rules_of_targets(targets: TargetSet, format: str) -> TargetRules | None:
    """Return the rules for a model that has to run on all of ``targets`` when it is written as ``format``.

    Return None if there are no targets.
    """
    if not targets:
        return None
    checks = [written_refusal(targets, format, check) for check in targets.checks]
    names = tuple(target.name for target in targets)
    run_bytes = max(target.run_bytes for target in targets)
    return TargetRules(checks, names, targets.is_default, run_bytes=run_bytes)


def lone_model(op: Op) -> Model:
    """Return a model of a copy of ``op``, whose inputs are its operands that are not constant."""
    inputs = {value: _copy(value) for value in op.inputs if value is not None}
    for value, copy in inputs.items():
        if not value.is_const and value.is_static and _is_folded(value) and value.dtype.numpy is not None:
            copy.data = np.zeros(value.static_shape, value.dtype.numpy)
    results = [_copy(value) for value in op.results]
    copies = [None if value is None else inputs[value] for value in op.inputs]
    graph = Graph("main", [copy for copy in inputs.values() if not copy.is_const], results)
    graph.append(type(op)(*copies, results=results, **op.attribute_values))
    return Model([graph])


def _is_folded(value: Value, depth: int = 4) -> bool:
    """Return whether ``value`` is constant, or at most ``depth`` operators compute it from constants."""
    op = value.producer
    if value.is_const or op is None or not depth:
        return value.is_const
    return op.pure and all(v is None or _is_folded(v, depth - 1) for v in op.inputs)


def _copy(value: Value) -> Value:
    copy = Value(value.name, value.dtype, value.shape, value.data, value.quantization)
    copy.extra = dict(value.extra)
    return copy
