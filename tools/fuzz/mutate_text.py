# SPDX-License-Identifier: Apache-2.0
"""Mutate a text word by word: recipes of both languages."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence

_WORD = re.compile(r'"[^"\n]*"|[%@]?\w[\w.]*|\s+|[^\w\s]')
"""A quoted string, a name or number, white space, or a sign; every character belongs to one of them."""

ODD = (
    "-1", "0", "1", "99999999999", "1e400", "nan", "inf", "-inf", "-0.0", "1e-45", "4294967295", "2147483647",
    "9223372036854775807", "9223372036854775808", "[", "]", "{", "}", "(", ")", "<", ">", ":", ",", "?", "*",
    '""', '"', '"\\xff"', '"\\u0000"', '"\ud83d"', "true", "null", "_", "%", "@", "%x", "@main", "f32", "i32",
    "bool", "str", "i4", "bf16", "f32[0]", "f32[?]", "f32[-1]", "f32[99999,99999]", "[1,2,2,1]", "[0]", "[]",
    "const", "graph", "extra", "model", "named", "table", "signature", "metadata", "base64", "rules", "act",
    "RELU", "SAME", "gaussian(0, 1)", "uniform(0, 1)", "constant(3)", "explicit", "@other", "While", "If",
    "sparsity", "make_sparse: true", "ext_offset: true", "no_options: true", 'custom_options: "AAA="',
    "quant", "scale: 0", "zero_point: 300", "dim: -1", "dim: 65536", 'arg: "1"', "axis: 9",
    "shape_signature { dim: -1 }",
)  # fmt: skip
"""Words that caused faults before, or might."""

_KINDS = {
    "like": 8, "replace": 6, "number": 4, "delete": 2, "insert": 3, "swap": 2, "lines": 2, "cut": 0.5,
    "deep": 0.2,
}  # fmt: skip


def mutate_text(text: str, others: Sequence[str], rng: random.Random) -> tuple[str, list[str]]:
    """Return ``text`` with some words changed, and what was done; ``others``: texts to take words from."""
    words = _WORD.findall(text)
    done = []
    for _ in range(rng.choice((1, 1, 1, 2, 2, 3, 5))):
        done.append(_mutate(words, others, rng))
        words = words or ["x"]
    return "".join(words), done


def _mutate(words: list[str], others: Sequence[str], rng: random.Random) -> str:
    at = _place(words, rng)
    kind = rng.choices(list(_KINDS), list(_KINDS.values()))[0]
    if kind == "replace":
        words[at] = _word(words, others, rng)
    elif kind == "like":
        words[at] = rng.choice([word for word in words if _class(word) == _class(words[at])])
    elif kind == "number":
        numbers = [i for i, word in enumerate(words) if word.isdigit()] or [at]
        words[rng.choice(numbers)] = rng.choice((*ODD[:16], str(rng.randrange(-2, 10))))
    elif kind == "delete":
        del words[at : at + rng.choice((1, 1, 1, 2, 6))]
    elif kind == "insert":
        words.insert(at, _word(words, others, rng) + rng.choice(("", " ")))
    elif kind == "swap":
        there = _place(words, rng)
        words[at], words[there] = words[there], words[at]
    elif kind == "lines":
        _move_lines(words, rng)
    elif kind == "cut":
        del words[at:]
    else:
        words[at] = rng.choice("[({<-") * rng.choice((50, 3000))
    return kind


def _class(word: str) -> str:
    """Return the class of a word; words of one class can replace each other."""
    return (
        "text" if word[0] == '"' else "number" if word[0].isdigit() else "word" if word[0].isalpha() else word
    )


def _place(words: list[str], rng: random.Random) -> int:
    """Return the position of a word that is not white space."""
    for _ in range(9):
        at = rng.randrange(len(words))
        if not words[at].isspace():
            break
    return at


def _word(words: list[str], others: Sequence[str], rng: random.Random) -> str:
    kind = rng.random()
    if kind < 0.4:
        return rng.choice(ODD)
    if kind < 0.7:
        return words[_place(words, rng)]
    there: list[str] = _WORD.findall(rng.choice(others)) or ["x"]
    return there[_place(there, rng)]


def _move_lines(words: list[str], rng: random.Random) -> None:
    """Move or copy a few lines."""
    lines = "".join(words).split("\n")
    at, count = rng.randrange(len(lines)), rng.choice((1, 1, 3))
    piece = lines[at : at + count]
    if rng.random() < 0.5:
        del lines[at : at + count]
    there = rng.randrange(len(lines) + 1)
    lines[there:there] = piece
    words[:] = _WORD.findall("\n".join(lines))
