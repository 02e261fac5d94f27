# SPDX-License-Identifier: Apache-2.0
"""The log of passes, as ONE's circle2circle prints it with ``--verbose``."""

from __future__ import annotations

from collections.abc import Iterator

from circlekit.passes.engine.optimization_report import Report

RULE = "-" * 62
"""The line between passes."""


def log_lines(report: Report) -> Iterator[str]:
    """Yield the lines about each pass that ran, in order; then the notes.

    The name of a pass is made of its words, in the style of ONE: FoldCastPass for ``fold_cast``.  The
    name in ONE may have other capitals or abbreviations, or the prefix ``luci::``.
    """
    for record in report.passes:
        name = "".join(word.capitalize() for word in record.name.split("_")) + "Pass"
        changed = "Y" if record.changes else "N"
        yield RULE
        yield f"Before {name}"
        yield f"After {name} (changed: {changed})"
    for note in report.notes:
        yield f"note: {note}"
