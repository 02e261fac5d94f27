# SPDX-License-Identifier: Apache-2.0
"""The settings of passes: the values that a user gives to their options."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from inspect import isfunction
from numbers import Integral, Real
from typing import Any, get_args, get_origin, get_type_hints

from circlekit.errors import ModelError, RewriteError, names_in
from circlekit.passes.engine.registry import all_passes, unknown_name
from circlekit.rewrite.base import Option

CHECKED_TYPES: dict[Any, str] = {
    bool: "True or False",
    int: "an integer",
    float: "a number",
    str: "a string",
    list[int]: "a list of integers",
    list[str]: "a list of strings",
}
"""{a type that a value is checked for: its words in error messages}."""


def all_options() -> dict[str, Option]:
    """Return the options of all passes of circlekit, and of others defined so far, by name."""
    return {option.name: option for item in all_passes().values() for option in item.options}


def check_names(settings: Mapping[str, Any]) -> None:
    """Raise RewriteError if ``settings`` names a setting that no registered pass has.

    Raise ModelError if ``settings`` is not a mapping, or a name is not a string.
    """
    if not isinstance(settings, Mapping):
        raise ModelError(f"expected a mapping from settings to values, got {type(settings).__name__}")
    known = all_options() if settings else {}
    for name in names_in("a setting", settings):
        if name not in known:
            raise RewriteError(unknown_name("setting of a pass", name, known))


def checked_settings(settings: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return ``settings`` with values as passes read them; a setting whose value is None is left out.

    None is the same as no settings.
    A list keeps its elements as they are, so that a name in it may contain a comma.
    A string is parsed as on the command line, except for two kinds of options: an option with ``records``
    keeps it as a path, and a switch takes only True or False.
    Raise RewriteError for a value that the option cannot have; for other errors see ``check_names``.
    """
    if settings is None:
        return {}
    check_names(settings)
    options = all_options() if settings else {}
    return {name: _checked(options[name], value) for name, value in settings.items() if value is not None}


def _checked(option: Option, value: Any) -> Any:
    """Return ``value`` as the pass reads it; raise RewriteError if ``option`` cannot have this value."""
    if option.records:
        if not isinstance(value, str | os.PathLike | Sequence):
            expected = "the path of an HDF5 file or a list of records"
            raise RewriteError(f"{option.name}: expected {expected}, got {type(value).__name__}")
        return value
    if isinstance(value, str) and option.metavar:
        return parse_setting(option, value)
    kind = _value_type(option)
    if kind is None:
        return value
    if not _is_a(value, kind):
        raise RewriteError(f"{option.name}: expected {CHECKED_TYPES[kind]}, got {value!r}")
    if isinstance(value, list | tuple):
        if value:
            parse_setting(option, ",".join(map(str, value)))  # refuses elements that the option cannot have
        return list(value)
    return parse_setting(option, str(value)) if option.metavar else value


def parse_setting(option: Option, text: str) -> Any:
    """Return ``text`` parsed as on the command line; raise RewriteError for wrong text."""
    try:
        return option.parse(text)
    except ValueError as error:
        # the message of ``int`` or ``float`` itself would be unclear
        words = None if isfunction(option.parse) else CHECKED_TYPES.get(_value_type(option))
        why = f"expected {words}, got {text!r}" if words else error
        raise RewriteError(f"{option.name}: {why}") from None


def _value_type(option: Option) -> Any:
    """Return the type of the values of ``option``: bool for a switch, else what ``parse`` returns.

    Return None if this type is not known, or not in CHECKED_TYPES.
    """
    kind: Any = option.parse if option.metavar else bool
    if isfunction(kind):
        try:
            kind = get_type_hints(kind).get("return")
        except NameError:  # a type that is imported for type checkers only
            kind = None
    return kind if kind in CHECKED_TYPES else None


def _is_a(value: Any, kind: Any) -> bool:
    """Return whether ``value`` has the type ``kind``; a tuple counts as a list, and numpy's numbers count."""
    if isinstance(value, list | tuple):
        return get_origin(kind) is list and all(_is_a(item, get_args(kind)[0]) for item in value)
    if isinstance(value, bool) or get_origin(kind) is list:
        return kind is bool
    return isinstance(value, {int: Integral, float: Real}.get(kind, kind))
