# SPDX-License-Identifier: Apache-2.0
"""Give seeds to random operators, so that they give the same numbers before and after a rewrite.

The interpreter seeds a random operator without a seed by the name of its result.  A rewrite may change that
name, for example when it inlines a branch of IF.  No other property of the operator is sure to survive every
rewrite either.  So here all random operators without a seed get the same seed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from circlekit.ir.clone import clone
from circlekit.ir.graph import Graph, Model
from circlekit.ops.arithmetic.random_ops import UINT32_MASK, Random

SEED = 1
"""The seed that random operators without a seed get."""


def with_seeds(model: Model) -> Model:
    """Return ``model`` if every random operator has a seed, else a copy in which they all have one."""
    if not any(unseeded(model.graphs)):
        return model
    copy = clone(model)
    for op in unseeded(copy.graphs):
        op.seed = SEED
    return copy


def seed_notes(graphs: Sequence[Graph]) -> list[str]:
    """Return a sentence for each random operator without a seed."""
    return [
        f"%{op.output.name} is random and has no seed: it is compared for one seed, the same before and after"
        for op in unseeded(graphs)
    ]


def unseeded(graphs: Sequence[Graph]) -> Iterator[Random]:
    """Yield the random operators without a seed: the lowest 32 bits of ``seed`` and ``seed2`` are all 0."""
    ops = (op for graph in graphs for op in graph if isinstance(op, Random))
    return (op for op in ops if not (op.seed | op.seed2) & UINT32_MASK)
