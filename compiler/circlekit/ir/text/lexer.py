# SPDX-License-Identifier: Apache-2.0
"""Split the text form into tokens, and make errors that point at a place in the text."""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Callable
from typing import NamedTuple, NoReturn

from circlekit.errors import ParseError

_STRING = r'"[^"\\\n]*(?:\\[^\n\r\0][^"\\\n]*)*"'
_TOKEN = re.compile(
    rf"""(?P<skip>[ \t\r\n]+|\#[^\n]*)
    |(?P<value>%(?:{_STRING}|[\w.$/;:@+-]*[\w$/@+]))  # a bare name does not end in . ; : or -
    |(?P<graph>@(?:{_STRING}|[\w.$/-]+))
    |(?P<string>{_STRING})
    |(?P<number>-?(?:0x[0-9a-fA-F]+|inf\b|nan\b|(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?))
    |(?P<name>[A-Za-z_]\w*)
    |(?P<mark>->|[()\[\]{{}},:=|?*])""",
    re.VERBOSE,
)
"""A token by its kind (the name of the group), or text to skip: white space, and a comment from # on."""

_MAX_NESTING = 64
_SHOWN_CHARACTERS = 100
"""The number of characters of a long line that an error shows on each side of the place."""


class Token(NamedTuple):
    """A token.  ``text``: its text without %, @ and quotes.  ``at``: its offset in the source."""

    kind: str  # value, graph, string, number, name, mark or end
    text: str
    at: int


class Source:
    """A text with a cursor over its tokens.  All errors are ParseErrors with the place in the text.

    ``label``: the name of the text in errors, such as a path or a class.  ``first_line``: the number of the
    first line of the text.  ``position``: the index of the next token.  The last token has the kind "end".
    """

    def __init__(self, text: str, label: str = "text", first_line: int = 1) -> None:
        self.text = text
        self.label = label
        self.first_line = first_line
        self.tokens = self._scan()
        self.position = 0

    def _scan(self) -> list[Token]:
        tokens: list[Token] = []
        offset = depth = 0
        for match in _TOKEN.finditer(self.text):
            start, end = match.span()
            if start != offset:  # no token begins at ``offset``
                break
            offset = end
            kind = match.lastgroup or ""
            depth += (match.group() in "([{") - (match.group() in ")]}")
            if depth > _MAX_NESTING:  # the parser is recursive
                raise self.error_at(start, f"brackets are nested more than {_MAX_NESTING} levels deep")
            if kind in ("mark", "name", "number"):
                tokens.append(Token(kind, match.group(), start))
            elif kind != "skip":
                tokens.append(Token(kind, self._plain(kind, match.group(), start), start))
        if offset < len(self.text):
            raise self.error_at(offset, f"unexpected character {self.text[offset]!r}")
        tokens.append(Token("end", "end of text", offset))
        return tokens

    def _plain(self, kind: str, text: str, at: int) -> str:
        """Return the text of a token without %, @ and quotes, and with its escapes replaced."""
        if kind in ("value", "graph"):
            text = text[1:]
        if not text.startswith('"'):
            return text
        if "\\" not in text:
            return text[1:-1]
        text = text.replace("\r", r"\r").replace("\0", r"\x00")  # Python takes no string with these
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("error")  # Python only warns of an unknown escape
                return str(ast.literal_eval(text))
        except (SyntaxError, ValueError):
            raise self.error_at(at, "the string has an invalid escape") from None

    def error_at(self, at: int, message: str) -> ParseError:
        """Return a ParseError that points at the offset ``at`` of the text."""
        return error_at(self.label, self.text, at, message, self.first_line)

    def place(self, token: Token) -> str:
        """Return the place of a token as ``label:line:column``, counted from 1."""
        line, column = _line_and_column(self.text, token.at)
        return f"{self.label}:{self.first_line + line}:{column + 1}"

    def fail(self, message: str, token: Token | None = None) -> NoReturn:
        """Raise a ParseError at ``token``, by default at the next token."""
        raise self.error_at((token or self.peek).at, message)

    def fail_at(self, token: Token) -> Callable[[str], NoReturn]:
        """Return a function that takes a message and raises a ParseError with that message at ``token``."""
        return lambda message: self.fail(message, token)

    # -- the cursor ------------------------------------------------------------------------------

    @property
    def peek(self) -> Token:
        """The next token; the cursor does not move."""
        return self.tokens[self.position]

    def ahead(self) -> Token:
        """Return the token after the next token, or the last token of the text."""
        return self.tokens[min(self.position + 1, len(self.tokens) - 1)]

    def take(self) -> Token:
        """Return the next token and move behind it, but never behind the last token of the text."""
        token = self.peek
        self.position = min(self.position + 1, len(self.tokens) - 1)
        return token

    def at(self, *texts: str) -> bool:
        """Return whether the next token is a mark or a name, and one of ``texts``."""
        token = self.peek
        return token.text in texts and token.kind in ("mark", "name")

    def accept(self, *texts: str) -> bool:
        """Take the next token if it is a mark or a name in ``texts``; return whether it was taken."""
        if self.at(*texts):
            self.position += 1
            return True
        return False

    def expect(self, text: str) -> Token:
        """Take and return the next token; raise ParseError if it is not the mark or name ``text``."""
        if not self.at(text):
            self.fail(f"expected {text!r}, got {self.peek.text!r}")
        return self.take()

    def expect_kind(self, *kinds: str) -> Token:
        """Take and return the next token; raise ParseError if its kind is not in ``kinds``."""
        if self.peek.kind not in kinds:
            self.fail(f"expected a {' or '.join(kinds)}, got {self.peek.text!r}")
        return self.take()


def error_at(label: str, text: str, at: int, message: str, first_line: int = 1) -> ParseError:
    """Return a ParseError with line and column, the text of the line, and a caret below the place."""
    line, column = _line_and_column(text, at)
    shown = text.split("\n")[line]
    message = f"{label}:{first_line + line}:{column + 1}: {message}"
    if len(shown) > 2 * _SHOWN_CHARACTERS:  # a constant can be one very long line
        start = max(column - _SHOWN_CHARACTERS, 0)
        shown, column = shown[start : column + _SHOWN_CHARACTERS], column - start
    caret = re.sub(r"[^\t]", " ", shown[:column]) + "^"  # tabs stay, so that the caret is in the right column
    return ParseError(message, shown, caret)


def _line_and_column(text: str, at: int) -> tuple[int, int]:
    """Return line and column of the offset ``at``, both counted from 0."""
    return text.count("\n", 0, at), at - (text.rfind("\n", 0, at) + 1)


def quoted(sigil: str, name: str) -> str:
    """Return ``sigil`` (% or @) followed by ``name``, in quotes if the name needs them."""
    match = _TOKEN.fullmatch(sigil + name)
    if match is not None and match.lastgroup in ("value", "graph") and '"' not in name:
        return sigil + name
    return sigil + quote(name)


def quote(text: str) -> str:
    """Return ``text`` as a string literal in double quotes, with Python's escapes."""
    # repr chooses the kind of quotes by the text: always single quotes if the text contains a double quote.
    # So a double quote is put before the text, and cut off again.  As the result has double quotes, each "
    # in the text gets an escape, and ' loses the escape that repr may have given it.
    body = repr('"' + text)[2:-1].replace('"', '\\"').replace("\\'", "'")
    return f'"{body}"'
