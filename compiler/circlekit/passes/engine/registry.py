# SPDX-License-Identifier: Apache-2.0
"""Find passes and pipelines by name.

No list of passes is kept: every module below ``circlekit.passes`` is imported when passes are first needed,
and defining a class with a ``name`` registers it.  Another package declares its modules of passes as entry
points in the group ``circlekit.passes``; they are imported when a name is not a pass of circlekit, or by
``every_pass``.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Collection, Iterable
from functools import cache
from importlib import import_module
from pathlib import Path

from circlekit.errors import RewriteError, check_name, did_you_mean, names_in
from circlekit.passes.pipelines import PIPELINES, Phase
from circlekit.rewrite.base import PASSES, Pass

ENTRY_POINTS = "circlekit.passes"
"""The group of entry points by which other packages declare modules of passes."""


def all_passes() -> dict[str, type[Pass]]:
    """Return every pass of circlekit, and others defined so far, by name, in alphabetical order."""
    _import_own()
    return dict(sorted(PASSES.items()))


@cache
def _import_own() -> None:
    """Import all modules of ``circlekit.passes``, which registers their passes."""
    for module in pkgutil.walk_packages([str(Path(__file__).parents[1])], "circlekit.passes."):
        import_module(module.name)


@cache
def load_plugins() -> None:
    """Import the passes of other installed packages.

    Raise RewriteError, which names the package, if a module cannot be imported, or if two passes have the
    same name.
    """
    from importlib.metadata import EntryPoint, entry_points  # slow to import and rarely needed

    _import_own()  # first: if two passes have one name, the error is about the other package

    def load(point: EntryPoint) -> None:
        try:
            point.load()
        except Exception as error:  # foreign code may raise anything
            package = point.dist.name if point.dist is not None else "an unknown package"
            reason = f"{type(error).__name__}: {error}"
            raise RewriteError(f"cannot load the passes of {package} ({point.value}): {reason}") from error

    for point in sorted(entry_points(group=ENTRY_POINTS), key=lambda p: (p.name, p.value)):
        load(point)


def every_pass() -> dict[str, type[Pass]]:
    """Return the class of every pass by name, including the passes of other installed packages."""
    load_plugins()
    return all_passes()


def passes_with(names: Iterable[str]) -> dict[str, type[Pass]]:
    """Return the passes by name; load those of other packages first if circlekit lacks one of ``names``."""
    known = all_passes()
    if all(name in known or name in PIPELINES for name in names):
        return known
    return every_pass()


def find_pass(name: str) -> type[Pass]:
    """Return the pass called ``name``.

    Raise RewriteError if there is none, ModelError if ``name`` is not a string.
    """
    check_name("a pass", name)
    known = passes_with([name])
    if name in PIPELINES:
        raise RewriteError(f"expected the name of a pass, got the pipeline {name}")
    if name not in known:
        raise RewriteError(unknown_name("pass", name, known))
    return known[name]


def select_passes(
    passes: str | Iterable[str], disable: str | Iterable[str] = (), format: str | None = None
) -> list[Phase | str]:
    """Return ``passes`` with each pipeline replaced by its phases, without the passes in ``disable``.

    Two kinds of passes are left out of a pipeline: those that do not support ``format``, and those that would
    undo a pass that is requested by name.  Neither reason drops a pass that ``passes`` itself names:
    operators that ``format`` lacks are legalized when the model is written.  If a pass has several places, by
    its name or in pipelines, it runs only at the first.

    Raise RewriteError if a name in ``passes`` is neither a pass nor a pipeline, or a name in ``disable`` is
    not a pass.  Raise ModelError for a name that is not a string.
    """
    requested, omitted = names_in("a pass", passes), names_in("a pass", disable)
    known = passes_with([*requested, *omitted])
    handled = {find_pass(name).name for name in omitted}  # the passes that are disabled or already selected

    def is_wanted(member: str) -> bool:
        kind = known[member]
        fits = (format is None or format in kind.formats) and not kind.undoes.intersection(requested)
        return fits and member not in handled

    selected: list[Phase | str] = []
    for name in requested:
        if name not in PIPELINES and name not in known:
            names = did_you_mean(name, [*known, *PIPELINES], 3) or f"; pipelines: {', '.join(PIPELINES)}"
            raise RewriteError(f"there is no pass or pipeline {name!r}{names}")
        for phase in PIPELINES.get(name, ()):
            members = tuple(filter(is_wanted, phase.passes))
            selected.append(phase._replace(passes=members))
            handled.update(members)
        if name not in PIPELINES and name not in handled:
            selected.append(name)
            handled.add(name)
    return selected


def pass_names(
    passes: str | Iterable[str], disable: Collection[str] = (), format: str | None = None
) -> list[str]:
    """Return the names of the passes that ``select_passes`` selects, in order."""
    selected = select_passes(passes, disable, format)
    return [name for item in selected for name in (item.passes if isinstance(item, Phase) else (item,))]


def unknown_pass(name: str) -> str:
    """Return "" if ``name`` is a pass or a pipeline, else the error message.  ``-`` may stand for ``_``."""
    try:
        select_passes(name.replace("-", "_"))
    except RewriteError as error:
        return error.message
    return ""


def only_pipelines(passes: str | Iterable[str]) -> bool:
    """Return whether ``passes`` names only pipelines."""
    return all(name in PIPELINES for name in names_in("a pass", passes))


def unknown_name(kind: str, name: str, known: Iterable[str]) -> str:
    """Return the error message for an unknown name, with the most similar known names."""
    return f"there is no {kind} {name!r}" + did_you_mean(name, known, 3)
