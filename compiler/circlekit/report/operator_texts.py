# SPDX-License-Identifier: Apache-2.0
"""Short texts of operators and values, for tables and drawings."""

from __future__ import annotations

from circlekit.ir.op import Op
from circlekit.ir.text.lexer import quoted

MAX_TEXT_CHARACTERS = 400
"""Longer texts are cut to this length."""


def shortened(text: str) -> str:
    """Return ``text``; if it is longer than MAX_TEXT_CHARACTERS, cut it and append "..."."""
    return text if len(text) <= MAX_TEXT_CHARACTERS else f"{text[:MAX_TEXT_CHARACTERS]}..."


def result_name(op: Op) -> str:
    """Return the name of the first result as text; "" if there is none."""
    return value_name(op.results[0].name) if op.results else ""


def value_name(name: str) -> str:
    """Return ``%name``, shortened; a name with special characters is in quotes: ``%"a b"``."""
    return shortened(quoted("%", name))


def result_type(op: Op) -> str:
    """Return dtype and shape of the first result as text; "" if there is none."""
    return repr(op.results[0].type) if op.results else ""
