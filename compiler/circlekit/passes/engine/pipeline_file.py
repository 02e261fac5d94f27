# SPDX-License-Identifier: Apache-2.0
"""Read pipelines from TOML files.

passes = ["O1", "replace_sub_with_add"]      # passes and pipelines, run in this order
disable = ["fuse_rope"]

[settings]                                   # options of passes, as on the command line
change_outputs = "logits,features"
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

from circlekit.errors import ParseError, RewriteError
from circlekit.passes.engine.registry import all_options, check_settings, pass_names
from circlekit.rewrite.base import Option


@dataclass(frozen=True)
class Pipeline:
    """Passes and pipelines to run in order, passes to leave out, and settings of passes."""

    passes: Sequence[str] = ()
    disable: Sequence[str] = ()
    settings: Mapping[str, Any] = field(default_factory=dict)


def parse_pipeline(text: str, label: str) -> Pipeline:
    """Parse a pipeline; ``label`` names the text in errors.

    ParseError for invalid TOML and unknown keys, RewriteError for unknown passes and settings.
    """
    toml: Any = import_module("tomllib" if sys.version_info >= (3, 11) else "tomli")
    try:
        tree = toml.loads(text)
    except (
        ValueError,
        RecursionError,
    ) as error:  # numbers too long, lists nested too deeply
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
    names = tree.get(key, [])
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise ParseError(f"{label}: {key}: expected a list of names, got {names!r}")
    return [name.replace("-", "_") for name in names]


def _settings(tree: Any, label: str) -> dict[str, Any]:
    if not isinstance(tree, dict):
        raise ParseError(f"{label}: settings: expected a table, got {tree!r}")
    settings = {name.replace("-", "_"): value for name, value in tree.items()}
    check_settings(settings)
    options = all_options() if settings else {}
    return {name: _parsed(options[name], value, label) for name, value in settings.items()}


def _parsed(option: Option, value: Any, label: str) -> Any:
    """Convert a value of the file as if it were on the command line; a list becomes items with commas."""
    if not option.metavar:
        if not isinstance(value, bool):
            raise ParseError(f"{label}: {option.name}: expected true or false, got {value!r}")
        return value
    text = ",".join(map(str, value)) if isinstance(value, list) else str(value)
    try:
        return option.parse(text)
    except ValueError as error:
        raise ParseError(f"{label}: {option.name}: {error}") from None
