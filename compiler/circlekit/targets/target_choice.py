# SPDX-License-Identifier: Apache-2.0
"""Choose targets (runtimes) by name."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from circlekit.errors import ModelError
from circlekit.ir.op import Op
from circlekit.targets.target import DEFAULT_TARGETS, Target, find_target, target_names

NO_TARGET = "none"
"""The name that stands for no target: with it alone, nothing is checked."""

TargetChoice = str | Target | Iterable[str | Target] | None
"""Names separated by commas, a Target, or a list of names and Targets.

None: the default target of the model's format.
"""

OperatorCheck = Callable[[Op], str | None]
"""A function that returns, as a sentence, why an operator cannot run, or why a delegate does not run it.

It returns None if there is nothing to say.
"""


@dataclass(frozen=True)
class TargetSet:
    """The targets that must all be able to run a model.

    ``is_default``: whether the user made no choice, so that the default of the format was taken.
    """

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
        """Return why the delegate of a target does not run ``op``, as a sentence; None if none refuses."""
        return next(filter(None, (target.delegate_refusal(op) for target in self.targets)), None)

    @property
    def checks(self) -> tuple[OperatorCheck, ...]:
        """The functions that examine an operator: ``refusal`` and, with a delegate, ``delegate_refusal``."""
        has_delegate = any(target.delegated for target in self.targets)
        return (self.refusal, self.delegate_refusal) if has_delegate else (self.refusal,)

    @property
    def legalized(self) -> tuple[Target, ...] | None:
        """The targets for which the model is legalized: those that the user named; None if there are none."""
        return None if self.is_default or not self.targets else self.targets


NO_TARGETS = TargetSet()


def choose_targets(choice: TargetChoice, format: str) -> TargetSet:
    """Return the targets that ``choice`` names; the name NO_TARGET adds none.

    None stands for the default target of ``format``, the name of a file format.  Return no target if the
    format has no default, or if the table of the default is not complete (``Target.is_complete``).  A
    complete table says of every operator whether it runs.
    Raise UnsupportedError for an unknown name, ModelError if ``choice`` is not a TargetChoice.
    """
    if choice is None:
        name = DEFAULT_TARGETS.get(format)
        default = find_target(name) if name in target_names() else None
        return TargetSet((default,) if default is not None and default.is_complete else (), is_default=True)
    if isinstance(choice, Target):
        return TargetSet((choice,))
    if isinstance(choice, str):
        choice = [name.strip() for name in choice.split(",")]
    if not isinstance(choice, Iterable):
        raise ModelError(f"expected targets, or their names, got {type(choice).__name__}")
    given = [item for item in choice if not (isinstance(item, str) and item == NO_TARGET)]
    found = [item if isinstance(item, Target) else find_target(item) for item in given]
    return TargetSet(tuple(dict.fromkeys(found)))
