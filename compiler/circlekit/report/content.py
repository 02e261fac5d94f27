# SPDX-License-Identifier: Apache-2.0
"""Collect the content of the report: models with their figures, changes, and differences of values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from circlekit.equivalence.reference_runs import Records
from circlekit.io.write.save import encoded
from circlekit.ir.clone import clone
from circlekit.ir.graph import Model
from circlekit.ir.op import Op
from circlekit.ir.resources.progress import progress
from circlekit.passes.engine.legalize import legalize
from circlekit.passes.engine.model_summary import Summary, summarize
from circlekit.report.model_changes import PassTrace, Structure, compare_structure, trace_passes
from circlekit.report.value_comparison import ValueComparison, compare_values
from circlekit.targets.cost import OperatorCost, operator_cost
from circlekit.targets.delegation import find_delegation
from circlekit.targets.memory_plan import MemoryPlan, plan_memory
from circlekit.targets.planners import default_planner
from circlekit.targets.target_choice import TargetChoice, choose_targets
from circlekit.targets.unsupported import find_unsupported


@dataclass
class Source:
    """A model in the report.

    ``path``: the path of its file, followed by the passes that ran on it, if any.
    ``file_size``: the size of the model as a file, in bytes; None: unknown, because there is no file.
    """

    path: str
    model: Model
    file_size: int | None = None


@dataclass
class Side:
    """One model with its figures.

    ``title``: ``before`` or ``after``; empty if there is only one model.  ``summary``: its size and its
    interface.  ``arena``: the memory plan of the main graph, for activations and scratch buffers, by the
    planner of the format's default target.  ``costs``: the cost of each operator of all graphs.
    """

    title: str
    source: Source
    summary: Summary
    arena: MemoryPlan
    costs: dict[Op, OperatorCost] = field(default_factory=dict)

    @staticmethod
    def of(title: str, source: Source) -> Side:
        """Compute the figures of a model."""
        model = source.model
        costs = {op: operator_cost(op) for op in model.ops()}
        arena = plan_memory(model.main, default_planner(model.format))
        return Side(title, source, summarize(model, source.file_size), arena, costs)


@dataclass
class Content:
    """The content of the page.

    ``sides``: the only model, or the first and the second model.
    ``trace``: what each pass changed; None if the report ran no passes.
    ``structure``: which operators changed; None for one model.
    ``values``: the comparison of the values of the two models, or the reason why it failed; None for one
    model, or if no comparison was wanted.
    ``findings``: sentences about the last model: operators that a target cannot run, and what its delegate
    runs.
    """

    sides: list[Side]
    trace: PassTrace | None = None
    structure: Structure | None = None
    values: ValueComparison | None = None
    findings: Sequence[str] = ()


def collect(
    before: Source,
    after: Source | None = None,
    passes: Sequence[str] = (),
    records: Records | None = None,
    with_values: bool = True,
    target: TargetChoice = None,
) -> Content:
    """Compute the content of a report.

    ``before``: the first or only model, which is not changed.  ``after``: the second model.
    ``passes``: names of passes and pipelines that turn a copy of the first model into the second; ignored
    if ``after`` is given.
    ``records``: the inputs on which values are compared; None: seeded inputs.
    ``with_values``: whether to run the two models, if there are two, and compare their values.
    ``target``: names of runtimes; the report lists the operators of the last model that they cannot run.
    None: the default target of the model's format.

    Raise RewriteError for an unknown name in ``passes``.  Raise UnsupportedError for an unknown target, or if
    the passes leave an operator that the format lacks; ModelError if ``target`` is not a TargetChoice.
    """
    trace = None
    if after is None and passes:
        model = clone(before.model)
        trace = trace_passes(model, passes)
        result = legalize(model, model.format)
        file = encoded(result, model.format)
        after = Source(f"{before.path} after {', '.join(passes)}", result, file.size)
    if after is None:
        return Content([Side.of("", before)], findings=_findings(before.model, target))
    progress().begin("comparing the models")
    content = Content([Side.of("before", before), Side.of("after", after)], trace)
    content.findings = _findings(after.model, target)
    content.structure = compare_structure(before.model, after.model)
    if with_values:
        content.values = compare_values(before.model, after.model, records)
    return content


def _findings(model: Model, target: TargetChoice) -> list[str]:
    """Return sentences for each target: which operators it cannot run, and what its delegate runs."""
    sentences: list[str] = []
    for runtime in choose_targets(target, model.format):
        sentences += map(str, find_unsupported(model, runtime))
        delegation = find_delegation(model.main, runtime)
        if delegation is not None:
            sentences.append(f"the delegate of {runtime.title} runs {delegation}")
    return sentences
