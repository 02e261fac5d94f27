# SPDX-License-Identifier: Apache-2.0
"""Find passes, pipelines and settings by name.

No list of passes is kept: every module below ``circlekit.passes`` is imported when passes are first needed,
and defining a class with a ``name`` registers it.  Another package declares its modules of passes as entry
points in the group ``circlekit.passes``; they are imported when a name is not a pass of circlekit, or by
``every_pass``.
"""

from __future__ import annotations

import pkgutil
import sys
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

from circlekit.errors import ParseError, RewriteError, check_name, did_you_mean, names_in
from circlekit.passes.pipelines import PIPELINES, Phase
from circlekit.rewrite.base import PASSES, Option, Pass

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ENTRY_POINTS = "circlekit.passes"
"""The group of entry points by which other packages declare modules of passes."""


def all_passes() -> dict[str, type[Pass]]:
    """Return every pass of circlekit and of packages loaded so far, by name, in alphabetical order."""
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

    Raise RewriteError, with the name of the package, if a module cannot be imported.
    """
    from importlib.metadata import EntryPoint, entry_points  # slow to import and rarely needed

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
    """Replace the names of pipelines by their phases, and drop the passes in ``disable``.

    A pass of a pipeline is left out if it does not support ``format``, or if it would undo a pass that is
    requested by name.  A pass that is requested by name itself is not left out for these reasons: operators
    that ``format`` lacks are legalized when the model is written.  A pass that is named twice, itself or by
    pipelines, runs at its first place.  Raise RewriteError for a name that is neither a pass nor a pipeline,
    and for a name in ``disable`` that is no pass; ModelError for a name that is not a string.
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
            raise RewriteError(unknown_name("pass or pipeline", name, [*known, *PIPELINES]))
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
    """Return the error message if ``name`` is neither a pass nor a pipeline, "" if it is one.

    ``-`` may stand for ``_``.
    """
    try:
        select_passes(name.replace("-", "_"))
    except RewriteError as error:
        return error.message
    return ""


def only_pipelines(passes: str | Iterable[str]) -> bool:
    """Return whether ``passes`` names only pipelines."""
    return all(name in PIPELINES for name in names_in("a pass", passes))


def all_options() -> dict[str, Option]:
    """Return the settings (options) of all passes registered so far, by name."""
    return {option.name: option for item in all_passes().values() for option in item.options}


def check_settings(settings: Mapping[str, Any]) -> None:
    """Raise RewriteError if ``settings`` has a name that is no setting of a pass registered so far."""
    known = all_options() if settings else {}
    for name in names_in("a setting", settings):
        if name not in known:
            raise RewriteError(unknown_name("setting of a pass", name, known))


def unknown_name(kind: str, name: str, known: Iterable[str]) -> str:
    """Return the error message for an unknown name, with the most similar known names."""
    return f"there is no {kind} {name!r}" + did_you_mean(name, known, 3)


@dataclass(frozen=True)
class Pipeline:
    """Passes and pipelines to run in order, passes to leave out, and settings of passes."""

    passes: Sequence[str] = ()
    disable: Sequence[str] = ()
    settings: Mapping[str, Any] = field(default_factory=dict)


def parse_pipeline(text: str, label: str) -> Pipeline:
    """Parse a pipeline from TOML; ``label`` names the text in errors.

        passes = ["O1", "replace_sub_with_add"]      # passes and pipelines, run in this order
        disable = ["fuse_rope"]

        [settings]                                   # options of passes, as on the command line
        change_outputs = "logits,features"

    Raise ParseError for invalid TOML, unknown keys and wrong values, RewriteError for unknown passes and
    settings.
    """
    try:
        tree = tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # numbers too long, lists nested too deeply
        raise ParseError(f"{label}: {error}") from None
    for key in tree:
        if key not in ("passes", "disable", "settings"):
            raise ParseError(f"{label}: expected the keys passes, disable and settings, got {key!r}")
    passes, disable = (_names(tree, key, label) for key in ("passes", "disable"))
    try:
        pass_names(passes, disable)
        return Pipeline(passes, disable, _settings(tree.get("settings", {}), label))
    except RewriteError as error:
        raise RewriteError(f"{label}: {error.message}") from None


def _names(tree: Mapping[str, Any], key: str, label: str) -> list[str]:
    """Return the list of names under ``key``, with ``_`` for ``-``; raise ParseError for any other value."""
    names = tree.get(key, [])
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise ParseError(f"{label}: {key}: expected a list of names, got {names!r}")
    return [name.replace("-", "_") for name in names]


def _settings(tree: Any, label: str) -> dict[str, Any]:
    """Return the parsed settings by name.

    Raise ParseError for a wrong value, RewriteError for an unknown name.
    """
    if not isinstance(tree, dict):
        raise ParseError(f"{label}: settings: expected a table, got {tree!r}")
    settings = {name.replace("-", "_"): value for name, value in tree.items()}
    check_settings(settings)
    options = all_options() if settings else {}
    return {name: _parsed(options[name], value, label) for name, value in settings.items()}


def _parsed(option: Option, value: Any, label: str) -> Any:
    """Return a TOML value parsed like a command-line argument; a list is joined with commas first."""
    if not option.metavar:  # a switch
        if not isinstance(value, bool):
            raise ParseError(f"{label}: {option.name}: expected true or false, got {value!r}")
        return value
    text = ",".join(map(str, value)) if isinstance(value, list) else str(value)
    try:
        return option.parse(text)
    except ValueError as error:
        raise ParseError(f"{label}: {option.name}: {error}") from None
