# SPDX-License-Identifier: Apache-2.0
"""Errors: the message, the places, and suggestions for a mistyped name."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from circlekit.errors import (
    SEARCH_LIMIT_CHARACTERS,
    CirclekitError,
    ModelError,
    ShapeError,
    counted,
    did_you_mean,
    edit_distance,
)


def test_places_stand_below_the_message_one_a_line() -> None:
    error = ShapeError("expected rank 4, got 3", "at bias").note("at op 1").note("at net.circle")
    assert error.message == "expected rank 4, got 3"
    assert error.where == ["at bias", "at op 1", "at net.circle"]
    assert str(error) == "expected rank 4, got 3\n  at bias\n  at op 1\n  at net.circle"
    assert isinstance(error, ModelError)
    assert isinstance(error, CirclekitError)


def test_a_noun_is_in_the_plural_unless_there_is_one() -> None:
    assert [counted(n, "zero point") for n in (0, 1, 2)] == ["0 zero points", "1 zero point", "2 zero points"]
    assert [counted(n, "axis", "axes") for n in (0, 1, 2)] == ["0 axes", "1 axis", "2 axes"]


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
def test_several_names_may_be_suggested(word: str, most: int, hint: str) -> None:
    assert did_you_mean(word, ["padding", "stride_h", "stride_w"], most) == hint


def test_of_equally_near_names_one_with_the_same_first_letter_is_suggested() -> None:
    assert did_you_mean("cab", ["tab", "cub"]) == "; did you mean cub?"


def test_long_words_are_not_compared() -> None:
    word = "a" * SEARCH_LIMIT_CHARACTERS
    assert did_you_mean(word, [word]) == ""
    assert did_you_mean(word[1:], [word[1:]]) != ""


NAMES = [
    "--verify",
    "--bisect",
    "--record",
    "-V",
    "fuse_batchnorm_with_conv",
    "remove_dead",
    "Relu",
    "bisect",
]


@pytest.mark.parametrize(
    ("word", "name"),
    [
        ("--verfy", "--verify"),
        ("--Verify", "--verify"),
        ("verify", "--verify"),
        ("--bisetc", "--bisect"),
        ("remove-deed", "remove_dead"),
        ("fuse_batchnorn_wth_conv", "fuse_batchnorm_with_conv"),
        ("RELU", "Relu"),
        ("removedead", "remove_dead"),
        ("--vefiry", "--verify"),
        ("Rellu", "Relu"),
    ],
)
def test_near_names_are_suggested(word: str, name: str) -> None:
    assert did_you_mean(word, NAMES) == f"; did you mean {name}?"


@pytest.mark.parametrize(
    "word",
    [
        "--quiet",
        "--nope",
        "-x",
        "-",
        "tests",
        "record_all",
        "Gemm",
        "remove_everything",
        "fuse_relu",
        "remove_drop",
        "--b",
    ],
)
def test_far_names_are_not_suggested(word: str) -> None:
    assert did_you_mean(word, NAMES) == ""


WORDS = st.text("abcde_", min_size=4, max_size=12)
# in the test below, ``word[1::-1] + word[2:]`` is ``word`` with its first two letters swapped


@settings(derandomize=True, max_examples=60)
@given(WORDS, st.integers(0, 11), st.sampled_from("xyz"))
def test_one_wrong_letter_is_near_and_another_word_is_far(word: str, at: int, letter: str) -> None:
    at %= len(word)
    wrong = word[:at] + letter + word[at + 1 :]
    assert edit_distance(word, wrong) == edit_distance(wrong, word) == 1
    assert edit_distance(word, word[:at] + letter + word[at:]) == 1
    assert edit_distance(word, word[1::-1] + word[2:]) == (word[0] != word[1])
    assert did_you_mean(wrong, [word]) == f"; did you mean {word}?"
    assert did_you_mean(letter * len(word), [word]) == ""
