# SPDX-License-Identifier: Apache-2.0
"""Rules: conditions on a model after some passes, and the outcome of checking one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, Protocol

from circlekit.errors import ParseError
from circlekit.ir.graph import Model
from circlekit.recipes.model_file import ModelFile


@dataclass
class Subject:
    """The model that rules are checked on.

    path: The file that was written.
    model: The model read back from it.
    changes: Number of changes that the passes made.
    refusals: Returns why the passes did not rewrite their near misses.
    """

    path: str
    model: Model
    changes: int = 0
    refusals: Callable[[], list[str]] = list

    @cached_property
    def facts(self) -> ModelFile:
        return ModelFile(self.path)


class Outcome(NamedTuple):
    """``place``: file, line and column of the rule.  ``found``: the expected and the actual value."""

    place: str
    rule: str
    holds: bool
    found: str

    def __str__(self) -> str:
        return f"{self.place}: {self.rule}: {self.found}"


class Rule(Protocol):
    """One condition of either language."""

    def check(self, subject: Subject) -> Outcome:
        """Check the rule; CirclekitError if that is impossible."""


def error_at(label: str, text: str, at: int, message: str) -> ParseError:
    """Return an error with file, line, column and a caret, for texts that the lexer does not read."""
    line, column = line_and_column(text, at)
    shown = text.split("\n")[line - 1]
    return ParseError(f"{label}:{line}:{column}: {message}", shown, " " * (column - 1) + "^")


def line_and_column(text: str, at: int) -> tuple[int, int]:
    """Return line and column, both from 1."""
    before = text[:at]
    return before.count("\n") + 1, at - before.rfind("\n")
