# SPDX-License-Identifier: Apache-2.0
"""Tokens of the text form (design, section 3), and errors that point at one."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from typing import NoReturn

from circlekit.errors import ParseError

_TOKEN = re.compile(
    r"""(?P<skip>[ \t\r\n]+|\#[^\n]*)
    |(?P<value>%(?:"(?:[^"\\\n]|\\.)*"|[\w.$/;:@+-]*[\w$/@+]))
    |(?P<graph>@(?:"(?:[^"\\\n]|\\.)*"|[\w.$/-]+))
    |(?P<string>"(?:[^"\\\n]|\\.)*")
    |(?P<number>-?(?:0x[0-9a-fA-F]+|inf\b|nan\b|(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?))
    |(?P<name>[A-Za-z_]\w*)
    |(?P<mark>->|[()\[\]{},:=|?*])""",
    re.VERBOSE,
)


@dataclass(frozen=True)
class Token:
    """``kind``: value (%x), graph (@g), string, number, name, mark, end.  ``text`` lacks % @ and quotes."""

    kind: str
    text: str
    at: int


class Source:
    """A text with a cursor over its tokens.  ``label`` names it in errors (a file, a class)."""

    def __init__(self, text: str, label: str = "text", first_line: int = 1) -> None:
        self.text = text
        self.label = label
        self.first_line = first_line
        self.tokens = self._scan()
        self.position = 0

    def _scan(self) -> list[Token]:
        tokens: list[Token] = []
        at = 0
        while at < len(self.text):
            match = _TOKEN.match(self.text, at)
            if match is None:
                raise self.error_at(at, f"unexpected character {self.text[at]!r}")
            kind = match.lastgroup or ""
            if kind != "skip":
                tokens.append(Token(kind, _plain(kind, match.group()), at))
            at = match.end()
        tokens.append(Token("end", "end of text", at))
        return tokens

    def error_at(self, at: int, message: str) -> ParseError:
        """A ParseError with line, column, the line itself, and a caret under the place."""
        before = self.text[:at]
        line = before.count("\n")
        column = at - (before.rfind("\n") + 1)
        shown = self.text.split("\n")[line]
        caret = re.sub(r"[^\t]", " ", shown[:column]) + "^"
        return ParseError(f"{self.label}:{self.first_line + line}:{column + 1}: {message}", shown, caret)

    def fail(self, message: str, token: Token | None = None) -> NoReturn:
        raise self.error_at((token or self.peek).at, message)

    # -- the cursor ------------------------------------------------------------------------------

    @property
    def peek(self) -> Token:
        return self.tokens[self.position]

    def ahead(self, count: int = 1) -> Token:
        return self.tokens[min(self.position + count, len(self.tokens) - 1)]

    def take(self) -> Token:
        token = self.peek
        self.position = min(self.position + 1, len(self.tokens) - 1)
        return token

    def at(self, *texts: str) -> bool:
        """Whether the next token is one of these marks or names."""
        return self.peek.kind in ("mark", "name") and self.peek.text in texts

    def accept(self, *texts: str) -> bool:
        """Take the next token if it is one of these marks or names."""
        if self.at(*texts):
            self.position += 1
            return True
        return False

    def expect(self, text: str) -> Token:
        if not self.at(text):
            self.fail(f"expected {text!r}, found {self.peek.text!r}")
        return self.take()

    def expect_kind(self, *kinds: str) -> Token:
        if self.peek.kind not in kinds:
            self.fail(f"expected a {' or '.join(kinds)}, found {self.peek.text!r}")
        return self.take()


def _plain(kind: str, text: str) -> str:
    if kind in ("value", "graph"):
        text = text[1:]
        kind = "string" if text.startswith('"') else kind
    return str(ast.literal_eval(text)) if kind == "string" else text


def quoted(sigil: str, name: str) -> str:
    """``%name``, with quotes where the name needs them."""
    match = _TOKEN.fullmatch(sigil + name)
    if match is not None and match.lastgroup in ("value", "graph") and '"' not in name:
        return sigil + name
    return sigil + quote(name)


def quote(text: str) -> str:
    """A string literal of the text form: double quotes, Python's escapes."""
    body = repr('"' + text)[2:-1].replace('"', '\\"').replace("\\'", "'")
    return f'"{body}"'
