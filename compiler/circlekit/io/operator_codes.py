# SPDX-License-Identifier: Apache-2.0
"""Operator codes: the entries of a file's list that say which operator, and which version, a node is."""

from __future__ import annotations

from circlekit.io.schema import Tree, enumeration, number_of

CodeKey = tuple[str, str | None, int]
"""Name of the operator, custom code, version."""

PLACEHOLDER = 127
"""Value of the one-byte field for operators whose number does not fit into it."""


def code_number(tree: Tree, fmt: str) -> int:
    """Return the operator's number.  Old writers filled only the one-byte field, newer ones fill both."""
    old: int = tree.get("deprecated_builtin_code", 0)
    number = number_of("BuiltinOperator", fmt, tree.get("builtin_code", 0))
    if not number:
        return old
    return number if number < 0 else max(number, old)


def code_name(number: int, fmt: str) -> str:
    """Return the schema's name of an operator; ``UNKNOWN_310`` for a number that the schema lacks."""
    return enumeration("BuiltinOperator", fmt).names.get(number, f"UNKNOWN_{number}")


def code_key(tree: Tree, fmt: str) -> CodeKey:
    """Return what distinguishes one operator code from another."""
    name = code_name(code_number(tree, fmt), fmt)
    return name, tree.get("custom_code") or None, tree.get("version", 1)
