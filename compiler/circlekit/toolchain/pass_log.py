# SPDX-License-Identifier: Apache-2.0
"""The log of passes that ONE's circle2circle prints with ``--verbose`` or if the variable LUCI_LOG is set."""

from __future__ import annotations

from collections.abc import Iterator

from circlekit.passes.engine.optimization_report import Report

RULE = "-" * 62
"""The line between passes."""


def log_lines(report: Report) -> Iterator[str]:
    """Yield the lines about each pass that ran, in order; then the notes.

    The name of a pass is spelled as in ONE: FoldCastPass for ``fold_cast``.
    """
    for record in report.passes:
        name = "".join(word.capitalize() for word in record.name.split("_")) + "Pass"
        changed = "Y" if record.changes else "N"
        yield RULE
        yield f"Before {name}"
        yield f"After {name} (changed: {changed})"
    for note in report.notes:
        yield f"note: {note}"
