# SPDX-License-Identifier: Apache-2.0
"""Passes by their names: which there are, which are meant, and what is known of one that is not imported."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from importlib import import_module
from typing import Any

from circlekit.errors import RewriteError
from circlekit.ir.graph import Graph
from circlekit.ir.text.lexer import near_miss
from circlekit.passes import all_passes
from circlekit.passes.manifest import Entry, entry_of, manifest
from circlekit.passes.pipelines import PIPELINES
from circlekit.passes.plugins import load_plugins
from circlekit.rewrite.base import PASSES, Option, Pass
from circlekit.rewrite.definition import has_all

HOME = __name__.rpartition(".")[0]


def find_pass(name: str) -> type[Pass]:
    """The pass of that name, whose module is imported if it has to be; RewriteError where there is none.

    One of ours is imported in any case, which refuses a pass of somebody else that is called like it.
    """
    if name in manifest():
        import_module(f"{HOME}.{manifest()[name].module}")
    if name in PASSES:
        return PASSES[name]
    known = passes_with([name])
    if name not in known:
        raise RewriteError(unknown_name("pass", name, known))
    return known[name]


def check_passes(names: Iterable[str]) -> None:
    """RewriteError for a name that no pass has, or one of somebody else that is called like one of ours."""
    for name in names:
        if name in PASSES or name not in manifest():
            find_pass(name)


def passes_with(names: Iterable[str]) -> dict[str, type[Pass]]:
    """Every pass by name; those of other packages only if one of ``names`` is none of ours."""
    known = all_passes()
    if all(name in known or name in PIPELINES for name in names):
        return known
    load_plugins()
    return all_passes()


def may_change(name: str, graph: Graph) -> bool:
    """Whether ``graph`` has the operators that the pass of that name looks for, as far as that is known."""
    pictures = _entry(name).pictures
    return pictures is None or any(has_all(graph.kinds, shown) for shown in pictures)


def _entry(name: str) -> Entry:
    return manifest()[name] if name in manifest() else entry_of(find_pass(name))


def all_options() -> dict[str, Option]:
    """What passes let a user set, by name."""
    return {option.name: option for item in all_passes().values() for option in item.options}


def check_settings(settings: Mapping[str, Any]) -> None:
    """RewriteError for a setting that no pass has."""
    known = all_options() if settings else {}
    for name in settings:
        if name not in known:
            raise RewriteError(unknown_name("setting of a pass", name, known))


def pass_names(
    passes: str | Iterable[str], disable: Collection[str] = (), format: str | None = None
) -> list[str]:
    """The passes that are meant: the names of pipelines replaced by their passes, without ``disable``.

    A pass of a pipeline that makes no sense for ``format``, or would undo a pass that is named, is left
    out.  One that is named stays: what ``format`` lacks is replaced when the model is written.
    RewriteError for a name that is neither a pass nor a pipeline, in ``disable`` too.
    """
    asked = [passes] if isinstance(passes, str) else list(passes)
    names: dict[str, None] = {}
    for name in asked:
        if name in PIPELINES:
            members = ((n, _entry(n)) for n in PIPELINES[name])
            fitting = (n for n, e in members if format is None or format in e.formats)
            names.update({n: None for n in fitting if not _entry(n).undoes.intersection(asked)})
        else:
            _check_name(name)
            names[name] = None
    for name in disable:
        check_passes([name])
        names.pop(name, None)
    return list(names)


def _check_name(name: str) -> None:
    """RewriteError where it is no pass; of a pipeline it is known that it is none."""
    if name not in PASSES and name not in manifest():
        known = passes_with([name])
        if name not in known:
            raise RewriteError(unknown_name("pass or pipeline", name, [*known, *PIPELINES]))


def only_pipelines(passes: str | Iterable[str]) -> bool:
    """Whether no pass is asked for by its own name."""
    return all(name in PIPELINES for name in ([passes] if isinstance(passes, str) else passes))


def unknown_name(kind: str, name: str, known: Iterable[str]) -> str:
    """The sentence for a name that does not exist, with the names that it may have meant."""
    return f"there is no {kind} {name!r}" + near_miss(name, known, 3)
