# SPDX-License-Identifier: Apache-2.0
"""Explanations of a pass or an operator: rewrites, near misses, and what is not known.

The module ``explain`` says what a near miss and a partial match are.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from circlekit.errors import counted
from circlekit.rewrite.base import Refusal

MAX_MISSES = 3
"""The largest number of refusals in the text about a pass."""

MAX_SENTENCES = 5
"""The largest number of different sentences of refusals in the text about an operator."""


@dataclass
class Explanation:
    """What a pass changed in a model, and why it changed no more; ``print`` shows it as a block of text.

    ``rewrote``: the number of its rewrites when the model was optimized.  ``would_rewrite``: the number of
    rewrites that it would make in the optimized model if it ran alone.  These include rewrites that pipelines
    omit (``Context.exact``).  ``refusals``: its refusals after these rewrites, the nearest misses first.
    ``remarks``: sentences on what the pass needs, what prevented it, or why nothing is known.
    ``is_prevented``: whether an error or the target prevented the pass from running; a remark says so.
    """

    pass_name: str
    rewrote: int = 0
    would_rewrite: int = 0
    refusals: list[Refusal] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)
    is_prevented: bool = False

    @property
    def has_near_miss(self) -> bool:
        return any(not refusal.is_partial for refusal in self.refusals)

    @property
    def distance(self) -> tuple[bool, float, int]:
        """A key that orders explanations by their nearest refusal; those without refusals come last."""
        # ``Refusal.distance`` begins with ``is_partial``, so (True, infinity) comes after all refusals
        return min((refusal.distance for refusal in self.refusals), default=(True, math.inf, 0))

    def __str__(self) -> str:
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        """Yield the lines of the text."""
        head = f"{self.pass_name} rewrote {places(self.rewrote)}"
        if self.would_rewrite:
            more = " more" if self.rewrote else ""
            would = f"would rewrite {places(self.would_rewrite)}{more} if run alone"
            head = f"{head}; it {would}" if self.rewrote else f"{self.pass_name} {would}"
        if self.has_near_miss:
            head += "; the nearest misses:" if len(self.refusals) > 1 else "; the nearest miss:"
        elif self.refusals:
            head += "; no near miss, but partial matches:"
        elif self.rewrote or self.would_rewrite:
            head += "; no near miss"
        yield head
        for refusal in self.refusals[:MAX_MISSES]:
            yield f"  {refusal.text}"
            yield f"    {refusal.sentence}"
        yield from _more(len(self.refusals) - MAX_MISSES, "place" if self.has_near_miss else "partial match")
        yield from (f"  {remark}" for remark in self.remarks)

    def document(self) -> dict[str, Any]:
        """Return the explanation as JSON types, with all refusals."""
        return {
            "pass": self.pass_name,
            "rewrote": self.rewrote,
            "would_rewrite": self.would_rewrite,
            "refusals": [refusal_document(refusal) for refusal in self.refusals],
            "remarks": self.remarks,
        }


@dataclass
class OpExplanation:
    """Which passes would rewrite one operator, and why passes that come near do not.

    ``print`` shows it as a block of text.
    ``op``: the operator as text, in the graph named ``graph``.  ``passes``: the passes that would rewrite it
    if each ran alone.  ``refusals``: at most one refusal of each pass, the nearest first.
    """

    graph: str
    op: str
    passes: list[str] = field(default_factory=list)
    refusals: list[Refusal] = field(default_factory=list)

    def __str__(self) -> str:
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        """Yield the lines of the text."""
        yield self.op
        if self.passes:
            yield f"  would be rewritten by {', '.join(self.passes)} if run alone"
        by_sentence: dict[tuple[str, bool], list[str]] = {}  # several passes may give one sentence
        for refusal in self.refusals:
            by_sentence.setdefault((refusal.sentence, refusal.is_partial), []).append(refusal.pass_name)
        for (sentence, is_partial), names in [*by_sentence.items()][:MAX_SENTENCES]:
            yield f"  {', '.join(names)}{' (partial match)' if is_partial else ''}"
            yield f"    {sentence}"
        yield from _more(len(by_sentence) - MAX_SENTENCES, "sentence")
        if not self.refusals:
            yield "  no pass recorded a refusal of this operator; passes without pictures may record none"

    def document(self) -> dict[str, Any]:
        """Return the explanation as JSON types, with all refusals."""
        refusals = [{"pass": refusal.pass_name, **refusal_document(refusal)} for refusal in self.refusals]
        return {
            "graph": self.graph,
            "operator": self.op,
            "would_be_rewritten_by": self.passes,
            "refusals": refusals,
        }


def refusal_document(refusal: Refusal) -> dict[str, Any]:
    """Return a refusal as JSON types."""
    return {
        "graph": refusal.graph,
        "operator": refusal.text,
        "why": refusal.sentence,
        "partial": refusal.is_partial,
    }


def places(count: int) -> str:
    """Return a number of rewrites as text: "nothing", "1 place", "2 places"."""
    return "nothing" if count == 0 else counted(count, "place")


def _more(rest: int, what: str) -> Iterator[str]:
    """Yield the line "and ``rest`` more ``what``", with ``what`` in the plural; nothing if ``rest`` <= 0."""
    if rest > 0:
        plural = "" if rest == 1 else "es" if what.endswith(("s", "ch")) else "s"
        yield f"  and {rest} more {what}{plural}"
