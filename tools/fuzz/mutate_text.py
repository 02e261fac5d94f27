# SPDX-License-Identifier: Apache-2.0
"""Mutate a text word by word: a recipe of circlekit (.ck) or of ONE (.recipe)."""

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
    "shape_signature { dim: -1 }", "[" * 3000, "{" * 50, "(" * 3000, "<" * 50, "-" * 3000,
)  # fmt: skip
"""Words that caused faults before, or might."""


def mutate_text(text: str, others: Sequence[str], rng: random.Random) -> tuple[str, list[str]]:
    """Return ``text`` with some words changed, and the kinds of the changes.

    ``others``: texts from which words are taken, too.
    """
    words = _WORD.findall(text) or ["x"]
    done = rng.choices(list(KINDS), list(KINDS.values()), k=rng.choice((1, 1, 1, 2, 2, 3, 5)))
    for kind in done:
        at, there = _place(words, rng), _place(words, rng)
        if kind == "replace":
            words[at] = _other_word(words, others, rng)
        elif kind == "like":
            words[at] = rng.choice([word for word in words if _class(word) == _class(words[at])])
        elif kind == "insert":
            words.insert(at, _other_word(words, others, rng) + rng.choice(("", " ")))
        elif kind == "swap":
            words[at], words[there] = words[there], words[at]
        elif kind == "copy":
            words[there:there] = words[at : at + rng.choice((1, 10, 40))]
        else:
            del words[at : at + rng.choice((1, 1, 1, 2, 6, 30, len(words)))]
            words = words or ["x"]
    return "".join(words), done


KINDS = {"like": 8, "replace": 9, "delete": 2, "insert": 3, "swap": 2, "copy": 1}
"""Kinds of changes with their weights; ``like`` replaces a word by another of its class."""


def _class(word: str) -> str:
    """Return the class of a word; words of one class can replace each other.

    The classes: quoted strings, numbers, names with %, names with @, other names, and each sign by itself.
    """
    first = word[0]
    if first == '"':
        return "text"
    if first.isdigit():
        return "number"
    if first in "%@" and len(word) > 1:
        return f"{first}name"
    return "word" if first.isalpha() or first == "_" else word


def _place(words: list[str], rng: random.Random) -> int:
    """Return the position of a word that is not white space."""
    return rng.choice([at for at, word in enumerate(words) if not word.isspace()] or [0])


def _other_word(words: list[str], others: Sequence[str], rng: random.Random) -> str:
    """Return an odd word, one of this text, or one of another text."""
    there = _WORD.findall(rng.choice(others)) or ["x"]
    return rng.choice((rng.choice(ODD), words[_place(words, rng)], there[_place(there, rng)]))
