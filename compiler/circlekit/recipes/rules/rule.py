# SPDX-License-Identifier: Apache-2.0
"""The classes of rules: a rule, the rules of one test, the model that rules check, and a rule as parsed.

A rule says what must hold after passes.  Rules are written in ``.ck`` recipes, such as ``ops(Add: 1)``, or in
ONE's ``test.rule``.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NoReturn

import circlekit.ops  # noqa: F401  # imported to declare the operators
from circlekit.errors import counted, did_you_mean, shown
from circlekit.io.schema import FORMATS, enumeration
from circlekit.ir.graph import Model
from circlekit.ir.op import REGISTRY
from circlekit.ir.text.lexer import Source
from circlekit.ir.text.operator_names import suggest_operator
from circlekit.ir.text.syntax import Arguments, Literal, Symbol, ValueName
from circlekit.recipes.model_file import ModelFile
from circlekit.rewrite.base import Context


@dataclass
class Subject:
    """The model that rules check.

    ``path``: the file that was written after the passes.  ``model``: the model read back from this file.
    ``changes``: the number of changes that the passes made.
    ``refusals``: a function that returns the sentences with which the passes refused operators.
    """

    path: str
    model: Model
    changes: int = 0
    refusals: Callable[[], list[str]] = list

    @cached_property
    def file(self) -> ModelFile:
        """The file at ``path``."""
        return ModelFile(self.path)


Check = Callable[[Subject], Iterable[str]]
"""A function of a subject that yields a sentence for each violation."""


@dataclass(frozen=True)
class Rule:
    """One rule of a ``.ck`` recipe or a ``test.rule``.

    ``place``: file, line and column.  ``text``: the rule as a recipe has it; for a ``test.rule``, its name.
    ``violations``: the function that checks the rule.
    """

    place: str
    text: str
    violations: Check

    def failure(self, subject: Subject) -> str:
        """Return a text with place, rule and violations; "" if the rule holds.

        Raise a CirclekitError if the rule cannot be checked.
        """
        found = "; ".join(self.violations(subject))
        return f"{self.place}: {self.text}: {found}" if found else ""


@dataclass
class RuleBlock:
    """The rules of one test, and the passes after which they must hold: a block ``rules { }``, for example.

    ``passes``: the names of the passes, or their flags, which have ``-`` in place of ``_``.
    ``format``: the format of the result; None: that of the recipe.
    ``tolerance``: the allowed difference of an output relative to its largest magnitude; None: the default.
    ``settings``: {name of a pass option: value}.
    """

    passes: tuple[str, ...] = ()
    format: str | None = None
    tolerance: float | None = None
    rules: list[Rule] = field(default_factory=list)
    settings: dict[str, Any] = field(default_factory=dict)

    @property
    def names(self) -> list[str]:
        """The names of the passes."""
        return [name.replace("-", "_") for name in self.passes]

    def context(self, fmt: str) -> Context:
        """Return a new context for the passes; ``fmt``: the format of the recipe's model."""
        return Context(self.format or fmt, exact=True, named=self.names, settings=self.settings)


