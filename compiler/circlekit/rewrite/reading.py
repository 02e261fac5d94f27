# SPDX-License-Identifier: Apache-2.0
"""When and how the pictures of a class are read.

Those of this package are read when they are first wanted: they are more than two hundred, a model has the
operators of a few, and which operators a picture shows is seen in its text.  A test reads them all.  Those
of others are read when their class is made: a typo fails there.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from circlekit.errors import RewriteError
from circlekit.ir.op import REGISTRY, Op, OpaqueOp
from circlekit.rewrite.picture import Picture, carry_attributes, kind_name, parse_picture

if TYPE_CHECKING:
    from circlekit.rewrite.rewrite import Rewrite

_KINDS = re.compile(r'"(?:[^"\\\n]|\\.)*"|#[^\n]*|=\s*(\w+(?:\s*\|\s*\w+)*)\s*\(')
"""A string, a comment, or the kinds of an operator: between a sign of equality and a parenthesis."""


def unread(owner: type[Rewrite], has_constants: bool) -> None:
    """Have the pictures of ``owner`` read when one of the parts is wanted."""
    for name in _PARTS:
        setattr(owner, name, _Part(name, has_constants))
    if owner.__module__.partition(".")[0] != __name__.partition(".")[0]:
        _ = owner.old


_PARTS = ("old", "new", "conditions", "constant_names", "parameters")


class _Part:
    """An attribute of a class that takes all of them from the pictures."""

    def __init__(self, name: str, has_constants: bool) -> None:
        self.name = name
        self.has_constants = has_constants

    def __get__(self, rewrite: Rewrite | None, owner: type[Rewrite]) -> Any:
        parts = _read(owner, self.has_constants)
        for name, part in zip(_PARTS, parts, strict=True):
            setattr(owner, name, part)
        return getattr(owner, self.name)


def _read(owner: type[Rewrite], has_constants: bool) -> tuple[Any, ...]:
    """Parse and check the pictures; ``_PARTS`` in their order."""
    label = f"{owner.__module__}.{owner.__name__}"
    old = parse_picture(owner.before, label + ".before")
    new = parse_picture(owner.after, label + ".after", sorted(old.bound()), free=True)
    _check_names(old, new, label)
    if not has_constants:
        _check_operands(old, new, label)
    if kinds_shown(owner.before) != tuple(tuple(map(kind_name, node.kinds)) for node in old.nodes):
        raise RewriteError(f"{label}: the operators of before are not where they are looked for")
    carry_attributes(old, new)
    members = {n: m for base in reversed(owner.__mro__) for n, m in vars(base).items()}
    conditions = tuple(n for n, m in members.items() if getattr(m, "is_condition", False))
    constant_names = frozenset(o.name for n in old.nodes for o in n.operands if o.name and o.const)
    parameters = {n: _parameters(owner, old, n, label) for n in (*conditions, "constants")}
    return old, new, conditions, constant_names, parameters


# -- before a picture is read --------------------------------------------------------------------


Shown = tuple[tuple[str, ...], ...]
"""The operators of a picture, each with the names of the kinds that it may be of."""


@lru_cache(maxsize=1 << 14)
def may_fit(text: str, kinds: frozenset[type[Op]]) -> bool:
    """Whether a graph of operators of these kinds has all that the picture in ``text`` shows."""
    return has_all(kinds, kinds_shown(text))


def has_all(kinds: frozenset[type[Op]], shown: Shown) -> bool:
    """Whether a graph of operators of these kinds has one for each that is ``shown``."""
    names = _names_of(kinds)
    return all(any(name in names for name in choice) for choice in shown)


@lru_cache(maxsize=1024)
def kinds_shown(text: str) -> Shown:
    """The operators of a picture, each with the kinds that it may be of."""
    found = (match.group(1) for match in _KINDS.finditer(text))
    return tuple(tuple(name.strip() for name in kinds.split("|")) for kinds in found if kinds)


@lru_cache(maxsize=64)
def _names_of(kinds: frozenset[type[Op]]) -> frozenset[str]:
    """What pictures call these kinds."""
    known = {OpaqueOp, *REGISTRY.values()}  # a base that two operators share may be called like a third
    return frozenset(kind_name(base) for kind in kinds for base in kind.__mro__ if base in known)


# -- checks --------------------------------------------------------------------------------------


def _walk_names(picture: Picture) -> Iterator[str]:
    for node in picture.nodes:
        yield from (o.name for o in node.operands if o.name)


def _check_names(old: Picture, new: Picture, label: str) -> None:
    """The root's results must be made again, and only they; ``like`` must name an operator of before."""
    if not old.nodes:
        raise RewriteError(f"{label}: before needs an operator")
    if new.alias is not None:
        if new.alias not in set(_walk_names(old)) | set(old.producer):
            raise RewriteError(f"{label}: after is {new.alias}, which before does not have")
        return
    for name in old.root.results:
        if name not in new.producer:
            raise RewriteError(f"{label}: after does not make {name}, the result of before")
    for node in new.nodes:
        if node.like is not None and node.like not in old.producer:
            raise RewriteError(f"{label}: after says like {node.like}, which is no operator of before")
        for name in node.results:
            if name in old.producer and name not in old.root.results:
                raise RewriteError(
                    f"{label}: after makes {name}, which is inside before; give it another name"
                )


def _check_operands(old: Picture, new: Picture, label: str) -> None:
    """Without ``constants``, what after reads must be in before, or made by after itself."""
    known = {*_walk_names(old), *old.producer, *new.producer}
    for name in _walk_names(new):
        if name not in known:
            raise RewriteError(f"{label}: after reads {name}, which before lacks and no constants make")


def _parameters(owner: type[Rewrite], old: Picture, method: str, label: str) -> tuple[str, ...]:
    """The parameters of a method; RewriteError for one that no name of the picture would fill."""
    dims = {str(d).split("|")[0] for n in old.nodes for o in n.operands for d in o.dims or ()}
    known = old.operand_names() | set(old.producer) | old.bound() | dims | {"match"}
    code = inspect.unwrap(getattr(owner, method)).__code__  # inspect.signature is slow
    names: tuple[str, ...] = code.co_varnames[1 : code.co_argcount + code.co_kwonlyargcount]
    for name in names:
        if name not in known:
            raise RewriteError(f"{label}.{method}: the picture has no {name}")
    return names
