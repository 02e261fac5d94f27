# SPDX-License-Identifier: Apache-2.0
"""Write messages as protobuf text, one field per line."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from circlekit.ir.text.literal_printing import format_float32

_ESCAPES = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r", "\t": "\\t"}


class Block:
    """The lines of a message; callers may leave out an empty one."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def add(self, name: str, *values: str | int | float | bool, word: bool = False) -> None:
        """Add the field once for each value.  ``word``: texts are enum values, without quotes."""
        self.lines += [f"{name}: {_scalar(v, word)}" for v in values]

    def vector(self, name: str, values: Sequence[str | int | float | bool], word: bool = False) -> None:
        """Add a repeated field, which is written even without values."""
        self.add(name, *values, word=word)
        if not len(values):
            self.lines.append(f"{name}: []")

    def row(self, name: str, field: str, values: Iterable[int]) -> None:
        """Add a message of one repeated field, in one line."""
        inner = "".join(f" {field}: {v}" for v in values)
        self.lines.append(f"{name} {{{inner} }}")

    def message(self, name: str, block: Block) -> None:
        if not block.lines:
            self.lines.append(f"{name} {{ }}")
            return
        self.lines += [f"{name} {{", *(f"  {line}" for line in block.lines), "}"]

    def text(self) -> str:
        return "\n".join([*self.lines, ""])


def _scalar(value: str | int | float | bool, word: bool) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return format_float32(value)
    if isinstance(value, int):
        return str(value)
    return value if word else quoted_text(value)


def quoted_text(text: str) -> str:
    """Return a quoted string; control characters and bytes that are not UTF-8 become octal escapes."""
    return '"' + "".join(map(_character, text)) + '"'


def _character(character: str) -> str:
    if character in _ESCAPES:
        return _ESCAPES[character]
    if character.isprintable():
        return character
    return "".join(f"\\{byte:03o}" for byte in character.encode("utf-8", "surrogateescape"))
