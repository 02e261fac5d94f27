# SPDX-License-Identifier: Apache-2.0
"""What is known of the passes of this package before their modules are imported.

O1 has a hundred, a model has the operators of a few.  ``manifest.json`` is written by
``python tools/gen_passes.py`` from the classes; a test compares them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import NamedTuple

from circlekit.rewrite.base import GraphPass, Pass
from circlekit.rewrite.definition import Kinds
from circlekit.rewrite.definition import operator_names as kinds_shown
from circlekit.rewrite.rewrite import Rewrite, Rules

Shown = tuple[Kinds, ...]
FILE = Path(__file__).with_name("manifest.json")


class Entry(NamedTuple):
    """One pass.  ``module``: below this package; ``formats``, ``undoes``: as its class has them.

    ``pictures``: the operators of each of its pictures, one of which a graph must have for the pass to
    change anything; None where only the pass can tell.
    """

    module: str
    formats: frozenset[str]
    undoes: frozenset[str]
    pictures: tuple[Shown, ...] | None


@cache
def manifest() -> Mapping[str, Entry]:
    """The passes of this package by name."""
    stored = json.loads(FILE.read_text(encoding="utf-8"))
    return {
        name: Entry(at, frozenset(f), frozenset(u), _pictures(p)) for name, (at, f, u, p) in stored.items()
    }


def _pictures(stored: list[list[str]] | None) -> tuple[Shown, ...] | None:
    if stored is None:
        return None
    return tuple(tuple(tuple(kinds.split("|")) for kinds in picture) for picture in stored)


def entry_of(kind: type[Pass]) -> Entry:
    """The same from the class."""
    module = kind.__module__.removeprefix(__name__.rpartition(".")[0] + ".")
    return Entry(module, kind.formats, kind.undoes, _shown(kind))


def _shown(kind: type[Pass]) -> tuple[Shown, ...] | None:
    if issubclass(kind, Rewrite) and _runs_as(kind, Rewrite):
        return (kinds_shown(kind.before),)
    if not issubclass(kind, Rules) or not _runs_as(kind, Rules):
        return None
    if not all(_runs_as(rule, Rewrite) for rule in kind.members()):
        return None
    wanted = dict.fromkeys(frozenset(kinds_shown(rule.before)) for rule in kind.members())
    least = (shown for shown in wanted if not any(other < shown for other in wanted))
    return tuple(tuple(sorted(shown)) for shown in least)


def _runs_as(kind: type[Pass], base: type[GraphPass]) -> bool:
    """Whether ``kind`` looks for pictures alone."""
    return kind.run is base.run and kind.run_graph is base.run_graph  # type: ignore[attr-defined]


def as_json(entries: Mapping[str, Entry]) -> str:
    """The text of ``manifest.json``: a line for each pass."""
    lines = (f" {json.dumps(name)}: {json.dumps(_stored(entry))}" for name, entry in sorted(entries.items()))
    return "{\n" + ",\n".join(lines) + "\n}\n"


def _stored(entry: Entry) -> list[object]:
    pictures = entry.pictures and [["|".join(kinds) for kinds in picture] for picture in entry.pictures]
    return [entry.module, sorted(entry.formats), sorted(entry.undoes), pictures]
