# SPDX-License-Identifier: Apache-2.0
"""test.rule: accepted and refused rules, and conditions, which compare as the command ``expr`` does."""

from __future__ import annotations

from pathlib import Path

import pytest

from circlekit.errors import ParseError
from circlekit.io.write.save import to_bytes
from circlekit.ir.text import parse_model
from circlekit.recipes.rules.one_rules import compare, count_word, parse_one_rules
from circlekit.recipes.rules.rule import Subject

TEXT = """
model tflite
graph main(%x: f32[1,4,4,2], %n: i32[?]) -> %y, %n2 {
  %w = const f32[3,3,3,2] gaussian(0, 1)
  %b = const f32[3] zeros
  %v = const f32[3,3,3,2] zeros
  %c = Conv2D(%x, %w, %b) {padding: SAME} : f32[1,4,4,3]
  %d = Conv2D(%x, %v, %b) {padding: SAME} : f32[1,4,4,3]
  %y = Add(%c, %d)        : f32[1,4,4,3]
  %n2 = AddN(%n, %n)      : i32[?]
}
"""


@pytest.fixture
def subject(tmp_path: Path) -> Subject:
    path = tmp_path / "model.tflite"
    path.write_bytes(to_bytes(parse_model(TEXT)))
    return Subject(str(path), parse_model(TEXT))


def failure(subject: Subject, line: str) -> str:
    (rule,) = parse_one_rules(line, "test.rule")
    return rule.failure(subject)


@pytest.mark.parametrize(
    ("call", "actual"),
    [
        ("all_op_count", "4"),
        ("op_count CONV_2D", "2"),
        ("op_count ADD", "1"),
        ("op_count 'CUSTOM(x)'", "0"),
        ("conv2d_weight_not_constant", "0"),
        ("verify_file_format", "1"),
        ("op_version CONV_2D", "1"),
        ("tensor_dtype n", "INT32"),
        ("tensor_shape x", "[1,4,4,2]"),
        ("tensor_shape n2", "[-1]"),
        ("const_count w", "1"),
        ("const_count x", "0"),
    ],
)
def test_functions_of_rules(subject: Subject, call: str, actual: str) -> None:
    assert failure(subject, f"RULE \"NAME\" $({call}) '=' {actual}") == ""
    assert failure(subject, f"RULE \"NAME\" $({call}) '!=' {actual}")


def test_file_size(subject: Subject) -> None:
    size = Path(subject.path).stat().st_size
    assert failure(subject, f"RULE S $(file_size) = {size}") == ""


def test_failure_reports_the_found_value_and_the_line(subject: Subject) -> None:
    text = "# a comment\n\nRULE \"ONE_ADD\"  $(op_count CONV_2D) '=' 1\n"
    (rule,) = parse_one_rules(text, "dir/test.rule")
    assert rule.failure(subject) == "dir/test.rule:3:1: ONE_ADD: op_count CONV_2D: expected = 1, got 2"


@pytest.mark.parametrize("condition", ["=", "!="])
def test_missing_value_fails_any_condition(subject: Subject, condition: str) -> None:
    assert "got nothing" in failure(subject, f"RULE T $(tensor_dtype nobody) '{condition}' INT8")


@pytest.mark.parametrize(
    ("left", "condition", "right", "holds"),
    [
        ("10", ">", "9", True), ("10", "=", "010", True), ("-1", "<", "0", True), ("2", "<=", "1", False),
        ("b", ">", "a", True), ("10a", "<", "9a", True), ("3", ">=", "3", True), ("x", "==", "x", True),
        ("9" * 4301, "<", "8", False),
    ],
)  # fmt: skip
def test_integers_compare_as_numbers_and_other_words_as_strings(
    left: str, condition: str, right: str, holds: bool
) -> None:
    assert compare(left, condition, right) is holds


def test_words_are_split_like_in_a_shell(subject: Subject) -> None:
    text = (
        "RULE 'a '\"b\\\"\"c\\;d $(tensor_dtype x\\;'y z') \\\n  '<=' 12 # rest\r\nRULE B $(all_op_count) > 1"
    )
    with pytest.raises(ParseError, match="expected a condition"):
        parse_one_rules(text, "t")  # the > is not quoted: a shell would write a file
    first, second = parse_one_rules(text.replace("> 1", "'>' 1"), "t")
    found = "tensor_dtype x;y z: expected <= 12, got nothing"
    assert first.failure(subject) == f"""t:1:1: a b"c;d: {found}"""
    assert (second.place, second.text) == ("t:3:1", "B")


@pytest.mark.parametrize(
    ("text", "place", "message"),
    [
        ("RULE A $(op_cuont ADD) = 1", "1:10", "no function is named op_cuont; did you mean op_count?"),
        ("\nRULE A $(op_count) = 1", "2:10", "expected 1 argument, got 0"),
        ("RULE A $('a\nb') = 1", "1:10", "no function is named a\\\\nb; expected one of"),
        ("RULE A $('') = 1", "1:10", "no function is named ''; expected one of"),
        ("RULE A $(file_size x) = 1", "1:10", "expected 0 arguments, got 1"),
        ("RULE A $(file_size) '~' 1", "1:21", "got '~'"),
        ("RULE A $(file_size) = 1 2", "1:25", "expected the end of the line"),
        ("RULE A $(file_size) =", "1:22", "expected a value"),
        ("RULE A $(file_size = 1", "1:23", "expected '\\)'"),
        ("RULE A 3 = 1", "1:8", "expected \\$\\(function\\)"),
        ("rm -rf /", "1:1", "expected RULE, got 'rm'"),
        ("RULE A $(op_count $HOME) = 1", "1:19", "expected '\\)'"),
        ("RULE A $(op_count `ls`) = 1", "1:19", "expected '\\)'"),
        ("RULE A $(file_size) = 1 ; ls", "1:25", "expected the end of the line"),
        ('RULE "$(ls)" $(file_size) = 1', "1:6", "expected the name"),
    ],
)
def test_wrong_rules_and_other_shell_syntax_are_refused(text: str, place: str, message: str) -> None:
    with pytest.raises(ParseError, match=message) as raised:
        parse_one_rules(text, "test.rule")
    assert raised.value.message.startswith(f"test.rule:{place}: ")


def test_all_rules_of_one_are_read(shared: Path) -> None:
    files = sorted((shared / "peer" / "one").rglob("test.rule"))
    assert len(files) > 100
    assert all(parse_one_rules(path.read_text(), str(path)) for path in files)


def test_words_are_counted_by_line() -> None:
    lines = ["ADD", "ADD_N", "xADD", "CUSTOM(ADD)", "ADD ADD"]
    assert count_word(lines, "ADD") == 3
    assert count_word(lines, "A.D") == 0
