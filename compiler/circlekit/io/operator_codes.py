# SPDX-License-Identifier: Apache-2.0
"""Operator codes: which operator an entry of a file's list of operator codes stands for."""

from __future__ import annotations

from circlekit.io.schema import Tree, enumeration, number_of

CodeKey = tuple[str, str | None, int]
"""Operator, custom code, version."""

PLACEHOLDER = 127
"""What the one-byte field holds for codes that do not fit into it."""


def code_number(tree: Tree, fmt: str) -> int:
    """The operator's number: old writers filled the one-byte field only, new ones both."""
    old: int = tree.get("deprecated_builtin_code", 0)
    number = number_of("BuiltinOperator", fmt, tree.get("builtin_code", 0))
    if not number:
        return old
    return number if number < 0 else max(number, old)


def code_name(number: int, fmt: str) -> str:
    """The schema's name of an operator's number; ``UNKNOWN_310`` for one that it does not have."""
    return enumeration("BuiltinOperator", fmt).names.get(number, f"UNKNOWN_{number}")


def code_key(tree: Tree, fmt: str) -> CodeKey:
    """What tells one operator code from another."""
    name = code_name(code_number(tree, fmt), fmt)
    return name, tree.get("custom_code") or None, tree.get("version", 1)
