# SPDX-License-Identifier: Apache-2.0
"""Parse the text format of protobuf, given the message types as data.

    message := {field [","|";"]}
    field   := name ":" scalar | name ":" "[" [scalar {"," scalar}] "]"
             | name [":"] ("{" message "}" | "<" message ">")
    scalar  := string {string} | number | name                 a # starts a comment

Every error shows the place, and suggests a similar name if there is one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, NoReturn

import numpy as np

from circlekit.errors import near_miss
from circlekit.io.schema import Enumeration
from circlekit.ir.text.lexer import Source, Token

MAX_DEPTH = 32
"""Largest depth of nested messages."""

_TOKEN = re.compile(
    r"""(?P<skip>\s+|\#[^\n]*)
    |(?P<string>"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')
    |(?P<number>-?\s*(?:0[xX][0-9a-fA-F]+|(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?[fF]?\b\.?)|-\s*(?:inf(?:inity)?|nan)\b)
    |(?P<name>[A-Za-z_]\w*)
    |(?P<mark>[:{}<>\[\],;])""",
    re.VERBOSE,
)
_ESCAPE = re.compile(
    rb"\\(?:([0-7]{1,3})|[xX]([0-9a-fA-F]{1,2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|([abfnrtv\\'\"?]))|\\"
)
_CONTROLS = dict(zip(b"abfnrtv\\'\"?", b"\a\b\f\n\r\t\v\\'\"?", strict=True))


class TextSource(Source):
    """The tokens of a protobuf text, of the kinds string, number, name, mark and end."""

    def _scan(self) -> list[Token]:
        tokens: list[Token] = []
        at = 0
        while at < len(self.text):
            match = _TOKEN.match(self.text, at)
            if match is None:
                raise self.error_at(at, f"unexpected character {self.text[at]!r}")
            kind, text = match.lastgroup or "", match.group()
            if kind == "string":
                text = self._unescaped(text[1:-1], at)
            elif kind == "number":
                text = "".join(text.split())
            if kind != "skip":
                tokens.append(Token(kind, text, at))
            at = match.end()
        tokens.append(Token("end", "end of text", at))
        return tokens

    def _unescaped(self, body: str, at: int) -> str:
        if "\\" not in body:
            return body

        def character(match: re.Match[bytes]) -> bytes:
            octal, hexadecimal, short, long, control = match.groups()
            if control is not None:
                return bytes([_CONTROLS[control[0]]])
            if octal is not None or hexadecimal is not None:
                return bytes([(int(octal, 8) if octal is not None else int(hexadecimal, 16)) & 255])
            if short is None and long is None:
                raise self.error_at(at, "the string has an unknown escape")
            number = int(short or long, 16)
            if number > 0x10FFFF:
                raise self.error_at(at, f"expected a character up to 10FFFF, got {number:X}")
            return chr(number).encode("utf-8", "surrogatepass")

        raw = _ESCAPE.sub(character, body.encode("utf-8", "surrogatepass"))
        return raw.decode("utf-8", "surrogateescape")


# -- types -------------------------------------------------------------------------------------


class FieldType(NamedTuple):
    """The type of a field.

    ``kind``: "string", "bool", "enum", "message", or the type code of a number in ``struct``.
    ``message``: returns the type of a message; a function, because types refer to one another.
    """

    kind: str
    repeated: bool = False
    default: Any = None
    enum: Enumeration | None = None
    message: Callable[[], MessageType] | None = None
    stored: str = ""
    """The schema's name of the field, if the text has another."""


@dataclass(frozen=True)
class MessageType:
    """The fields of a message; ``name`` is for errors."""

    name: str
    fields: Mapping[str, FieldType]


class Item(NamedTuple):
    """A value of a field, and its place in the text."""

    value: Any
    token: Token


@dataclass
class Message:
    """A parsed message: the items of every field that it has, in order."""

    type: MessageType
    token: Token
    items: dict[str, list[Item]] = field(default_factory=dict)

    def __contains__(self, name: str) -> bool:
        return name in self.items

    def all(self, name: str) -> list[Item]:
        return self.items.get(name, [])

    def values(self, name: str) -> list[Any]:
        return [item.value for item in self.all(name)]

    def get(self, name: str) -> Any:
        """Return the value of a field that does not repeat, or its default."""
        found = self.items.get(name)
        return found[0].value if found else self.type.fields[name].default

    def place(self, name: str) -> Token:
        """Return the place of the field, or of the message if it lacks the field."""
        found = self.items.get(name)
        return found[0].token if found else self.token


# -- parsing -----------------------------------------------------------------------------------


def parse_message(source: Source, type_: MessageType) -> Message:
    """Parse the whole text as one message of a type; ParseError if it is not one."""
    message = Message(type_, source.peek)
    _fields(source, message, "", 0)
    return message


def _fields(source: Source, message: Message, close: str, depth: int) -> None:
    if depth > MAX_DEPTH:
        source.fail(f"expected at most {MAX_DEPTH} messages inside one another")
    while not (source.accept(close) if close else source.peek.kind == "end"):
        if source.peek.kind != "name":
            expected = f"a field or {close!r}" if close else "a field"
            source.fail(f"expected {expected}, got {source.peek.text[:40]!r}")
        name = source.take()
        spec = message.type.fields.get(name.text)
        if spec is None:
            _unknown(source, message.type, name)
        if not spec.repeated and name.text in message:
            source.fail(f"{name.text} is given twice", name)
        _field(source, message.items.setdefault(name.text, []), spec, name, depth)
        _ = source.accept(",") or source.accept(";")


def _unknown(source: Source, type_: MessageType, name: Token) -> NoReturn:
    known = near_miss(name.text, type_.fields)
    if not known and len(type_.fields) <= 12:
        known = f"; it has {', '.join(type_.fields)}"
    source.fail(f"{type_.name} has no field {name.text}{known}", name)


def _field(source: Source, items: list[Item], spec: FieldType, name: Token, depth: int) -> None:
    colon = source.accept(":")
    if source.at("{", "<"):
        if spec.message is None:
            source.fail(f"{name.text}: expected a single value, got a message")
        close = "}" if source.take().text == "{" else ">"
        inner = Message(spec.message(), name)
        _fields(source, inner, close, depth + 1)
        items.append(Item(inner, name))
        return
    if spec.message is not None:
        source.fail(f"{name.text} is a message: expected {'{'!r}, got {source.peek.text[:40]!r}")
    if not colon:
        source.fail(f"expected ':' after {name.text}, got {source.peek.text[:40]!r}")
    if not (spec.repeated and source.accept("[")):
        items.append(_scalar(source, spec, name))
        return
    while not source.accept("]"):
        items.append(_scalar(source, spec, name))
        if not source.at("]"):
            source.expect(",")


def _scalar(source: Source, spec: FieldType, name: Token) -> Item:
    token = source.expect_kind("string", "number", "name")
    if token.kind == "string":
        parts = [token.text]
        while source.peek.kind == "string":
            parts.append(source.take().text)
        token = token._replace(text="".join(parts))
    read: Reader = _READERS.get(spec.kind, _integer)
    try:
        return Item(read(token, spec), token)
    except ValueError as error:
        raise source.error_at(token.at, f"{name.text}: {error}") from None


def _text(token: Token, spec: FieldType) -> str:
    if token.kind != "string":
        raise ValueError(f"expected a text in quotes, got {token.text}")
    return token.text


def _bool(token: Token, spec: FieldType) -> bool:
    known = {"true": True, "True": True, "t": True, "1": True}
    known |= {"false": False, "False": False, "f": False, "0": False}
    if token.kind == "string" or token.text not in known:
        raise ValueError(f"expected true or false, got {token.text[:40]!r}")
    return known[token.text]


def _integer(token: Token, spec: FieldType) -> int:
    if token.kind != "number" or not re.fullmatch(r"-?(0[xX][0-9a-fA-F]+|\d{1,30})", token.text):
        raise ValueError(f"expected an integer, got {token.text[:40]!r}")
    digits = token.text.lstrip("-")
    is_octal = len(digits) > 1 and digits.isdigit() and digits[0] == "0"
    number = int(digits, 16 if digits[:2] in ("0x", "0X") else 8 if is_octal else 10) * (
        -1 if token.text[0] == "-" else 1
    )
    limits = np.iinfo(np.dtype(spec.kind))
    if not limits.min <= number <= limits.max:
        raise ValueError(f"expected a number from {limits.min} to {limits.max}, got {number}")
    return number


def _float(token: Token, spec: FieldType) -> float:
    if token.kind == "string":
        raise ValueError(f"expected a number, got {token.text[:40]!r}")
    return float_of(token.text)


def float_of(text: str) -> float:
    """Return a number as C++ reads it: ``1``, ``-.5e3``, ``0.1f``, ``inf``, ``nan``, ``0x1f``."""
    body = text.strip()
    if re.fullmatch(r"[-+]?0[xX][0-9a-fA-F]{1,16}", body):
        return float(int(body, 16))
    if body[-1:] in "fF" and body[-3:].lower() != "inf":
        body = body[:-1]
    if "_" in body:
        raise ValueError(f"expected a number, got {text[:40]!r}")
    try:
        return float(body)
    except ValueError:
        raise ValueError(f"expected a number, got {text[:40]!r}") from None


def _enum(token: Token, spec: FieldType) -> str:
    assert spec.enum is not None
    enum = spec.enum
    if token.kind == "number":
        number = _integer(token, FieldType("q"))
        if number not in enum.names:
            raise ValueError(f"expected a number of {enum.name}, got {number}")
        return enum.names[number]
    if token.kind == "string" or token.text not in enum.numbers:
        near = near_miss(token.text, enum.numbers) or f"; expected one of {', '.join([*enum.numbers][:9])}"
        raise ValueError(f"no {enum.name} is named {token.text[:40]}{near}")
    return token.text


Reader = Callable[[Token, FieldType], Any]
_READERS: dict[str, Reader] = {
    "string": _text, "bool": _bool, "?": _bool, "f": _float, "d": _float, "enum": _enum,
}  # fmt: skip
