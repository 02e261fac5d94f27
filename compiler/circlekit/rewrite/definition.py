# SPDX-License-Identifier: Apache-2.0
"""Fill in the template of a rewrite class (its ``$words``), and parse and check its pictures.

A picture is a small graph as text; a rewrite replaces what matches ``before`` by ``after``.  A template is a
rewrite class with words such as ``$layer`` in its texts; subclasses give these words as class keywords.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from string import Template
from typing import Any

from circlekit.errors import RewriteError
from circlekit.ir.op import REGISTRY, Op, OpaqueOp
from circlekit.rewrite.base import check_text
from circlekit.rewrite.picture import Picture, carry_attributes, kind_name, parse_picture

STRINGS = ("name", "before", "after")
"""The attributes of a rewrite class that are strings."""

TEXTS = ("__doc__", *STRINGS)
"""The attributes of a rewrite class in which ``$words`` are replaced."""


def is_template(cls: type) -> bool:
    """Return whether the name or a picture of a rewrite class contains a ``$word``."""
    return any("$" in getattr(cls, text) for text in STRINGS)


def _words_of(text: str) -> set[str]:
    """Return the names of all ``$word`` and ``${word}`` in ``text``."""
    return {match["named"] or match["braced"] for match in Template.pattern.finditer(text)}


def fill_template(cls: type, words: Mapping[str, Any]) -> None:
    """Replace each ``$word`` in the texts that ``cls`` has or inherits.

    ``words``: the keywords of the class.  A string may contain further ``$words``.  The keyword ``name``, and
    values that are not strings, replace nothing: they become attributes of the class.
    Raise RewriteError in these cases:

    - No text contains the ``$word`` of a keyword.
    - The value of a keyword contains its own ``$word``, directly or through other values.
    - The name or a picture is not a string.
    - The class defines a ``name`` without ``$words``, but its pictures still contain a ``$word``.
    """
    for word, value in words.items():
        if word == "name" or not isinstance(value, str):
            setattr(cls, word, value)
    for attribute in STRINGS:
        check_text(cls, attribute)
    values = {word: value for word, value in words.items() if isinstance(value, str) and word != "name"}
    label = f"{cls.__module__}.{cls.__name__}"
    used: set[str] = set()
    for attribute in TEXTS if values else ():
        text = (inspect.getdoc(cls) if attribute == "__doc__" else getattr(cls, attribute)) or ""
        for _ in values:  # one round for each level: a value may contain the $words of other values
            used |= _words_of(text) & values.keys()
            text = Template(text).safe_substitute(values)
        if endless := _words_of(text) & values.keys():
            raise RewriteError(f"{label}: the value of ${min(endless)} contains itself")
        setattr(cls, attribute, text)
    if unused := values.keys() - used:
        raise RewriteError(f"{label}: the texts of the class have no ${min(unused)}")
    if cls.__dict__.get("name") and "$" not in cls.__dict__["name"] and is_template(cls):
        raise RewriteError(f"{label}: a $word in its pictures has no value; give it as a class keyword")


KindNames = tuple[str, ...]
"""The names of the operators that one node of a picture accepts."""

_CALL = re.compile(r'"(?:[^"\\\n]|\\.)*"|#[^\n]*|=\s*(\w+(?:\s*\|\s*\w+)*)\s*\(')
"""Finds, as group 1, the operator names between ``=`` and ``(``, but none inside of strings and comments."""


_COPY = re.compile(r"\s*(\w+)\s*=\s*(\w+)\s*")
"""Matches ``result = value``.  It is no picture; authors write it to say that a value replaces the result."""


@dataclass(frozen=True, eq=False, repr=False)
class Definition:
    """The pictures of a rewrite class and facts about its methods.

    ``conditions``: names of the methods marked as conditions.  ``constant_names``: operands of
    ``before`` that must be constant.  ``parameters``: for each condition and for the method
    ``constants``, the names of its parameters.
    """

    before: Picture
    after: Picture
    conditions: tuple[str, ...]
    constant_names: frozenset[str]
    parameters: dict[str, tuple[str, ...]]


def define(owner: type, before: str, after: str, computes_constants: bool) -> Definition:
    """Parse the texts ``before`` and ``after`` of class ``owner`` and check them against its members.

    ``computes_constants``: whether ``after`` may use names that only the method ``constants`` supplies.
    Raise ParseError for text that is not a picture.  Raise RewriteError for a template, and for pictures and
    members that do not fit together.
    """
    label = f"{owner.__module__}.{owner.__name__}"
    if "$" in before + after:
        raise RewriteError(f"{label} is a template; a subclass must give a value for each $word in its text")
    old = parse_picture(before, label + ".before")
    if copied := _COPY.fullmatch(after):
        advice = f"to put {copied[2]} in the place of {copied[1]}, write only {copied[2]}"
        raise RewriteError(f"{label}: `after` is `{after.strip()}`, without an operator; {advice}")
    attribute_names = sorted(old.bound())  # such as ``a`` in ``{act: any = a}``
    new = parse_picture(after, label + ".after", attribute_names, is_after=True)
    _check_results(old, new, label)
    _check_interior_names(owner, old, label)
    in_pictures = {*old.operand_names(), *old.producer, *new.producer}
    others = [name for name in new.operand_names() if name not in in_pictures]
    if others and not computes_constants:
        raise RewriteError(f"{label}: `after` reads {others[0]}, which `before` does not have")
    # ``may_match`` relies on ``operator_names``, which must find the same names as the parser
    if operator_names(before) != tuple(tuple(map(kind_name, node.kinds)) for node in old.nodes):
        raise RewriteError(f"{label}: expected each operator of `before` as `result = Operator(...)`")
    carry_attributes(old, new)  # sets ``carried`` of the nodes of ``old``
    members = {name: member for base in reversed(owner.__mro__) for name, member in vars(base).items()}
    conditions = tuple(name for name, m in members.items() if getattr(m, "is_condition", False))
    constant_names = frozenset(o.name for node in old.nodes for o in node.operands if o.name and o.const)
    parameters = {name: _parameters(owner, old, name, label) for name in (*conditions, "constants")}
    return Definition(old, new, conditions, constant_names, parameters)


# -- before a picture is parsed ------------------------------------------------------------------


@lru_cache(maxsize=1 << 14)
def may_match(text: str, kinds: frozenset[type[Op]]) -> bool:
    """Return whether ``kinds``, the operator classes of a graph, include one for each node of a picture."""
    names = _names_of(kinds)
    return all(any(name in names for name in choice) for choice in operator_names(text))


@lru_cache(maxsize=1024)
def operator_names(text: str) -> tuple[KindNames, ...]:
    """Return the operator names that each node of the picture ``text`` accepts, without parsing the text."""
    choices = (match.group(1) for match in _CALL.finditer(text))
    return tuple(tuple(name.strip() for name in kinds.split("|")) for kinds in choices if kinds)


@lru_cache(maxsize=64)
def _names_of(kinds: frozenset[type[Op]]) -> frozenset[str]:
    """Return the names that pictures use for these operator classes and their registered base classes."""
    # a base class that is not registered is left out: it may have the same name as an operator
    registered = {OpaqueOp, *REGISTRY.values()}
    return frozenset(kind_name(base) for kind in kinds for base in kind.__mro__ if base in registered)


# -- checks --------------------------------------------------------------------------------------


def _check_results(old: Picture, new: Picture, label: str) -> None:
    """Raise RewriteError if picture ``new`` (``after``) does not fit picture ``old`` (``before``).

    ``after`` may be only a name: that of the value of ``before`` that replaces the result.  This name is then
    ``new.alias``.
    """
    if not old.nodes:
        raise RewriteError(f"{label}: `before` has no operator")
    for node in old.nodes[:-1]:  # matching begins at the last operator
        if not set(node.results) & set(old.operand_names()):
            raise RewriteError(f"{label}: `before` has {node.results[0]}, which no operator reads")
    if new.alias is not None:
        if new.alias not in {*old.operand_names(), *old.producer}:
            raise RewriteError(f"{label}: `after` is the value {new.alias}, which `before` does not have")
        return
    for name in old.root.results:
        if name not in new.producer:
            raise RewriteError(f"{label}: `after` does not produce {name}, the result of `before`")
    for node in new.nodes:
        if node.like is not None and node.like not in old.producer:
            raise RewriteError(f"{label}: `after` says `like {node.like}`, but `before` does not produce it")
        for name in node.results:
            if name in old.producer and name not in old.root.results:
                found = f"`after` produces {name}, an interior value of `before`"
                raise RewriteError(f"{label}: {found}; give it another name in `after`")


def _check_interior_names(owner: type, old: Picture, label: str) -> None:
    """Raise RewriteError unless all names in ``shared`` and ``spread`` of a rewrite are interior results."""
    for attribute in ("shared", "spread"):
        for name in getattr(owner, attribute):
            if name not in old.producer or name in old.root.results:
                raise RewriteError(f"{label}: `{attribute}` has {name}, no interior result of `before`")


def _parameters(owner: type, old: Picture, method: str, label: str) -> tuple[str, ...]:
    """Return the names of the parameters of ``method``, without ``self``.

    Raise RewriteError for a parameter that is neither ``match`` nor a name in ``old`` (``before``).
    """
    # of a dimension such as ``O|1``, the letter O
    dims = {str(d).split("|")[0] for n in old.nodes for o in n.operands for d in o.dims or ()}
    bound = {*old.operand_names(), *old.producer, *old.bound(), *dims, "match"}
    code = inspect.unwrap(getattr(owner, method)).__code__  # inspect.signature is slow
    names: tuple[str, ...] = code.co_varnames[1 : code.co_argcount + code.co_kwonlyargcount]
    for name in names:
        if name not in bound:
            raise RewriteError(f"{label}.{method}: the parameter {name} is no name in `before`")
    return names
