# SPDX-License-Identifier: Apache-2.0
"""Find remedies for operators that a target cannot run, by trying them on copies of the model.

A Finding is such an operator, or an input or output of the model that the target cannot take.  Its ``place``
has the names of the graph and of the operator's first result, or of the input or output.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace

from circlekit.ir.clone import clone
from circlekit.ir.graph import Model
from circlekit.ir.resources.progress import progress
from circlekit.passes.engine.legalize import legalize
from circlekit.passes.engine.pass_manager import run_passes
from circlekit.passes.engine.registry import all_passes, select_passes
from circlekit.passes.engine.written_form import rules_of_targets
from circlekit.passes.pipelines import PIPELINES, pipeline_passes
from circlekit.rewrite.base import Context
from circlekit.targets.delegation import Delegation, find_delegation
from circlekit.targets.target import Target
from circlekit.targets.target_choice import TargetSet
from circlekit.targets.unsupported import Finding, find_unsupported


def with_remedies(model: Model, target: Target, findings: Sequence[Finding]) -> list[Finding]:
    """Return ``findings`` about ``target``, each with the first remedy after which the finding is gone.

    A finding without such a remedy stays as it is.
    Remedies are tried in this order: writing the model in each format that the target reads, each pipeline,
    each other pass that keeps values and interface.  A remedy must not add unsupported operators of any kind.
    ``model`` stays as it is.
    """
    remedies: dict[tuple[str, str], str] = {}
    for text, changed in _candidates(model, target) if findings else ():
        gone = resolved_places(findings, find_unsupported(changed, target))
        remedies = {**dict.fromkeys(gone, text), **remedies}  # a remedy that was found earlier stays
        if len(remedies) == len(findings):
            break
    return [replace(f, remedy=remedies.get(f.place, f.remedy)) for f in findings]


def resolved_places(before: Sequence[Finding], after: Sequence[Finding]) -> list[tuple[str, str]]:
    """Return the places of the findings in ``before`` that are gone.

    A place that is missing in ``after`` need not be gone: a pass may have renamed the result.  So the missing
    places of one kind of operator count as gone only if the number of findings of this kind fell by exactly
    the number of these places.  If the number rose for any kind, no place counts as gone.
    """
    old, new = (Counter(finding.operator for finding in findings) for findings in (before, after))
    if any(count > old[operator] for operator, count in new.items()):
        return []
    left = {finding.place for finding in after}
    gone = [finding for finding in before if finding.place not in left]
    counts = Counter(finding.operator for finding in gone)
    return [f.place for f in gone if counts[f.operator] == old[f.operator] - new[f.operator]]


def optimized_delegation(model: Model, target: Target) -> Delegation | None:
    """Return how much of ``model`` the delegate of ``target`` (XNNPACK, for example) runs after O1.

    Return None if there is no delegate.  ``model`` stays as it is.
    """
    if not target.delegated:
        return None
    copy = clone(model)
    format = model.format if model.format in target.formats else min(target.formats)
    context = Context(format, exact=True, target=rules_of_targets(TargetSet((target,)), format))
    run_passes(copy, select_passes("O1", format=format), context)
    return find_delegation(legalize(copy, format, targets=[target]).main, target)


def _candidates(model: Model, target: Target) -> Iterator[tuple[str, Model]]:
    """Yield (remedy, changed model): the remedy is a sentence that says what a user can do.

    A pipeline or pass that changes nothing is left out.
    """
    for format in sorted(target.formats, key=lambda format: format != model.format):
        legal = legalize(model, format, targets=[target])
        yield f"circlekit convert --target {target.name} to .{format} replaces it", legal
    format, target_set = model.format, TargetSet((target,))
    optimize = "circlekit optimize --{} --target {} replaces it"
    pipelines = [(optimize.format(name, target.name), name) for name in PIPELINES]
    handled = {name for pipeline in PIPELINES for name in pipeline_passes(pipeline)}
    others = [
        (f"the pass --{name} replaces it", name)
        for name, item in all_passes().items()
        if name not in handled and not item.changes_values and not item.changes_interface
    ]
    copy: Model | None = None
    progress().begin("looking for remedies", len(pipelines) + len(others), "passes")
    for text, name in (*pipelines, *others):
        if copy is None:
            copy = clone(model)
        exact = name in PIPELINES  # a pipeline omits approximate rewrites, and passes for other formats
        context = Context(format, exact=exact, target=rules_of_targets(target_set, format))
        records = run_passes(copy, select_passes(name, format=format if exact else None), context)
        if any(record.changes for record in records):
            yield text, legalize(copy, format, targets=[target])
            copy = None
        progress().advance(1, name)
