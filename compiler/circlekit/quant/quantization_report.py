# SPDX-License-Identifier: Apache-2.0
"""The report of a quantization: operators by scheme, operators that stay float and why, sizes of files."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from circlekit.ir.text.columns import abridged, format_columns
from circlekit.passes.engine.optimization_report import Summary
from circlekit.quant.plan import Plan
from circlekit.quant.scheme import SCHEMES

CONVERSIONS = frozenset({"QUANTIZE", "DEQUANTIZE"})
"""Operators that convert between integers and floats, or between integers with different scales."""

NAME_CHARACTERS = 60
"""At most this many characters of a tensor's name are shown."""


class FloatOperator(NamedTuple):
    """An operator that stays float: kind, name of its first result, and the reason."""

    code: str
    name: str
    reason: str


@dataclass
class QuantizationReport:
    """What a quantization did.  ``str`` formats it as text, ``document`` as an object for JSON.

    ``scheme``: its name.  ``plan``: the applied plan.  ``before``, ``after``: summaries of the float and of
    the quantized model.  ``notes``: sentences for the user.  ``source``, ``target``: the paths of the files,
    or "".  ``seconds``: how long it took.
    """

    scheme: str
    plan: Plan
    before: Summary
    after: Summary
    notes: list[str] = field(default_factory=list)
    source: str = ""
    target: str = ""
    seconds: float = 0.0

    @property
    def schemes(self) -> dict[str, int]:
        """Number of operators by scheme, also of those that stay float; conversions do not count."""
        plans = [op for graph in self.plan for op in graph.operators.values() if op.code not in CONVERSIONS]
        return dict(Counter(op.scheme for op in plans).most_common())

    @property
    def floats(self) -> list[FloatOperator]:
        """The operators that stay float, with the reasons; conversions do not count."""
        return [
            FloatOperator(op.code, name, op.reason)
            for graph in self.plan
            for name, op in graph.operators.items()
            if op.is_float and op.code not in CONVERSIONS
        ]

    def document(self) -> dict[str, Any]:
        """Return the report as an object for JSON."""
        return {
            "source": self.source,
            "target": self.target,
            "scheme": self.scheme,
            "operators": self.schemes,
            "float": [op._asdict() for op in self.floats],
            "conversions": self._conversions(),
            "bytes": {"before": self.before.file_size, "after": self.after.file_size},
            "notes": self.notes,
            "seconds": round(self.seconds, 3),
        }

    def _conversions(self) -> dict[str, int]:
        return {code: count for code, count in self.after.ops.items() if code in CONVERSIONS}

    def __str__(self) -> str:
        return "\n".join(self.lines())

    def lines(self) -> Iterator[str]:
        """Yield the lines of the report."""
        if self.target:
            yield f"{self.source} -> {self.target}"
        sizes = [summary.file_size or 0 for summary in (self.before, self.after)]
        part = f", {sizes[1] / sizes[0]:.0%}" if sizes[0] else ""
        yield f"{self.scheme}: {sizes[0]:,} -> {sizes[1]:,} bytes{part}"
        yield ""
        if self.schemes:
            rows = [("operators", "count"), *((_title(name), n) for name, n in self.schemes.items())]
            yield from format_columns(rows).splitlines()
        if conversions := self._conversions():
            added = ", ".join(f"{count} {code}" for code, count in conversions.items())
            yield f"between integers and floats, or other scales: {added}"
        yield from self._float_lines()
        yield from (f"note: {note}" for note in self.notes)
        yield f"quantized in {self.seconds:.2f} s"

    def _float_lines(self) -> Iterator[str]:
        """Yield a line for each kind of operator and reason why it stays float."""
        by_reason: dict[tuple[str, str], list[str]] = {}
        for op in self.floats:
            by_reason.setdefault((op.code, op.reason), []).append(op.name)
        if by_reason:
            yield ""
            yield "stays float:"
        for (code, reason), names in by_reason.items():
            more = f" and {len(names) - 1} more" if len(names) > 1 else ""
            yield f"  {code} %{abridged(names[0], NAME_CHARACTERS)}{more}: {reason}"


def _title(scheme: str) -> str:
    return scheme if scheme not in SCHEMES else f"{scheme} ({SCHEMES[scheme].title})"
