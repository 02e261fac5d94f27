# SPDX-License-Identifier: Apache-2.0
"""Read a pipeline from a TOML file."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from circlekit.errors import ParseError, RewriteError
from circlekit.passes.engine.pass_settings import all_options, check_names, parse_setting
from circlekit.passes.engine.registry import pass_names
from circlekit.rewrite.base import Option

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


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
        pass_names(passes, disable)  # raises RewriteError for an unknown name
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
    if len(settings) < len(tree):
        raise ParseError(f"{label}: settings: expected each name once, got {', '.join(tree)}")
    check_names(settings)
    options = all_options() if settings else {}
    return {name: _parsed(options[name], value, label) for name, value in settings.items()}


def _parsed(option: Option, value: Any, label: str) -> Any:
    """Return a TOML value parsed as on the command line; a list is joined with commas first."""
    if not option.metavar:  # a switch
        if not isinstance(value, bool):
            raise ParseError(f"{label}: {option.name}: expected true or false, got {value!r}")
        return value
    items = value if isinstance(value, list) else [value]
    if any(isinstance(item, dict | list) for item in items):
        raise ParseError(f"{label}: {option.name}: expected a value or a list of values, got {value!r}")
    text = ",".join(map(str, items))
    try:
        return parse_setting(option, text)
    except RewriteError as error:
        raise ParseError(f"{label}: {error.message}") from None
