# SPDX-License-Identifier: Apache-2.0
"""The text grammar of protobuf, compared with the protobuf package if it is installed."""

from __future__ import annotations

import pytest

from circlekit.io.schema import enumeration
from circlekit.recipes.prototext.operand_writer import quoted_text
from circlekit.recipes.prototext.prototext_parser import (
    FieldType,
    Message,
    MessageType,
    TextSource,
    float_of,
    parse_message,
)

INNER = MessageType("Inner", {"n": FieldType("i", repeated=True), "s": FieldType("string")})
OUTER = MessageType(
    "Outer",
    {
        "f": FieldType("f", repeated=True),
        "b": FieldType("bool", default=False),
        "s": FieldType("string", repeated=True),
        "e": FieldType("enum", repeated=True, enum=enumeration("Padding", "tflite")),
        "m": FieldType("message", repeated=True, message=lambda: INNER),
    },
)


def parse(text: str) -> Message:
    return parse_message(TextSource(text, "t"), OUTER)


def test_fields_messages_separators_and_comments() -> None:
    message = parse(
        """# a comment, and another behind a field
        m { n: 1, n: -2; n: [3, 0x10, 017] s: 'a' "b" }  # here
        m: < n: [] >
        b: true e: VALID e: 0 e: [SAME, 1]"""
    )
    first, second = message.values("m")
    assert first.values("n") == [1, -2, 3, 16, 15]
    assert first.get("s") == "ab"
    assert second.values("n") == []
    assert "n" in second
    assert message.get("b") is True
    assert message.values("e") == ["VALID", "SAME", "SAME", "VALID"]
    assert message.values("f") == []


def test_numbers() -> None:
    message = parse("f: 1 f: -1.5 f: .5 f: 2. f: 1e3 f: -2.5E-1f f: 3f f: inf f: -inf f: - 4")
    assert message.values("f") == [1, -1.5, 0.5, 2, 1000, -0.25, 3, float("inf"), float("-inf"), -4]
    assert str(parse("f: nan").get("f")) == "nan"
    assert float_of("0.07846f") == 0.07846
    assert float_of("0x1f") == 31.0


@pytest.mark.parametrize("text", ["", "1_0", "f", "1.0ff", "--1", "0x", "one"])
def test_invalid_numbers_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="expected a number"):
        float_of(text)


@pytest.mark.parametrize(
    ("written", "read"),
    [
        (r'"a\"b\\c\n\t"', 'a"b\\c\n\t'),
        (r"'\'\101\x42'", "'AB"),
        (r'"\303\251"', "é"),
        (r'"\u00e9\U0001F600"', "é😀"),
        (r'"\377"', "\udcff"),
        ('"é 😀"', "é 😀"),
    ],
)
def test_strings(written: str, read: str) -> None:
    assert parse(f"s: {written}").values("s") == [read]


@pytest.mark.parametrize(
    "text", ["", "plain", 'quo"te', "back\\slash", "a\nb\tc\rd", "é😀", "\udcff\udc80", "\x00\x7f", "'"]
)
def test_strings_survive_a_round_trip(text: str) -> None:
    assert parse(f"s: {quoted_text(text)}").values("s") == [text]
    assert quoted_text(text).isprintable()
