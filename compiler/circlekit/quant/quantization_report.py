# SPDX-License-Identifier: Apache-2.0
"""The report of a quantization: operators by scheme, operators that stay float with reasons, file sizes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from circlekit.ir.text.columns import abridged, format_columns
from circlekit.passes.engine.model_summary import Summary
from circlekit.quant.plan import Plan
from circlekit.quant.scheme import SCHEMES

CONVERSIONS = frozenset({"QUANTIZE", "DEQUANTIZE"})
"""Operators that convert between dtypes (float16 and float32, too), or between scales."""

NAME_CHARACTERS = 60
"""The largest number of characters of a tensor's name that the text shows."""


class FloatOperator(NamedTuple):
    """An operator that stays float, and why.

    ``code``: its name in the schema, such as ``CONV_2D``.  ``name``: the name of its first result.
    """

    code: str
    name: str
    reason: str


@dataclass(repr=False)
class QuantizationReport:
    """What a quantization did.  ``str`` formats the report as text, ``document`` as an object for JSON.

    ``scheme``: the name of the default scheme.  ``plan``: the applied plan.
    ``before``, ``after``: summaries of the float model and of the quantized model.
    ``notes``: sentences for the user.
    ``source``, ``target``: the paths of the input file and of the output file, empty if there is none.
    ``seconds``: how long the quantization took.
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
        """{name of a scheme, or ``float``: number of its operators without CONVERSIONS}, largest first."""
        plans = [op for graph in self.plan for op in graph.operators.values() if op.code not in CONVERSIONS]
        return dict(Counter(op.scheme for op in plans).most_common())

    @property
    def floats(self) -> list[FloatOperator]:
        """The operators other than CONVERSIONS that stay float, with the reasons."""
        return [
            FloatOperator(op.code, name, op.reason)
            for graph in self.plan
            for name, op in graph.operators.items()
            if op.is_float and op.code not in CONVERSIONS
        ]

    def document(self) -> dict[str, Any]:
        """Return the report as an object for JSON.

        ``operators`` is ``schemes``, and ``float`` is ``floats``.  ``conversions``: the number of each of
        CONVERSIONS in the quantized model.  ``bytes``: the file sizes, null if unknown.
        """
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
        """Return the number of each of CONVERSIONS in the quantized model."""
        return {code: count for code, count in self.after.ops.items() if code in CONVERSIONS}

    def __repr__(self) -> str:
        sizes = " -> ".join(f"{summary.file_size or 0:,}" for summary in (self.before, self.after))
        schemes = ", ".join(f"{count} {name}" for name, count in self.schemes.items()) or "none"
        return f"<QuantizationReport: {sizes} bytes; operators: {schemes}>"

    def __str__(self) -> str:
        return "\n".join(self.lines())

    def _repr_html_(self) -> str:
        """Return the text of the report for notebooks."""
        from html import escape  # slow to import, and only notebooks need it

        return f"<pre>{escape(str(self))}</pre>"

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
            yield f"conversions between dtypes, or between scales: {added}"
        yield from self._float_lines()
        yield from (f"note: {note}" for note in self.notes)
        yield f"quantized in {self.seconds:.2f} s"

    def _float_lines(self) -> Iterator[str]:
        """Yield a heading, then one line for all float operators with the same code and reason.

        The line names the first of them, and says how many more there are.
        """
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
    """Return the name of ``scheme`` with its description; ``float`` has none."""
    return scheme if scheme not in SCHEMES else f"{scheme} ({SCHEMES[scheme].title})"
