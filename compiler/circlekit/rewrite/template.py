# SPDX-License-Identifier: Apache-2.0
"""Families of rewrites: one description with ``$words``, and a subclass for each set of their values."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from string import Template
from typing import Any

from circlekit.errors import RewriteError

TEXTS = ("__doc__", "name", "before", "after")
"""The class attributes in which words are replaced."""


def is_template(cls: type) -> bool:
    """Return whether the name or a picture of a rewrite class has words without a value."""
    return any("$" in getattr(cls, text) for text in ("name", "before", "after"))


def fill_template(cls: type, words: Mapping[str, Any]) -> None:
    """Replace each ``$word`` in the texts that ``cls`` has or inherits; a value may contain further words.

    The word ``name``, and values that are not text, become attributes of the class.
    RewriteError for a word that no text contains, and for a class with a name of its own whose pictures
    still lack a value.
    """
    for word, value in words.items():
        if word == "name" or not isinstance(value, str):
            setattr(cls, word, value)
    values = {word: value for word, value in words.items() if isinstance(value, str) and word != "name"}
    label = f"{cls.__module__}.{cls.__name__}"
    used: set[str] = set()
    for attribute in TEXTS if values else ():
        text = (inspect.getdoc(cls) if attribute == "__doc__" else getattr(cls, attribute)) or ""
        while found := {m["named"] or m["braced"] for m in Template.pattern.finditer(text)} & values.keys():
            used |= found
            text = Template(text).safe_substitute(values)
        setattr(cls, attribute, text)
    if unused := values.keys() - used:
        raise RewriteError(f"{label}: the texts of the class have no ${min(unused)}")
    if cls.__dict__.get("name") and "$" not in cls.__dict__["name"] and is_template(cls):
        raise RewriteError(f"{label}: a $word in its pictures has no value; give it as a class keyword")
