# SPDX-License-Identifier: Apache-2.0
"""Random operators without a seed: their own numbers are others in each run, so they are given some.

The interpreter derives such numbers from the name of the result, and a rewrite may give the operator another
one: of a branch that takes the place of its IF.  All have one seed, since nothing else of an operator stays
as it is through every rewrite.
"""

from __future__ import annotations

from collections.abc import Iterator

from circlekit.ir.clone import clone
from circlekit.ir.graph import Model
from circlekit.ops.arithmetic.random_ops import MASK, Random

SEED = 1


def without_chance(model: Model) -> Model:
    """``model``, or a copy in which every random operator has a seed."""
    if not any(_unseeded(model)):
        return model
    copy = clone(model)
    for op in _unseeded(copy):
        op.seed = SEED
    return copy


def chance_notes(model: Model) -> list[str]:
    """A sentence on each random operator that has no seed."""
    return [
        f"%{op.output.name} is random without a seed: what follows from it is compared for one seed, "
        "the same before and after"
        for op in _unseeded(model)
    ]


def _unseeded(model: Model) -> Iterator[Random]:
    return (op for op in model.ops() if isinstance(op, Random) and not (op.seed | op.seed2) & MASK)
