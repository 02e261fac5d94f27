# SPDX-License-Identifier: Apache-2.0
"""Choose targets by name, and find the operators of a model that they cannot run."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from typing import Any

from circlekit.ir.graph import Model
from circlekit.ir.op import Op, OpaqueOp
from circlekit.targets.ignored_attributes import tolerated
from circlekit.targets.target import DEFAULT_TARGETS, Target, find_target, target_names

NO_TARGET = "none"
"""The name that switches the check off."""

TargetChoice = str | Target | Iterable[str | Target] | None
"""What users give: names separated by commas, a Target, or a list of names and Targets; None: the default."""


Refusal = Callable[[Op], str | None]
"""A function that returns why an operator cannot run, as a sentence; None if it can."""


@dataclass(frozen=True)
class TargetSet:
    """Targets that all have to run a model.  ``is_default``: whether the user named none."""

    targets: tuple[Target, ...] = ()
    is_default: bool = False

    def __iter__(self) -> Iterator[Target]:
        return iter(self.targets)

    def __bool__(self) -> bool:
        return bool(self.targets)

    def refusal(self, op: Op) -> str | None:
        """Return why one of the targets cannot run ``op``, as a sentence; None if all of them can."""
        return next(filter(None, (target.refusal(op) for target in self.targets)), None)

    def delegate_refusal(self, op: Op) -> str | None:
        """Return why the first delegate of the targets that does not take ``op`` does not; None if all do."""
        return next(filter(None, (target.delegate_refusal(op) for target in self.targets)), None)

    @property
    def checks(self) -> tuple[Refusal, ...]:
        """Whether operators run, and, if one of the targets has a delegate, whether that takes them."""
        has_delegate = any(target.delegated for target in self.targets)
        return (self.refusal, self.delegate_refusal) if has_delegate else (self.refusal,)

    @property
    def legalized(self) -> tuple[Target, ...] | None:
        """The targets that the user named, for which the model is legalized; None if there are none."""
        return None if self.is_default or not self.targets else self.targets


NO_TARGETS = TargetSet()


def choose_targets(choice: TargetChoice, format: str) -> TargetSet:
    """Return the chosen targets; the default is that of ``format`` if there is one with a complete table.

    ``NO_TARGET`` is ignored.  Raise UnsupportedError for any other unknown name.
    """
    if choice is None:
        name = DEFAULT_TARGETS.get(format)
        default = find_target(name) if name in target_names() else None
        return TargetSet((default,) if default is not None and default.is_complete else (), is_default=True)
    if isinstance(choice, Target):
        return TargetSet((choice,))
    if isinstance(choice, str):
        choice = [name.strip() for name in choice.split(",")]
    given = [item for item in choice if item != NO_TARGET]
    found = [item if isinstance(item, Target) else find_target(item) for item in given]
    return TargetSet(tuple(dict.fromkeys(found)))


@dataclass(frozen=True)
class Finding:
    """An operator that a target cannot run.

    ``target``: its name.  ``graph`` and ``index``: where the operator is, counted from 0 in its graph.
    ``operator``: its code, or its custom code.  ``result``: the name of its first result.  ``reason``: a
    sentence.  ``remedy``: what would help, "" if nothing is known.
    """

    target: str
    graph: str
    index: int
    operator: str
    result: str
    reason: str
    remedy: str = ""

    @property
    def place(self) -> tuple[str, str]:
        """Graph and result; passes keep it when they change the operator."""
        return self.graph, self.result

    def document(self) -> dict[str, Any]:
        """Return the finding as JSON types."""
        return asdict(self)

    def __str__(self) -> str:
        remedy = f"; {self.remedy}" if self.remedy else ""
        return f"{self.graph} > op {self.index} {self.operator} > %{self.result}: {self.reason}{remedy}"


def find_unsupported(model: Model, target: Target, refusal: Refusal | None = None) -> list[Finding]:
    """Return every operator of ``model`` that ``target`` cannot run.

    Operators that it runs in another form, which makes no difference in this model, do not count.
    ``refusal``: used instead of ``target.refusal``.
    """
    refusal = refusal or target.refusal
    fine = {op for graph in model.graphs for op in tolerated(graph, target)}
    return [
        Finding(target.name, graph.name, index, code_of(op), op.results[0].name if op.results else "", reason)
        for graph in model.graphs
        for index, op in enumerate(graph.ops)
        if op not in fine and (reason := refusal(op)) is not None
    ]


def code_of(op: Op) -> str:
    """Return the code of an operator, or its custom code."""
    return (isinstance(op, OpaqueOp) and op.custom_code) or op.code
