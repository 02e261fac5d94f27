# SPDX-License-Identifier: Apache-2.0
"""Find the changes between two models: what each pass rewrote, and which operators are kept or changed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from circlekit.errors import names_in
from circlekit.ir.graph import Model
from circlekit.ir.op import Op
from circlekit.ir.resources.progress import progress
from circlekit.ir.text.lines import print_op
from circlekit.passes.engine.pass_manager import run_passes
from circlekit.passes.engine.registry import select_passes
from circlekit.passes.engine.written_form import rules_of_targets
from circlekit.rewrite.base import Context
from circlekit.targets.target_choice import choose_targets


@dataclass
class PassChanges:
    """The changes that one pass made.

    ``rewrites``: the number of changes that the pass counted.  ``removed``, ``added``: the operators that are
    gone and those that are new, as text.  If the text of an operator changed, for example because it reads
    another value, the old text is in ``removed`` and the new text in ``added``.
    """

    name: str
    rewrites: int = 0
    removed: list[str] = field(default_factory=list)
    added: list[str] = field(default_factory=list)


OpName = tuple[str, str]
"""Identifies an operator: (name of its graph, name of its first result)."""


@dataclass
class PassTrace:
    """The changes that passes made.

    ``passes``: the passes that changed something, in the order of their first change.
    ``makers``: {operator that a pass made or changed: the last such pass}.
    ``removers``: {operator of the original model that a pass removed or changed: the first such pass}.
    """

    passes: list[PassChanges]
    makers: dict[OpName, str]
    removers: dict[OpName, str]


def trace_passes(model: Model, passes: Sequence[str]) -> PassTrace:
    """Run passes and pipelines on ``model``, as ``optimize`` does, and record what each of them changed.

    Raise RewriteError for a name that is neither a pass nor a pipeline.
    """
    changed: dict[str, PassChanges] = {}
    makers: dict[OpName, str] = {}
    removers: dict[OpName, str] = {}
    original = {op_name(op) for op in model.ops()}
    texts = _texts(model)

    def record(name: str, changes: int) -> None:
        """Compare the model with the texts from before the pass; the driver calls this after each pass."""
        nonlocal texts
        if not changes:
            return
        latest = _texts(model)
        entry = changed.setdefault(name, PassChanges(name))
        entry.rewrites += changes
        old = {op: text for op, text in texts.items() if latest.get(op) != text}
        new = {op: text for op, text in latest.items() if texts.get(op) != text}
        entry.removed += old.values()
        entry.added += new.values()
        makers.update(dict.fromkeys(new, name))
        removers.update({op: name for op in old if op in original and op not in removers})
        texts = latest

    selected = select_passes(passes, format=model.format)
    targets = rules_of_targets(choose_targets(None, model.format), model.format)
    context = Context(model.format, exact=True, named=names_in("a pass", passes), target=targets)
    run_passes(model, selected, context, record, lambda name: progress().begin(f"running {name}"))
    return PassTrace(list(changed.values()), makers, removers)


def op_name(op: Op) -> OpName:
    """Return the names by which ``op`` is identified.

    Without results, the second one is its code: operators of one code without results are taken for one.
    """
    return op.graph.name if op.graph is not None else "", op.results[0].name if op.results else op.code


def _texts(model: Model) -> dict[OpName, str]:
    """Return the text of each operator."""
    return {op_name(op): print_op(op) for op in model.ops()}


@dataclass
class Structure:
    """The operators of two models, matched by the index of the graph and the name of the first result.

    ``state``: for each operator of both models, ``kept``, ``changed``, ``removed`` or ``added``.
    ``kept``, ``removed``, ``added``: texts of operators.  ``changed``: (text before, text after).
    """

    state: dict[Op, str]
    kept: list[str] = field(default_factory=list)
    changed: list[tuple[str, str]] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)
    added: list[str] = field(default_factory=list)


def compare_structure(before: Model, after: Model) -> Structure:
    """Return which operators were kept, changed, removed and added."""
    old, new = _by_name(before), _by_name(after)
    structure = Structure({})
    for name, op in old.items():
        twin = new.get(name)
        if twin is None:
            structure.removed.append(print_op(op))
            structure.state[op] = "removed"
            continue
        texts = print_op(op), print_op(twin)
        state = "kept" if texts[0] == texts[1] else "changed"
        structure.state[op] = structure.state[twin] = state
        if state == "kept":
            structure.kept.append(texts[0])
        else:
            structure.changed.append(texts)
    for name, op in new.items():
        if name not in old:
            structure.added.append(print_op(op))
            structure.state[op] = "added"
    return structure


def _by_name(model: Model) -> dict[tuple[int, str], Op]:
    """Return operators by (index of their graph, name of their first result); a repeated name gets a "'".

    The key has the index of the graph, because its name may differ in the two models.
    """
    ops: dict[tuple[int, str], Op] = {}
    for number, graph in enumerate(model.graphs):
        for op in graph:
            name = op.results[0].name if op.results else f"{op.code} without result"
            while (number, name) in ops:
                name += "'"
            ops[number, name] = op
    return ops
