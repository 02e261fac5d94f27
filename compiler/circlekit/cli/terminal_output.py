# SPDX-License-Identifier: Apache-2.0
"""Refusals on the terminal."""

from __future__ import annotations

from collections.abc import Sequence

from circlekit.ir.text.lines import print_op
from circlekit.rewrite.base import Refusal


def print_refusals(name: str, refusals: Sequence[Refusal]) -> None:
    """Print each near miss: the operator as text, and below it why the pass ``name`` did not apply."""
    if not refusals:
        print(f"{name} found no near miss")
        return
    if any(refusal.is_partial for refusal in refusals):
        print(f"{name} found no near miss; the closest partial matches are:")
    else:
        places = "1 place" if len(refusals) == 1 else f"{len(refusals)} places"
        print(f"{name} almost matched in {places}:")
    for refusal in refusals:
        print(f"  {print_op(refusal.op)}\n    {refusal.sentence}")
