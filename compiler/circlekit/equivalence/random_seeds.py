# SPDX-License-Identifier: Apache-2.0
"""Seeds for random operators that have none.

Without a seed, the interpreter derives the random numbers from the name of the result, which a rewrite may
change (for example, when it inlines a branch of IF).  All such operators get the same seed, because nothing
else of an operator survives every rewrite.
"""

from __future__ import annotations

from collections.abc import Iterator

from circlekit.ir.clone import clone
from circlekit.ir.graph import Model
from circlekit.ops.arithmetic.random_ops import UINT32_MASK, Random

SEED = 1


def with_seeds(model: Model) -> Model:
    """Return ``model``, or a copy in which every random operator has a seed."""
    if not any(_unseeded(model)):
        return model
    copy = clone(model)
    for op in _unseeded(copy):
        op.seed = SEED
    return copy


def seed_notes(model: Model) -> list[str]:
    """Return a sentence for each random operator without a seed."""
    return [
        f"%{op.output.name} is random and has no seed: it is compared for one seed, the same before and after"
        for op in _unseeded(model)
    ]


def _unseeded(model: Model) -> Iterator[Random]:
    return (op for op in model.ops() if isinstance(op, Random) and not (op.seed | op.seed2) & UINT32_MASK)
