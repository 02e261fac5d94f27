# SPDX-License-Identifier: Apache-2.0
"""The report of a quantization: what became integers, what stays float and why, and the sizes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from circlekit.ir.text.columns import format_columns
from circlekit.passes.engine.optimization_report import Summary
from circlekit.quant.plan import Plan

CONVERSIONS = frozenset({"QUANTIZE", "DEQUANTIZE"})
"""Operators between integers and floats, and between integers of different scales."""


class FloatOperator(NamedTuple):
    """An operator that stays float: kind, name of its first result, and the reason."""

    code: str
    name: str
    reason: str


@dataclass
class QuantizationReport:
    """What a quantization did.  ``str`` formats it as text, ``document`` as an object for JSON.

    ``before``, ``after``: summaries of the float and of the quantized model.  ``plan``: what was applied.
    ``notes``: what a user should know.  ``source``, ``target``: the files, if there are any.
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
        """Number of operators by scheme, the float ones included."""
        plans = [op for graph in self.plan for op in graph.operators.values()]
        return dict(Counter(op.scheme for op in plans).most_common())

    @property
    def floats(self) -> list[FloatOperator]:
        """The operators that stay float, with the reasons."""
        return [
            FloatOperator(op.code, name, op.reason)
            for graph in self.plan
            for name, op in graph.operators.items()
            if op.is_float
        ]

    def document(self) -> dict[str, Any]:
        """Return the report as objects of JSON."""
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
        sizes = [f"{summary.file_size or 0:,}" for summary in (self.before, self.after)]
        rows: list[tuple[object, ...]] = [("scheme", "operators"), *self.schemes.items()]
        yield f"{self.scheme}: {sizes[0]} -> {sizes[1]} bytes"
        yield format_columns(rows)
        if conversions := self._conversions():
            yield "added: " + ", ".join(f"{count} {code}" for code, count in conversions.items())
        if floats := self.floats:
            yield "stays float:"
            yield from (f"  {op.code} %{op.name}: {op.reason}" for op in floats)
        yield from (f"note: {note}" for note in self.notes)
