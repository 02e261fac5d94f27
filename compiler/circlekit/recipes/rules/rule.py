# SPDX-License-Identifier: Apache-2.0
"""What a rule is: something that must hold of a model after some passes, and the sentence that says so."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from circlekit.errors import ParseError
from circlekit.ir.graph import Model
from circlekit.recipes.model_file import ModelFile


@dataclass
class Subject:
    """What rules are checked on.

    ``path``: the file that was written.  ``model``: what was read back from it.  ``changes``: how many the
    passes made.  ``refusals``: gives the sentences of the near misses of those passes.
    """

    path: str
    model: Model
    changes: int = 0
    refusals: Callable[[], list[str]] = list

    @cached_property
    def facts(self) -> ModelFile:
        return ModelFile(self.path)


class Outcome(NamedTuple):
    """``place``: file, line and column of the rule.  ``found``: what was, and what was wanted."""

    place: str
    rule: str
    holds: bool
    found: str

    def __str__(self) -> str:
        return f"{self.place}: {self.rule}: {self.found}"


class Rule(ABC):
    """One condition; ``place`` is where it is written."""

    place: str

    @abstractmethod
    def check(self, subject: Subject) -> Outcome:
        """Whether it holds; CirclekitError where that cannot be told."""


def error_at(label: str, text: str, at: int, message: str) -> ParseError:
    """An error with file, line, column and a caret, for texts that are not of our grammar."""
    line, column = line_and_column(text, at)
    shown = text.split("\n")[line - 1]
    return ParseError(f"{label}:{line}:{column}: {message}", shown, " " * (column - 1) + "^")


def line_and_column(text: str, at: int) -> tuple[int, int]:
    """Both from 1."""
    before = text[:at]
    return before.count("\n") + 1, at - before.rfind("\n")
