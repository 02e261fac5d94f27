# SPDX-License-Identifier: Apache-2.0
"""Format tables as plain text and as Markdown; wrap and shorten text."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

PAGE_COLUMNS = 80
"""The width of printed text, in characters, if no terminal gives another width."""


def cut(text: str, limit: int) -> str:
    """Return ``text``, cut to ``limit`` >= 3 characters if it is longer; three dots replace the rest."""
    return text if len(text) <= limit else text[: limit - 3] + "..."


def listed(items: Sequence[str], limit: int) -> str:
    """Return the first ``limit`` of ``items``, separated by commas; if there are others, ``and N more``."""
    more = f" and {len(items) - limit} more" if len(items) > limit else ""
    return ", ".join(items[:limit]) + more


def format_columns(rows: Sequence[Sequence[object]], left: int = 1) -> str:
    """Return ``rows`` as lines with aligned columns; all rows have the same number of cells.

    The first ``left`` columns are left-aligned, the others right-aligned.  The first row may be a header.
    """
    cells = [[str(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    lines = []
    for row in cells:
        padded = [cell.ljust(width) for cell, width in zip(row[:left], widths, strict=False)]
        padded += [cell.rjust(width) for cell, width in zip(row[left:], widths[left:], strict=True)]
        lines.append("  ".join(padded).rstrip())
    return "\n".join(lines)


def format_definitions(rows: Sequence[tuple[str, str]], width: int = PAGE_COLUMNS, indent: str = "") -> str:
    """Return (term, description) pairs, at least one, as lines of two columns.

    The descriptions are wrapped at ``width`` characters, but neither a word nor a term is divided.
    """
    column = max(len(term) for term, _ in rows) + len(indent) + 2
    lines = []
    for term, text in rows:
        first, *others = wrapped(text, width - column) or [""]
        lines.append(f"{indent}{term}".ljust(column) + first)
        lines += [" " * column + line for line in others]
    return "\n".join(line.rstrip() for line in lines)


def wrapped(text: str, width: int, first: str = "", rest: str = "") -> list[str]:
    """Return the words of ``text`` in lines of at most ``width`` characters.

    ``first``, ``rest``: the margins of the first line and of the other lines; a margin counts as part of
    ``width``.  Words are never broken, so that flags, names and paths can be searched for; a word that is
    longer than a line has a line of its own.
    """
    return textwrap.wrap(
        text.strip(),
        max(width, 1),
        initial_indent=first,
        subsequent_indent=rest,
        break_long_words=False,
        break_on_hyphens=False,
    )


def paragraphs(text: str, width: int) -> list[str]:
    """Return ``text`` in lines of at most ``width`` characters.  An empty line separates two paragraphs.

    A word that is longer than a line has a line of its own.  A paragraph that has an indented line or a list
    item (``- ``) keeps its lines, whatever their width.
    """
    lines = []
    for block in text.split("\n\n"):
        is_prose = not any(line.startswith((" ", "- ")) for line in block.splitlines())
        lines += ["", *(wrapped(" ".join(block.splitlines()), width) if is_prose else block.splitlines())]
    return [line.rstrip() for line in lines[1:]]  # without the empty line before the first paragraph


def abridged(name: str, width: int) -> str:
    """Return ``name``; if it has more than ``width`` characters, ``...`` replaces a part in its middle.

    A width below 24 counts as 24.
    """
    kept = max(width, 24) - 3
    return name if len(name) <= kept + 3 else f"{name[: kept // 2]}...{name[-(kept - kept // 2) :]}"


def format_markdown(rows: Sequence[Sequence[object]], left: int = 1) -> str:
    """Return ``rows`` as a Markdown table; the first row is the header.

    The first ``left`` columns are left-aligned, the others right-aligned.  A ``|`` in a cell becomes ``/``.
    """
    header, *others = rows
    rule = ["---" if index < left else "---:" for index in range(len(header))]
    lines = (" | ".join(str(cell).replace("|", "/") for cell in row) for row in (header, rule, *others))
    return "".join(f"| {line} |\n" for line in lines)
