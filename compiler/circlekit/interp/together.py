# SPDX-License-Identifier: Apache-2.0
"""One call for several operators: the same function of neighbours in memory, as in gates of recurrent cells.

For few elements a call of numpy takes longer to begin than to compute.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from circlekit.interp.arena import Arena, address
from circlekit.interp.plan import Plan, Step, known_bytes
from circlekit.interp.track import Entry
from circlekit.ir.op import Op
from circlekit.ir.value import Array
from circlekit.ops.elementwise import Binary, Unary
from circlekit.ops.versions import Viewed

FEW = 1 << 12
"""Bytes that are computed together at most: the results are held from the first operator on."""

AHEAD = 8
"""Steps behind an operator that are looked at."""


def together(plan: Plan, index: int, entries: Sequence[Entry], arena: Arena) -> list[Step]:
    """Step number ``index`` and later ones that can be computed with it, in the order of their operands.

    The operands of all are there, and lie one behind the other.
    """
    step = plan.steps[index]
    operands = _operands(step, entries)
    if operands is None:
        return [step]
    found = [(step, operands)]
    size = operands[0].nbytes
    for other in plan.steps[index + 1 : index + 1 + AHEAD]:
        if not _is_same(step.op, other.op) or entries[other.made[0]] is not None:
            continue
        arrays = _operands(other, entries)
        if arrays is None or size + arrays[0].nbytes > FEW:
            continue
        if _follow(found[-1][1], arrays, arena):
            found.append((other, arrays))
        elif _follow(arrays, found[0][1], arena):
            found.insert(0, (other, arrays))
        else:
            continue
        size += arrays[0].nbytes
    return [step for step, _ in found]


def views_ahead(plan: Plan, index: int, entries: Sequence[Entry]) -> list[Step]:
    """Steps soon after number ``index`` that give small views of what is there: they cost nothing earlier."""
    if _operands(plan.steps[index], entries) is None:
        return []
    return [
        step
        for step in plan.steps[index + 1 : index + 1 + AHEAD]
        if isinstance(step.op, Viewed)
        and entries[step.made[0]] is None
        and known_bytes(step.op.output) < FEW
        and all(entries[n] is not None or plan.values[n] is None or _is_const(plan, n) for n in step.operands)
    ]


def whole(arrays: Sequence[Array], arena: Arena) -> Array:
    """The elements of ``arrays``, which lie one behind the other, as one vector."""
    first = arrays[0]
    block = arena.block_of(first)
    assert block is not None  # that is where they lie
    count = sum(a.size for a in arrays)
    vector: Array = np.ndarray((count,), first.dtype, block.chunk.bytes, address(first) - block.chunk.start)
    return vector


def _is_const(plan: Plan, number: int) -> bool:
    value = plan.values[number]
    return value is not None and value.data is not None


def _is_same(op: Op, other: Op) -> bool:
    """Whether both are the same function of single elements."""
    return (
        type(op) is type(other)
        and isinstance(op, Unary | Binary)
        and all(getattr(op, a.name) == getattr(other, a.name) for a in op.attributes)
    )


def _operands(step: Step, entries: Sequence[Entry]) -> list[Array] | None:
    """Those of an elementwise operator of few floats, if they are there and of one shape."""
    if not isinstance(step.op, Unary | Binary):
        return None
    arrays = [entries[n] for n in step.operands]
    found = [a for a in arrays if isinstance(a, np.ndarray) and a.flags.c_contiguous and a.dtype.kind == "f"]
    if len(found) < len(arrays) or not 0 < found[0].nbytes < FEW:
        return None
    return found if all(a.shape == found[0].shape for a in found) else None


def _follow(before: Sequence[Array], after: Sequence[Array], arena: Arena) -> bool:
    """Whether each of ``after`` lies right behind its counterpart, in one block of ``arena``."""
    for a, b in zip(before, after, strict=True):
        if a.dtype != b.dtype or address(a) + a.nbytes != address(b):
            return False
        block = arena.block_of(a)
        if block is None or block is not arena.block_of(b):
            return False
    return True
