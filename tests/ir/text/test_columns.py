# SPDX-License-Identifier: Apache-2.0
"""Tables as plain text and as Markdown; wrapped and shortened text."""

from __future__ import annotations

import pytest

from circlekit.ir.text.columns import (
    abridged,
    cut,
    format_columns,
    format_definitions,
    format_markdown,
    listed,
    paragraphs,
    wrapped,
)

TEXT = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"


@pytest.mark.parametrize("limit", [4, 10, 51, 52, 53])
def test_cut_text_has_its_beginning(limit: int) -> None:
    text = cut(TEXT, limit)
    assert len(text) == min(limit, len(TEXT))
    if limit >= len(TEXT):
        assert text == TEXT
    else:
        assert text.endswith("...")
        assert TEXT.startswith(text[:-3])


@pytest.mark.parametrize("width", [0, 23, 24, 25, 51, 52, 53])
def test_an_abridged_name_keeps_both_ends(width: int) -> None:
    name, allowed = abridged(TEXT, width), max(width, 24)  # 24 characters are always allowed
    assert len(name) == min(allowed, len(TEXT))
    if allowed >= len(TEXT):
        assert name == TEXT
    else:
        head, tail = name.split("...")
        assert TEXT.startswith(head)
        assert TEXT.endswith(tail)
        assert len(tail) - len(head) in (0, 1)


def test_columns_are_aligned() -> None:
    rows = [("name", "kind", "size"), ("a", "b", 1), ("longer", "c", 22)]
    assert format_columns(rows).splitlines() == [
        "name    kind  size",
        "a          b     1",
        "longer     c    22",
    ]
    # the second argument is the number of left-aligned columns
    assert format_columns(rows, 2).splitlines()[1] == "a       b        1"
    assert format_columns(rows, 0).splitlines()[1] == "     a     b     1"
    assert format_columns(rows, 3).splitlines()[1] == "a       b     1"


def test_markdown_has_the_same_alignment() -> None:
    rows = [("a|b", "n"), ("c", 1)]
    assert format_markdown(rows) == "| a/b | n |\n| --- | ---: |\n| c | 1 |\n"
    assert format_markdown(rows, 0).splitlines()[1] == "| ---: | ---: |"
    assert format_markdown(rows, 2).splitlines()[1] == "| --- | --- |"


def test_definitions_fill_two_columns() -> None:
    rows = [("a", "one two three"), ("bcd", "four"), ("e", "")]
    assert format_definitions(rows, 14, " ").splitlines() == [
        " a    one two",
        "      three",
        " bcd  four",
        " e",
    ]
    # " a    one two three" has 19 characters
    assert format_definitions(rows, 15, " ").splitlines()[:2] == [" a    one two", "      three"]
    assert format_definitions(rows, 19, " ").splitlines()[0] == " a    one two three"
    assert format_definitions(rows, 18, " ").splitlines()[0] == " a    one two"


def test_words_are_never_broken() -> None:
    assert wrapped("a long-hyphenated b", 4) == ["a", "long-hyphenated", "b"]
    assert wrapped("a b", 0) == wrapped("a b", 1) == ["a", "b"]
    assert wrapped(" ab cd ", 5, "- ", "  ") == ["- ab", "  cd"]


def test_lists_and_indented_lines_stay_as_they_are() -> None:
    text = "one\ntwo\n\n- item\n- other item\n\nhead\n  code that is long"
    expected = ["one two", "", "- item", "- other item", "", "head", "  code that is long"]
    assert paragraphs(text, 8) == expected


@pytest.mark.parametrize("count", [0, 1, 2, 3, 4])
def test_a_long_list_says_how_many_more(count: int) -> None:
    items = ["a", "b", "c", "d"][:count]
    shown, _, rest = listed(items, 2).partition(" and ")
    assert shown == ", ".join(items[:2])
    assert rest == (f"{count - 2} more" if count > 2 else "")
