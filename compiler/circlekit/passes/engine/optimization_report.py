# SPDX-License-Identifier: Apache-2.0
"""The report of an optimization: the model before and after, passes that fired, differences of outputs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from circlekit.errors import counted
from circlekit.ir.text.columns import format_columns
from circlekit.passes.engine.explanation import Explanation, OpExplanation
from circlekit.passes.engine.model_summary import Summary
from circlekit.rewrite.base import Refusal
from circlekit.targets.delegation import Delegation
from circlekit.targets.unsupported import Finding

DOCUMENT_SCHEMA = 1
"""The version of ``Report.document`` (docs/guide/results.md); a change that breaks readers increases it."""

MAX_VERDICTS = 12
"""With more outputs than this, ``verdicts`` names only the output with the largest difference / tolerance."""

Row = tuple[str, str, str]
"""A row of a table: name of the count, count before, count after."""


@dataclass
class PassRecord:
    """The number of changes that one pass made, and how often it ran."""

    name: str
    changes: int = 0
    runs: int = 0


def equal_within(difference: float, tolerance: float) -> str:
    """Return in words how close two arrays are; ``difference``, the largest one, is at most ``tolerance``."""
    if difference == 0:
        return "exactly equal"
    return f"equal within {difference:.2g}, allowed {tolerance:.2g}"


@dataclass(frozen=True)
class OutputDifference:
    """How much an output differs from that of the original model.

    Outputs are compared on several sets of inputs.  ``inputs``: the name of the set on which the difference
    is nearest to its tolerance.  ``difference`` and ``tolerance`` are absolute.
    """

    output: str
    inputs: str
    difference: float
    tolerance: float

    def __str__(self) -> str:
        return equal_within(self.difference, self.tolerance)


@dataclass(frozen=True)
class TargetCheck:
    """What a target refuses of a model, ``before`` and ``after`` the optimization.

    A Finding is an operator, input or output that the target refuses.  Its ``place`` has the names of its
    graph and its first result; ``reason`` is a sentence.
    ``name`` and ``title``: those of the target.  ``delegations``: what its delegate (such as XNNPACK) runs
    before and after; None if the target has no delegate.
    """

    name: str
    title: str
    before: Sequence[Finding]
    after: Sequence[Finding]
    delegations: tuple[Delegation, Delegation] | None = None

    def document(self) -> dict[str, Any]:
        """Return the check as JSON types."""
        delegated = None
        if self.delegations is not None:
            first, last = self.delegations
            delegated = {"before": first.document(), "after": last.document()}
        return {
            "target": self.name,
            "before": len(self.before),
            "after": len(self.after),
            "findings": [finding.document() for finding in self.after],
            "delegated": delegated,
        }

    @property
    def regressions(self) -> list[Finding]:
        """The findings that the passes caused: the target ran what they replaced.

        A finding in ``after`` is one of these if no finding in ``before`` has its place or its reason.  But
        the list is empty if a finding in ``before`` is gone: a pass may have replaced that operator, input or
        output, which the target did not run either.
        """
        places = {finding.place for finding in self.before}
        reasons = {finding.reason for finding in self.before}
        if not places <= {finding.place for finding in self.after}:
            return []
        return [f for f in self.after if f.place not in places and f.reason not in reasons]

    def __str__(self) -> str:
        """Return in words what the target refuses, and what its delegate runs.

        Return "" if the target refuses nothing, neither before nor after, and has no delegate.
        """
        return "; ".join(filter(None, (self._unsupported(), self._delegated())))

    def _delegated(self) -> str:
        """Return what the delegate runs, in words; "" if there is no delegate."""
        if self.delegations is None:
            return ""
        first, last = self.delegations
        return f"the delegate of {self.title} runs {last} (before: {first})"

    def _unsupported(self) -> str:
        """Return in words how many operators, inputs and outputs the target refuses, before and after.

        Return "" if there are none in both.
        """
        codes = Counter(finding.operator for finding in self.after if finding.is_operator)
        kinds = [f"{count} {code}" for code, count in sorted(codes.items())]
        names = [f"%{finding.result}" for finding in self.after if not finding.is_operator]
        old, new = (sum(f.is_operator for f in findings) for findings in (self.before, self.after))
        operators = f"{counted(new, 'operator')} that {self.title} cannot run ({old} before)"
        rest, left = len(self.before) - old, len(self.after) - new
        others = counted(left, "input or output", "inputs or outputs")
        others = f"{others} that {self.title} cannot take ({rest} before)"
        return "; ".join(
            f"{text}: {', '.join(items)}" if items else text
            for text, items, count in ((operators, kinds, old + new), (others, names, rest + left))
            if count
        )


@dataclass(repr=False)
class Report:
    """The result of ``optimize`` and ``convert``; ``print`` shows it as text.

    ``before``, ``after``: size and interface of the model.  ``passes``: what each pass did, in order.
    ``explanations``, ``op_explanations``: the explanations that the user asked for, of passes and of
    operators, the nearest misses first.
    ``notes``: remarks for the user, for example what could not be verified.
    ``verified``: whether verification was on; it compares outputs only if something changed.
    ``differences``: for each compared output, how far it differed; empty if nothing was compared.
    ``source``, ``target``: the input file and the output file.  ``seconds``: the time that the work took.
    ``unchanged``: whether the output file is a copy of the input file.
    ``legalizations``: {name of a legalization: how often it replaced what the format or a target lacks}.
    ``growth``: why the output file is larger than the input file; "" if it is not larger.
    ``targets``: what each target refuses.
    """

    before: Summary
    after: Summary
    passes: list[PassRecord] = field(default_factory=list)
    explanations: list[Explanation] = field(default_factory=list)
    op_explanations: list[OpExplanation] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    verified: bool = False
    differences: list[OutputDifference] = field(default_factory=list)
    source: str = ""
    target: str = ""
    seconds: float = 0.0
    unchanged: bool = False
    legalizations: dict[str, int] = field(default_factory=dict)
    growth: str = ""
    targets: list[TargetCheck] = field(default_factory=list)

    @property
    def changes(self) -> dict[str, int]:
        """The number of changes of each pass that made any."""
        return {record.name: record.changes for record in self.passes if record.changes}

    @property
    def refusals(self) -> list[Refusal]:
        """The refusals in ``explanations``, in the same order."""
        return [refusal for explanation in self.explanations for refusal in explanation.refusals]

    def rows(self) -> tuple[list[Row], list[Row]]:
        """Return the rows of the table: operators by kind, and totals."""
        before, after = self.before, self.after
        kinds = sorted({*before.ops, *after.ops})
        totals = {
            "operators": (before.op_count, after.op_count),
            "file size, bytes": (before.file_size, after.file_size),
            "parameters": (before.parameters, after.parameters),
            "MACs": (before.macs, after.macs),
            "peak arena, bytes": (before.arena_bytes, after.arena_bytes),
        }
        return (
            [(kind, _number(before.ops.get(kind, 0)), _number(after.ops.get(kind, 0))) for kind in kinds],
            [(name, _number(a), _number(b)) for name, (a, b) in totals.items() if (a, b) != (None, None)],
        )

    def verdicts(self) -> list[str]:
        """Return a sentence for each compared output; [] if verification was off.

        Return only one sentence if no output was compared, if all sentences are equal, or if there are more
        than MAX_VERDICTS.
        """
        if not self.verified:
            return []
        if not self.differences:
            return [f"verified: {'no output has elements' if self.changes else 'no pass changed anything'}"]
        texts = [str(difference) for difference in self.differences]
        if len(set(texts)) == 1:
            return [f"verified: {texts[0]}"]
        if len(texts) > MAX_VERDICTS:
            # ``and``: if the difference is 0, the tolerance may be 0, too
            worst = max(self.differences, key=lambda d: d.difference and d.difference / d.tolerance)
            return [f"verified: {len(texts)} outputs; nearest to its tolerance is %{worst.output}: {worst}"]
        return [f"verified: %{d.output} {text}" for d, text in zip(self.differences, texts, strict=True)]

    def document(self) -> dict[str, Any]:
        """Return the report as JSON types; docs/guide/results.md describes the keys."""
        return {
            "schema": DOCUMENT_SCHEMA,
            "source": self.source,
            "target": self.target,
            "seconds": round(self.seconds, 3),
            "unchanged": self.unchanged,
            "legalizations": self.legalizations,
            "legalized": bool(self.legalizations),
            "before": self.before.document(),
            "after": self.after.document(),
            "passes": [asdict(record) for record in self.passes if record.changes],
            "verified": self.verified,
            "differences": [asdict(difference) for difference in self.differences],
            "growth": self.growth,
            "targets": [check.document() for check in self.targets],
            "notes": self.notes,
            "explanations": [explanation.document() for explanation in self.explanations],
            "op_explanations": [explanation.document() for explanation in self.op_explanations],
        }

    def __repr__(self) -> str:
        changes = ", ".join(f"{name} x{count}" for name, count in self.changes.items()) or "no changes"
        verified = ", verified" if self.verified else ""
        return f"<Report: {self.before.op_count} -> {self.after.op_count} operators{verified}: {changes}>"

    def __str__(self) -> str:
        """Return the table, and a line for each sentence of the report (see ``_sentences``)."""
        return "\n".join([self.table(), "", *self._sentences()])

    def table(self) -> str:
        """Return the numbers of operators, parameters and bytes before and after, in plain columns."""
        kinds, totals = self.rows()
        return format_columns([("", "before", "after"), *kinds, *totals])

    def _sentences(self) -> list[str]:
        """Return, in words: changes, verdicts, what targets refuse or delegate, growth and notes."""
        changes = [f"{name}: {count}" for name, count in self.changes.items()] or ["no changes"]
        grown = [self.growth] if self.growth else []
        return [*changes, *self.verdicts(), *filter(None, map(str, self.targets)), *grown, *self.notes]

    def _repr_html_(self) -> str:
        """Return HTML for notebooks: the table, and a list of the sentences of the report."""
        from html import escape  # slow to import, and only notebooks need it

        kinds, totals = self.rows()
        head = "<tr><th></th><th>before</th><th>after</th></tr>"
        table = ("".join(f"<td>{escape(cell)}</td>" for cell in row) for row in [*kinds, *totals])
        rows = "".join(f"<tr>{cells}</tr>" for cells in table)
        items = "".join(f"<li>{escape(sentence)}</li>" for sentence in self._sentences())
        return f"<table>{head}{rows}</table><ul>{items}</ul>"


def _number(count: int | None) -> str:
    return "" if count is None else f"{count:,}"
