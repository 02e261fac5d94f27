# SPDX-License-Identifier: Apache-2.0
"""Errors: the message, the places, and suggestions for a mistyped name."""

from __future__ import annotations

import pytest

from circlekit.errors import SEARCH_LIMIT_CHARACTERS, CirclekitError, ModelError, ShapeError, near_miss


def test_places_stand_below_the_message_one_a_line() -> None:
    error = ShapeError("expected rank 4, got 3", "at bias").note("at op 1").note("at net.circle")
    assert error.message == "expected rank 4, got 3"
    assert error.where == ["at bias", "at op 1", "at net.circle"]
    assert str(error) == "expected rank 4, got 3\n  at bias\n  at op 1\n  at net.circle"
    assert isinstance(error, ModelError)
    assert isinstance(error, CirclekitError)


@pytest.mark.parametrize(
    ("word", "most", "hint"),
    [
        ("strid_h", 1, "; did you mean stride_h?"),
        ("stride", 1, "; did you mean stride_h?"),
        ("stride", 2, "; did you mean stride_h or stride_w?"),
        ("str", 2, "; did you mean stride_h or stride_w?"),
        ("st", 2, ""),
        ("zzz", 2, ""),
        ("", 1, ""),
    ],
)
def test_a_near_miss(word: str, most: int, hint: str) -> None:
    assert near_miss(word, ["padding", "stride_h", "stride_w"], most) == hint


def test_long_words_are_not_compared() -> None:
    word = "a" * SEARCH_LIMIT_CHARACTERS
    assert near_miss(word, [word]) == ""
    assert near_miss(word[1:], [word[1:]]) != ""
