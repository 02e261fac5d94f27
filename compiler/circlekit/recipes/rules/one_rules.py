# SPDX-License-Identifier: Apache-2.0
"""The rules of ONE's dredd tests, ``test.rule``.  ONE runs them by a shell; here they are parsed.

    RULE "NAME" $(function argument ...) '=' VALUE        # a comment

Conditions are those of ``expr``: = != < > <= >=.  They compare numbers if both sides are integers, else
texts. Anything else of the shell's language (variables, pipes, other commands) is an error.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, NoReturn

from circlekit.errors import near_miss
from circlekit.io.findings import ERROR
from circlekit.ir.text.lexer import error_at
from circlekit.recipes.model_file import count_word
from circlekit.recipes.rules.rule import Outcome, Subject, line_and_column

FORM = "a rule is RULE \"NAME\" $(function argument) 'CONDITION' VALUE"


def _listed(pairs: list[tuple[str, str]], name: str) -> str:
    """Return the second of each pair whose first is ``name``, separated by spaces."""
    return " ".join(second for first, second in pairs if first == name)


FUNCTIONS: dict[str, tuple[int, Callable[..., str]]] = {
    "file_size": (0, lambda facts: str(facts.size)),
    "all_op_count": (0, lambda facts: str(len(facts.operators()))),
    "op_count": (1, lambda facts, kind: str(count_word(facts.operators(), kind))),
    "conv2d_weight_not_constant": (
        0,
        lambda facts: str(sum(made_by != "CONST" for _, made_by in facts.conv2d_weights())),
    ),
    "verify_file_format": (0, lambda facts: str(int(not any(f.severity == ERROR for f in facts.findings())))),
    "op_version": (1, lambda facts, kind: str(facts.op_versions().get(kind, ""))),
    "tensor_dtype": (1, lambda facts, name: _listed(facts.tensor_dtypes(), name)),
    "tensor_shape": (1, lambda facts, name: _listed(facts.tensor_shapes(), name)),
    "const_count": (1, lambda facts, name: str(count_word(facts.constants(), name))),
}
"""{name: (number of arguments, function of the model file that returns the actual value)}."""

CONDITIONS: dict[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    ">": operator.gt,
    "<=": operator.le,
    ">=": operator.ge,
}


@dataclass(frozen=True)
class OneRule:
    """One rule; ``name`` is its name in reports."""

    place: str
    name: str
    function: str
    arguments: tuple[str, ...]
    condition: str
    expected: str

    def check(self, subject: Subject) -> Outcome:
        actual = FUNCTIONS[self.function][1](subject.facts, *self.arguments)
        holds = actual != "" and compare(actual, self.condition, self.expected)
        asked = " ".join((self.function, *self.arguments))
        found = f"{asked}: expected {self.condition} {self.expected}, got {actual or 'nothing'}"
        return Outcome(self.place, self.name, holds, found)


def compare(actual: str, condition: str, expected: str) -> bool:
    """Return whether the condition holds, by the rules of ``expr``."""
    if _is_number(actual) and _is_number(expected):
        return CONDITIONS[condition](int(actual), int(expected))
    return CONDITIONS[condition](actual, expected)


def _is_number(text: str) -> bool:
    """Return whether ``text`` is an integer; Python does not convert those of more than 4,300 digits."""
    return re.fullmatch(r"-?[0-9]{1,4300}", text) is not None


# -- parsing -----------------------------------------------------------------------------------

_SKIP = re.compile(r"(?:[ \t\r]|\\\r?\n)*(?:#[^\n]*)?")
_WORD = re.compile(r"""(?:[^\s'"\\$`;|&<>(){}]|\\[^\n]|'[^']*'|"(?:[^"\\$`]|\\.)*")+""")
_PART = re.compile(
    r"""'(?P<single>[^']*)'|"(?P<double>(?:[^"\\]|\\.)*)"|\\(?P<escaped>.)|(?P<plain>.)""", re.S
)


class Word(NamedTuple):
    text: str
    at: int


def parse_one_rules(text: str, label: str) -> list[OneRule]:
    """Return the rules of a file, in order; ParseError with file, line and column for an invalid one."""
    return _Reader(text, label).rules()


class _Reader:
    def __init__(self, text: str, label: str) -> None:
        self.text = text
        self.label = label
        self.at = 0

    def rules(self) -> list[OneRule]:
        found: list[OneRule] = []
        while True:
            self.skip()
            if self.at >= len(self.text):
                return found
            if self.text[self.at] == "\n":
                self.at += 1
            else:
                found.append(self.rule())

    def rule(self) -> OneRule:
        word = self.word("RULE")
        if word.text != "RULE":
            self.fail(f"expected RULE, got {word.text!r}; {FORM}", word.at)
        line, column = line_and_column(self.text, word.at)
        name = self.word("the name of the rule")
        function, arguments = self.call()
        condition = self.word("a condition")
        if condition.text not in CONDITIONS:
            known = ", ".join(CONDITIONS)
            self.fail(f"expected a condition, one of {known}, got {condition.text!r}", condition.at)
        expected = self.word("a value")
        self.skip()
        if self.at < len(self.text) and self.text[self.at] != "\n":
            self.fail(f"expected the end of the line, got {self.rest()!r}; {FORM}", self.at)
        place = f"{self.label}:{line}:{column}"
        return OneRule(place, name.text, function, arguments, condition.text, expected.text)

    def call(self) -> tuple[str, tuple[str, ...]]:
        self.skip()
        if not self.text.startswith("$(", self.at):
            self.fail(f"expected $(function), got {self.rest()!r}; {FORM}", self.at)
        self.at += 2
        name = self.word("a function")
        arguments = []
        self.skip()
        while not self.text.startswith(")", self.at):
            arguments.append(self.word("')'").text)
            self.skip()
        self.at += 1
        if name.text not in FUNCTIONS:
            near = near_miss(name.text, FUNCTIONS) or f"; expected one of {', '.join(FUNCTIONS)}"
            self.fail(f"no function is named {name.text}{near}", name.at)
        required = FUNCTIONS[name.text][0]
        if len(arguments) != required:
            self.fail(f"{name.text}: expected {required} arguments, got {len(arguments)}", name.at)
        return name.text, tuple(arguments)

    # -- words ---------------------------------------------------------------------------------

    def skip(self) -> None:
        """Skip blanks, continued lines and a comment, up to the end of the line."""
        match = _SKIP.match(self.text, self.at)
        if match is not None:
            self.at = match.end()

    def word(self, what: str) -> Word:
        """Return the next word of the line, its quotes and escapes resolved."""
        self.skip()
        match = _WORD.match(self.text, self.at)
        if match is None:
            self.fail(f"expected {what}, got {self.rest() or 'the end of the line'!r}; {FORM}", self.at)
        start, self.at = self.at, match.end()
        return Word("".join(map(_resolved, _PART.finditer(match.group()))), start)

    def rest(self) -> str:
        return self.text[self.at :].partition("\n")[0][:40]

    def fail(self, message: str, at: int) -> NoReturn:
        raise error_at(self.label, self.text, at, message.replace("\n", "\\n"))


def _resolved(part: re.Match[str]) -> str:
    if part.lastgroup == "double":
        return re.sub(r'\\([\\"$`])', r"\1", part.group("double"))
    return part.group(part.lastgroup or 0)
