# SPDX-License-Identifier: Apache-2.0
"""Families of rewrites: one description with ``$words``, and a subclass for each set of their values."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from string import Template

from circlekit.errors import RewriteError

TEXTS = ("__doc__", "name", "before", "after")
"""The class attributes in which words are replaced."""


def is_template(cls: type) -> bool:
    """Whether the name or a picture of a rewrite class has words without a value."""
    return any("$" in getattr(cls, text) for text in ("name", "before", "after"))


def fill_template(cls: type, words: Mapping[str, str]) -> None:
    """Replace each ``$word`` in the texts that ``cls`` has or inherits.

    RewriteError for a word that no text contains, and for a class with a name of its own whose pictures
    still lack a value.
    """
    label = f"{cls.__module__}.{cls.__name__}"
    unused = set(words)
    for attribute in TEXTS if words else ():
        text = (inspect.getdoc(cls) if attribute == "__doc__" else getattr(cls, attribute)) or ""
        template = Template(text)
        unused -= {match["named"] or match["braced"] for match in template.pattern.finditer(text)}
        setattr(cls, attribute, template.safe_substitute(words))
    if unused:
        raise RewriteError(f"{label}: the texts of the class have no ${min(unused)}")
    if cls.__dict__.get("name") and "$" not in cls.__dict__["name"] and is_template(cls):
        raise RewriteError(f"{label}: a $word in its pictures has no value; give it as a class keyword")
