# SPDX-License-Identifier: Apache-2.0
"""Explain why passes did not rewrite a model, or an operator of it.

A pass with a picture refuses an operator if the graph has only a part of the picture there, or if a condition
does not hold.  The refusal is a near miss if at least two operators of the picture were found; if the picture
has only one, this one is enough.  The last operator found may differ from the picture, except in its class.
All other refusals by a picture are partial matches.  A pass without a picture decides itself what is a near
miss.  Partial matches are recorded only if ``Context.partial_matches`` asks for them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from typing import Any

from circlekit.errors import CirclekitError, ModelError, check_name, did_you_mean, shown
from circlekit.ir.clone import clone
from circlekit.ir.graph import Model
from circlekit.ir.op import REGISTRY, Op, OpaqueOp
from circlekit.ir.resources.progress import progress
from circlekit.ir.text.lines import print_op
from circlekit.ir.text.operator_names import suggest_operator
from circlekit.passes.engine.describe import rules_of
from circlekit.passes.engine.explanation import Explanation, OpExplanation
from circlekit.passes.engine.pass_manager import run_passes
from circlekit.passes.engine.registry import every_pass, find_pass
from circlekit.passes.engine.run_for_target import run_for_target, target_obstacle
from circlekit.passes.engine.written_form import rules_of_targets
from circlekit.passes.pipelines import in_order
from circlekit.rewrite.base import Context, Pass, Refusal
from circlekit.targets.target_choice import NO_TARGETS, TargetSet

MAX_PARTIAL_MATCHES = 8
"""At most this many partial matches are returned for a pass: there may be one for each operator."""

ALL_PASSES = "all"
"""The name with which a user asks for the explanations of all passes."""


def explain_passes(
    model: Model,
    passes: str,
    format: str,
    settings: Mapping[str, Any] | None = None,
    changes: Mapping[str, int] | None = None,
    targets: TargetSet = NO_TARGETS,
) -> list[Explanation]:
    """Return the explanation of the pass ``passes``, or of every pass if ``passes`` is ALL_PASSES.

    The explanation with the nearest miss comes first.  Partial matches are looked for only if one pass is
    explained.  ``model``: the optimized model, which stays as it is.  ``format``: the format in which the
    model will be written.  ``settings``: {option of a pass: the user's value}.  ``changes``: {name of a pass:
    the number of its rewrites when the model was optimized}.  ``targets``: what the model has to run on.
    Raise RewriteError for an unknown pass, and the error of a pass that fails; with ALL_PASSES, such an error
    is a remark instead.
    """
    check_name("a pass", passes)
    names = in_order(every_pass()) if passes == ALL_PASSES else [find_pass(passes).name]
    found = []
    copy: Model | None = None
    progress().begin("explaining", len(names), "passes")
    for name in names:
        copy = copy or clone(model)
        rewrote = (changes or {}).get(name, 0)
        context = Context(format, settings=settings or {}, target=rules_of_targets(targets, format))
        try:
            explanation = _explain(copy, name, context, rewrote, len(names) == 1)
        except CirclekitError as error:  # one pass does not keep the others from their explanations
            if passes != ALL_PASSES:
                raise
            remark = f"it fails: {error.message}"
            explanation = Explanation(name, rewrote, remarks=[remark], is_prevented=True)
            copy = None
        if explanation.would_rewrite:
            copy = None  # the pass has rewritten it; the next pass gets a new copy of ``model``
        found.append(explanation)
        progress().advance(1, name)
    return sorted(found, key=lambda explanation: explanation.distance)


def explain_pass(
    model: Model, name: str, format: str, settings: Mapping[str, Any] | None = None
) -> list[Refusal]:
    """Run the pass ``name`` on a copy of ``model`` and return its remaining refusals, nearest miss first.

    Of the refusals of an operator, only the one whose match got furthest (highest progress) is returned.  If
    the pass changes nothing and has no near miss, return instead the partial matches with the highest
    progress, at most MAX_PARTIAL_MATCHES.  If there are none, because the model has no operator of the kind
    that computes the result of a picture, return one refusal that says so.  Its ``op`` is the producer of an
    output, because a refusal must name an operator.
    Raise RewriteError for an unknown pass, and the error of a pass that fails.
    """
    return _explain(clone(model), name, Context(format, settings=settings or {})).refusals


def _explain(copy: Model, name: str, context: Context, rewrote: int = 0, partial: bool = True) -> Explanation:
    """Run the pass ``name`` on the model ``copy`` and return its explanation.

    ``rewrote``: the number of rewrites of the pass when the model was optimized.  ``partial``: whether to
    look for partial matches.  This is done only if ``rewrote`` is 0, and if the pass now makes no change and
    has no near miss.
    """
    explained = find_pass(name)
    changes = sum(record.changes for record in run_passes(copy, [name], replace(context, refusals=[])))
    refusals: list[Refusal] = []
    context = replace(context, refusals=refusals)
    run_for_target(explained(), copy, context)  # changes nothing more, but fills ``refusals``
    if partial and not refusals and not changes and not rewrote:
        run_for_target(explained(), copy, replace(context, partial_matches=True))
        best = max((refusal.progress for refusal in refusals), default=0)
        refusals = [refusal for refusal in refusals if refusal.progress == best][:MAX_PARTIAL_MATCHES]
        refusals = refusals or _missing_root(copy, explained)
    furthest = (_with_text(refusal, name) for refusal in _furthest(refusals))
    nearest = sorted(furthest, key=lambda refusal: refusal.distance)
    remarks = list(_remarks(explained, context, bool(nearest or changes or rewrote)))
    return Explanation(name, rewrote, changes, nearest, remarks, bool(target_obstacle(name, context)))


def _remarks(item: type[Pass], context: Context, is_explained: bool) -> Iterable[str]:
    """Yield reasons, other than refusals, why the pass did not do more."""
    obstacle = target_obstacle(item.name, context)
    if obstacle:
        yield obstacle
    if context.format not in item.formats:
        yield f"it is for {' and '.join(sorted(item.formats))} only: pipelines omit it for {context.format}"
    # a pass with an option of its own name does nothing without this option
    needed = next((option for option in item.options if option.name == item.name), None)
    if needed is not None and needed.name not in context.settings:
        yield f"it does nothing without --{needed.name} {needed.metavar}".rstrip()
    elif not is_explained and not obstacle and not rules_of(item):
        yield "the reason is not known: the pass has no picture, and its code recorded no refusal"


def _missing_root(model: Model, item: type[Pass]) -> list[Refusal]:
    """Return a refusal if no operator of the model can be the root of a picture of the pass; else [].

    The root of a picture is the operator that computes its result.  A refusal must name an operator, although
    none is of the right kind; so it names the producer of the first output that an operator computes.
    """
    roots = [rule.definition().before.root for rule in rules_of(item)]
    outputs = [value for value in model.main.outputs if value.producer is not None]
    if not roots or not outputs or any(root.fits(op) for root in roots for op in model.ops()):
        return []
    kinds = " or ".join(dict.fromkeys(root.kind_names() for root in roots[:MAX_PARTIAL_MATCHES]))
    sentence = f"%{outputs[0].name}: the model has no {kinds}"
    op = outputs[0].producer
    return [] if op is None else [Refusal(item.name, model.main.name, op, sentence, is_partial=True)]


def _furthest(refusals: list[Refusal]) -> list[Refusal]:
    """Return, for each operator, the refusal whose match got furthest; if several did, the first of them."""
    best: dict[Op, Refusal] = {}
    for refusal in refusals:
        known = best.setdefault(refusal.op, refusal)
        if refusal.progress > known.progress:
            best[refusal.op] = refusal
    return list(best.values())


# -- one operator ------------------------------------------------------------------------------


def explain_op(
    model: Model,
    which: str,
    format: str,
    settings: Mapping[str, Any] | None = None,
    removed: Collection[str] = (),
    targets: TargetSet = NO_TARGETS,
) -> list[OpExplanation]:
    """Return, for each operator that ``which`` names, the passes that would rewrite it, and the refusals.

    ``which``: the name of a result (``%name`` or ``name``), a code of the schema or of a custom operator, or
    the name of an operator's class.  ``removed``: names of results, and kinds, of operators that passes may
    have removed.  A pass that fails is left out.
    If the model has no such operator, return [] for a name in ``removed`` or a declared kind of operator, and
    raise ModelError for any other name.
    """
    chosen = find_ops(model, which, removed)
    if not chosen:
        return []
    explained = {op: OpExplanation(op.graph.name if op.graph else "", print_op(op)) for op in chosen}
    copy: Model | None = None
    names = in_order(every_pass())
    progress().begin("explaining", len(names), "passes")
    for name in names:
        if copy is None:
            copy = clone(model)
            copy_of = dict(zip(model.ops(), copy.ops(), strict=True))
        context = Context(format, settings=settings or {}, target=rules_of_targets(targets, format))
        try:
            changes, refusals = _refusals_of(find_pass(name), copy, context)
        except CirclekitError:  # a pass that fails rewrites nothing
            copy = None
            continue
        finally:
            progress().advance(1, name)
        nearest = _nearest({copy_of[op] for op in explained}, refusals)
        for op, explanation in explained.items():
            if copy_of[op].graph is None:  # the pass has replaced or removed it
                explanation.passes.append(name)
            elif copy_of[op] in nearest:
                explanation.refusals.append(_with_text(nearest[copy_of[op]], name))
        copy = None if changes else copy
    for explanation in explained.values():
        explanation.refusals.sort(key=lambda refusal: refusal.distance)
    return list(explained.values())


def find_ops(model: Model, which: str, removed: Collection[str]) -> list[Op]:
    """Return the operators that ``which`` names; see ``explain_op``."""
    check_name("an operator or result", which)
    words = {which, f"%{which}", *([] if which.startswith("%") else [which.upper()])}  # upper case: a code
    found = [op for op in model.ops() if words & names_of_op(op)]
    if not found and not words & {*removed, *REGISTRY, *(kind.__name__ for kind in REGISTRY.values())}:
        known = sorted(set[str]().union(*map(names_of_op, model.ops())))
        similar = did_you_mean(which, known, 3) or suggest_operator(which, REGISTRY)
        raise ModelError(f"the model has no operator or result {shown(which)}{similar}")
    return found


def names_of_op(op: Op) -> set[str]:
    """Return code, class name and custom code of ``op``, and the names of its results, each with ``%``."""
    custom = [op.custom_code] if isinstance(op, OpaqueOp) and op.custom_code else []
    return {op.code, type(op).__name__, *custom, *(f"%{value.name}" for value in op.results)}


def _refusals_of(item: type[Pass], model: Model, context: Context) -> tuple[int, list[Refusal]]:
    """Run a pass, then again for partial matches; return the number of its changes, and all refusals."""
    refusals: list[Refusal] = []
    context = replace(context, refusals=refusals)
    changes = run_for_target(item(), model, context)
    changes += run_for_target(item(), model, replace(context, partial_matches=True))
    return changes, refusals


def _nearest(ops: Collection[Op], refusals: Iterable[Refusal]) -> dict[Op, Refusal]:
    """Return, for each of ``ops``, the nearest refusal that is about this operator, if there is any.

    A refusal is about the following operators: ``refusal.op``, at which the match starts; the other operators
    that matched; and, if the sentence begins with a result, as in "%y: act is RELU", the producer of %y.
    """
    by_name = {f"%{value.name}": op for op in ops for value in op.results}
    nearest: dict[Op, Refusal] = {}
    for refusal in refusals:
        obstacle = by_name.get(refusal.sentence.partition(": ")[0], refusal.op)
        for op in {refusal.op, *refusal.ops, obstacle}:
            if op in ops and (op not in nearest or refusal.distance < nearest[op].distance):
                nearest[op] = refusal
    return nearest


def _with_text(refusal: Refusal, pass_name: str) -> Refusal:
    """Return ``refusal`` with the text of its operator, as a refusal of the pass ``pass_name``."""
    return replace(refusal, pass_name=pass_name, text=refusal.text or print_op(refusal.op))