class Call:
    """One rule of a ``.ck`` recipe, as parsed: ``name(argument, ..., name: argument, ...)``.

    The methods return the arguments, and raise ParseError at the place of the rule for wrong arguments.
    ``source``: the text of the recipe.  ``node``: the parsed rule.
    """

    def __init__(self, source: Source, node: Arguments) -> None:
        self.source = source
        self.node = node
        self.name = node.name
        self.has_read_names = False  # whether ``named`` or ``some_named`` was called

    @property
    def place(self) -> str:
        """File, line and column of the rule."""
        return self.source.place(self.node.token)

    def fail(self, message: str) -> NoReturn:
        """Raise ParseError at the place of the rule."""
        self.source.fail(message, self.node.token)

    def text(self) -> str:
        """Return the rule as it is written, with one space in place of line breaks and repeated spaces."""
        tokens = self.source.tokens
        start = bisect_left(tokens, self.node.token.at, key=lambda token: token.at)
        depth = 0  # number of open brackets; the rule ends with the bracket that closes its arguments
        for index in range(start + 1, len(tokens)):
            token = tokens[index]
            depth += (token.text in "([{") - (token.text in ")]}") if token.kind == "mark" else 0
            if depth == 0:
                return " ".join(self.source.text[self.node.token.at : token.at + 1].split())
        return self.name

    def positional(self, minimum: int, maximum: int | None = None) -> list[Literal]:
        """Return the arguments without names.

        There must be at least ``minimum`` and at most ``maximum`` of them; None: there is no upper limit.
        """
        arguments = self.node.positional
        if len(arguments) < minimum or (maximum is not None and len(arguments) > maximum):
            span = f"{minimum} or more" if maximum is None else f"{minimum} to {maximum}"
            amount = counted(minimum, "argument") if maximum == minimum else f"{span} arguments"
            # named arguments are not counted
            unnamed = " without a name" if self.node.named or maximum == 0 else ""
            self.fail(f"{self.name}: expected {amount}{unnamed}, got {len(arguments)}")
        return arguments

    def only(self) -> Literal:
        """Return the only argument without a name; there must be exactly one."""
        return self.positional(1, 1)[0]

    def named(self, known: Iterable[str]) -> Mapping[str, Literal]:
        """Return the named arguments, by name; the names must be in ``known``."""
        self.has_read_names = True
        for name in self.node.named:
            if name not in known:
                names = list(known)
                near = did_you_mean(name, names) or (f"; expected one of {', '.join(names)}" if names else "")
                self.fail(f"{self.name} has no argument {name}{near}")
        return self.node.named

    def some_named(self) -> Mapping[str, Literal]:
        """Return the named arguments, by name; there must be at least one, and it may have any name."""
        self.has_read_names = True
        if not self.node.named:
            self.fail(f"{self.name}: expected 1 or more named arguments, got 0")
        return self.node.named

    def words(self) -> list[str]:
        """Return the arguments as texts; they must be words, at least one, and have no names."""
        self.named(())
        return [str(self.expect(item, Symbol, "a name")) for item in self.positional(1)]

    def value(self) -> str:
        """Return ``y`` for the only argument without a name, which must be a value such as ``%y``."""
        return str(self.expect(self.only(), ValueName, "a value (%name)"))

    def expect(self, literal: Literal, kind: type, what: str) -> Any:
        """Return ``literal``, which must be of the class ``kind``; ``what``: the kind as text, for errors."""
        if type(literal) is not kind:
            self.fail(f"{self.name}: expected {what}, got {show(literal)}")
        return literal

    def kind(self, name: str) -> str:
        """Return the code of an operator (CONV_2D); ``name``: the code, or the name of its class (Conv2D)."""
        classes = {cls.__name__: code for code, cls in REGISTRY.items()}
        codes = {n for f in FORMATS for n in enumeration("BuiltinOperator", f).numbers}
        if name in classes:
            return classes[name]
        if name not in codes:
            self.fail(f"no operator is named {name}{suggest_operator(name, [*classes, *sorted(codes)])}")
        return name

    def amounts(self) -> dict[str, tuple[str, int]]:
        """Return {name of an argument: its (condition, number)}; all arguments must have names, at least one.

        See ``amount``.
        """
        self.positional(0, 0)
        return {name: self.amount(literal) for name, literal in self.some_named().items()}

    def amount(self, literal: Literal) -> tuple[str, int]:
        """Return (condition, number): ("", 3) for ``3``, ("at most ", 3) for ``at_most(3)``.

        The condition is a part of messages: "expected at most 3 ADD, got 4".
        """
        condition, number = "", literal
        if isinstance(literal, Arguments) and literal.name in ("at_most", "at_least"):
            condition = literal.name.replace("_", " ") + " "
            number = literal.positional[0] if len(literal.positional) == 1 and not literal.named else literal
        if type(number) is not int or number < 0:
            self.fail(f"expected a number such as 0, at_most(3) or at_least(1), got {show(literal)}")
        return condition, number


def show(literal: Any) -> str:
    """Return ``literal`` for messages, as a recipe has it, but a text without quotes unless it is empty."""
    if isinstance(literal, Arguments):
        return f"{literal.name}(...)"
    if isinstance(literal, list):
        return f"[{', '.join(map(show, literal))}]"
    return str(literal).lower() if isinstance(literal, bool) else shown(str(literal))
