# SPDX-License-Identifier: Apache-2.0
"""ONE's recipes, and a reader of their grammar that is independent of the project's."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from circlekit.ir.graph import Model
from circlekit.recipes.load import load_recipe
from tests.conftest import SHARED, without

RECIPES = sorted(SHARED.glob("peer/one/*/*/test.recipe"))
ABSENT = pytest.mark.skip(reason=without("peer/one"))

each_recipe = pytest.mark.parametrize(
    "path", RECIPES or [pytest.param(Path(), marks=ABSENT)], ids=lambda p: p.parent.name or "absent"
)
"""Runs a test on every recipe of ONE, or skips it where there are none."""


def one_recipe(shared: Path, name: str) -> Model:
    """Return the model of ONE's recipe ``name``; ``shared``: the folder of shared data."""
    return load_recipe(shared / "peer/one/TensorFlowLiteRecipes" / name / "test.recipe")


class Message:
    """A message of a recipe: its entries in order, as (field, word or message)."""

    def __init__(self, fields: list[tuple[str, Any]]) -> None:
        self.fields = fields

    def all(self, name: str) -> list[Any]:
        return [value for key, value in self.fields if key == name]

    def one(self, name: str, default: Any = None) -> Any:
        found = self.all(name)
        assert len(found) < 2, f"{name} is given {len(found)} times"
        return found[0] if found else default


def read(text: str) -> Message:
    """Return a whole recipe as a message.  Words are texts as they are written, without quotes."""
    words = re.findall(r'"[^"]*"|[{}\[\]]|[^\s:,{}"\[\]]+', re.sub(r"#.*", "", text))
    message, rest = _message(words)
    assert not rest
    return message


def _message(words: list[str]) -> tuple[Message, list[str]]:
    """Return the message at the beginning of ``words``, and the words from its closing brace on."""
    fields: list[tuple[str, Any]] = []
    while words and words[0] != "}":
        name, words = words[0], words[1:]
        if words[0] == "{":
            value, words = _message(words[1:])
            words = words[1:]
            fields.append((name, value))
        elif words[0] == "[":
            end = words.index("]")
            fields += [(name, word.strip('"')) for word in words[1:end]]
            words = words[end + 1 :]
        else:
            fields.append((name, words[0].strip('"')))
            words = words[1:]
    return Message(fields), words
