# SPDX-License-Identifier: Apache-2.0
"""Parse the rules of ONE's dredd tests, ``test.rule``, which ONE runs as a shell script.

    RULE "NAME" $(function argument ...) '=' VALUE        # a comment

The function returns a property of the model file, which is compared with VALUE.  The conditions are those of
the command ``expr``: = == != < > <= >=.  They compare numbers if both sides are integers, otherwise texts.
A property that the file does not have, such as the dtype of an unknown tensor, satisfies no condition.
Anything else of the shell's language (variables, pipes, other commands) is an error.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from operator import eq, ge, gt, le, lt, ne
from typing import Any

from circlekit.errors import counted, did_you_mean, shown
from circlekit.io.findings import ERROR
from circlekit.ir.text.lexer import Source, Token
from circlekit.recipes.rules.rule import Rule, Subject

FORM = "a rule is RULE \"NAME\" $(function argument) 'CONDITION' VALUE"
"""The form of a rule, for the end of error messages."""


def _joined(pairs: list[tuple[str, str]], name: str) -> str:
    """Return the second items of the pairs whose first item is ``name``, separated by spaces.

    Tensors of several graphs may have the same name.
    """
    return " ".join(second for first, second in pairs if first == name)


def count_word(lines: list[str], word: str) -> int:
    """Return how many of ``lines`` contain ``word`` as a whole word."""
    pattern = re.compile(rf"(?<!\w){re.escape(word)}(?!\w)")
    return sum(1 for line in lines if pattern.search(line))


FUNCTIONS: dict[str, tuple[int, Callable[..., str]]] = {
    "file_size": (0, lambda file: str(file.size)),
    "all_op_count": (0, lambda file: str(len(file.operators()))),
    "op_count": (1, lambda file, kind: str(count_word(file.operators(), kind))),
    "conv2d_weight_not_constant": (0, lambda file: str(sum(p != "CONST" for _, p in file.conv2d_weights()))),
    "verify_file_format": (0, lambda file: str(int(not any(f.severity == ERROR for f in file.findings())))),
    "op_version": (1, lambda file, kind: str(file.op_versions().get(kind, ""))),
    "tensor_dtype": (1, lambda file, name: _joined(file.tensor_dtypes(), name)),
    "tensor_shape": (1, lambda file, name: _joined(file.tensor_shapes(), name)),
    "const_count": (1, lambda file, name: str(count_word(file.constants(), name))),
}
"""{name of a function in rules: (number of its arguments, function that returns the actual value as text)}.

The function gets the model file and the arguments.  ``kind`` is the name of an operator in the schema, such
as ADD.  ``name`` is the name of a tensor; for ``const_count``, it is a word in the names of constants.
"""

CONDITIONS: dict[str, Callable[[Any, Any], bool]] = {
    "=": eq, "==": eq, "!=": ne, "<": lt, ">": gt, "<=": le, ">=": ge,
}  # fmt: skip


def compare(actual: str, condition: str, expected: str) -> bool:
    """Return whether ``actual condition expected`` holds, as the command ``expr`` would decide.

    ``condition``: a key of CONDITIONS.
    """
    if _is_number(actual) and _is_number(expected):
        return CONDITIONS[condition](int(actual), int(expected))
    return CONDITIONS[condition](actual, expected)


def _is_number(text: str) -> bool:
    """Return whether ``text`` is an integer of at most 4,300 digits; Python does not convert longer ones."""
    return re.fullmatch(r"-?[0-9]{1,4300}", text) is not None


# -- parsing -----------------------------------------------------------------------------------

_TOKEN = re.compile(
    r"""(?P<skip>[ \t\r]+|\\\r?\n|\#[^\n]*)
    |(?P<line>\n)
    |(?P<mark>\$\(|\))
    |(?P<word>(?:[^\s'"\\$`;|&<>(){}]|\\[^\n]|'[^']*'|"(?:[^"\\$`]|\\.)*")+)
    |(?P<other>.)""",
    re.VERBOSE,
)
"""A token of a ``test.rule``.  ``skip``: spaces, comments, line ends after a backslash."""

_PART = re.compile(
    r"""'(?P<single>[^']*)'|"(?P<double>(?:[^"\\]|\\.)*)"|\\(?P<escaped>.)|(?P<plain>.)""", re.S
)


class _ShellText(Source):
    """A text in the shell's language as tokens: words, without their quotes and escapes, and $( and )."""

    def _scan(self) -> list[Token]:
        """Return the tokens of the text."""
        tokens = []
        for match in _TOKEN.finditer(self.text):
            kind, text = match.lastgroup or "", match.group()
            if kind == "word":
                text = "".join(map(_unquoted, _PART.finditer(text)))
            if kind != "skip":
                tokens.append(Token(kind, "the end of the line" if kind == "line" else text, match.start()))
        return [*tokens, Token("end", "the end of the line", len(self.text))]

    def word(self, expected: str) -> Token:
        """Take the next token; raise ParseError unless it is a word.  ``expected``: what it should be."""
        if self.peek.kind != "word":
            self.fail(f"expected {expected}, got {self.peek.text!r}; {FORM}")
        return self.take()


def _unquoted(part: re.Match[str]) -> str:
    """Return a part of a word without its quotes and escapes."""
    kind = str(part.lastgroup)  # one of the groups always matches
    text: str = part[kind]
    return re.sub(r'\\([\\"$`])', r"\1", text) if kind == "double" else text


def parse_one_rules(text: str, label: str) -> list[Rule]:
    """Return the rules in the text of a ``test.rule``, in order.

    ``label``: the name of the file.  Raise ParseError, with line and column, for an invalid rule.
    """
    source = _ShellText(text, label)
    rules = []
    while source.peek.kind != "end":
        if source.peek.kind == "line":
            source.take()
        else:
            rules.append(_rule(source))
    return rules


def _rule(source: _ShellText) -> Rule:
    """Take one rule from ``source``; raise ParseError if it is invalid."""
    keyword = source.word("RULE")
    if keyword.text != "RULE":
        source.fail(f"expected RULE, got {keyword.text!r}; {FORM}", keyword)
    name = source.word("the name of the rule").text
    if not source.accept("$("):
        source.fail(f"expected $(function), got {source.peek.text!r}; {FORM}")
    function, arguments = source.word("a function"), []
    while not source.accept(")"):
        arguments.append(source.word("')'").text)
    if function.text not in FUNCTIONS:
        near = did_you_mean(function.text, FUNCTIONS) or f"; expected one of {', '.join(FUNCTIONS)}"
        source.fail(f"no function is named {shown(function.text)}{near}".replace("\n", "\\n"), function)
    count, value_of = FUNCTIONS[function.text]
    if len(arguments) != count:
        source.fail(f"{function.text}: expected {counted(count, 'argument')}, got {len(arguments)}", function)
    condition = source.word("a condition")
    if condition.text not in CONDITIONS:
        choices = ", ".join(CONDITIONS)
        source.fail(f"expected a condition, one of {choices}, got {condition.text!r}", condition)
    expected = source.word("a value").text
    if source.peek.kind not in ("line", "end"):
        source.fail(f"expected the end of the line, got {source.peek.text!r}; {FORM}")
    call = " ".join((function.text, *arguments))

    def violations(subject: Subject) -> Iterator[str]:
        """Yield a sentence if the rule does not hold."""
        actual = value_of(subject.file, *arguments)  # "": the model has no such operator or tensor
        if not actual or not compare(actual, condition.text, expected):
            yield f"{call}: expected {condition.text} {expected}, got {actual or 'nothing'}"

    return Rule(source.place(keyword), name, violations)
