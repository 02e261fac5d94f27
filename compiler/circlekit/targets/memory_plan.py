# SPDX-License-Identifier: Apache-2.0
"""Plan the arena: the memory for all activations, in which the planner of a runtime places each buffer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import TypeVar

import numpy as np

from circlekit.ir.graph import Graph, Model
from circlekit.ir.op import Op
from circlekit.ir.value import Array
from circlekit.targets.lifetimes import Lifetime, buffers_of, lifetimes
from circlekit.targets.planners import Planner

Offset = TypeVar("Offset", int, Array)


@dataclass(frozen=True)
class MemoryPlan:
    """The arena for one run of a graph.

    ``lifetimes``: when each buffer is needed, in the order in which the planner places the buffers.
    ``offsets``: the offset of each of these buffers in bytes.  ``size``: the size of the arena in bytes, with
    gaps.  ``live_bytes``: for each operator, the bytes of the buffers that are needed while it runs; no arena
    can be smaller than the largest of these numbers.
    """

    planner: Planner
    lifetimes: list[Lifetime]
    offsets: list[int]
    size: int
    live_bytes: list[int]

    @property
    def peak_index(self) -> int:
        """The index of the first operator with the most live bytes; -1 if there is no operator."""
        return self.live_bytes.index(self.peak_bytes) if self.live_bytes else -1

    @property
    def peak_bytes(self) -> int:
        """The largest number of live bytes of an operator."""
        return max(self.live_bytes, default=0)

    @property
    def live_at_peak(self) -> list[Lifetime]:
        """The buffers that are needed while the operator at ``peak_index`` runs, largest first."""
        live = (life for life in self.lifetimes if life.first <= self.peak_index <= life.last)
        return sorted(live, key=lambda life: (-life.size, life.first))


def plan_memory(graph: Graph, planner: Planner, order: Sequence[Op] | None = None) -> MemoryPlan:
    """Return the plan for ``graph``.  ``order``: its operators in another valid order, if given."""
    ops = graph.ops if order is None else order
    return place_buffers(lifetimes(ops, buffers_of(graph, planner)), planner, len(ops))


def place_buffers(alive: list[Lifetime], planner: Planner, op_count: int) -> MemoryPlan:
    """Return the plan for buffers with the lifetimes ``alive`` in a run of ``op_count`` operators."""
    alive = _placement_order(alive, planner, op_count)
    offsets = _offsets(alive, planner)
    ends = (offset + _padded(life.size, planner) for offset, life in zip(offsets, alive, strict=True))
    return MemoryPlan(planner, alive, offsets, max(ends, default=0), live_bytes(alive, op_count))


def arena_bytes(model: Model, planner: Planner) -> int:
    """Return the sum of the sizes in bytes of the arenas of all graphs; each graph has its own arena."""
    return sum(plan_memory(graph, planner).size for graph in model.graphs)


def live_bytes(alive: Sequence[Lifetime], op_count: int) -> list[int]:
    """Return, for each of ``op_count`` operators, the bytes of the buffers that are needed while it runs."""
    changes = [0] * (op_count + 2)  # the change of the sum before each operator; ``last`` may be op_count
    for life in alive:
        changes[life.first] += life.size
        changes[life.last + 1] -= life.size
    return list(accumulate(changes))[:op_count]


def _placement_order(alive: list[Lifetime], planner: Planner, op_count: int) -> list[Lifetime]:
    """Return ``alive`` in the order in which the planner places the buffers."""

    def key(index: int) -> tuple[bool, int, int]:
        """Return the key by which buffers are sorted; the first element is False for those placed first."""
        life = alive[index]
        if planner.latest_first:
            return True, -_padded(life.size, planner), -index
        if planner.whole_run_first and life.first == 0 and life.last == op_count:
            return False, 0, 0
        return True, -life.size, life.first

    return [alive[index] for index in sorted(range(len(alive)), key=key)]


def _padded(size: int, planner: Planner) -> int:
    """Return how many bytes a buffer of ``size`` bytes takes in the arena."""
    return aligned(size, planner.alignment) if planner.pads_sizes else size


def aligned(offset: Offset, alignment: int) -> Offset:
    """Return ``offset``, a number or an array of numbers, rounded up to a multiple of ``alignment``."""
    return -(-offset // alignment) * alignment


def _offsets(alive: Sequence[Lifetime], planner: Planner) -> list[int]:
    """Return the offset of each buffer; buffers that are needed at the same time do not overlap."""
    # for each placed buffer, a column (offset, end, first, last), in the order of the offsets
    total = sum(_padded(life.size, planner) + planner.alignment for life in alive)
    table = np.empty((4, len(alive)), np.int64 if total <= np.iinfo(np.int64).max else object)
    offsets = []
    for count, life in enumerate(alive):
        size = _padded(life.size, planner)
        placed = table[:, :count]
        # the buffers that are needed at the same time as this one
        begins, ends = placed[:2, (placed[2] <= life.last) & (placed[3] >= life.first)]
        offset = _gap(begins, ends, size, planner)
        offsets.append(offset)
        at = int(np.searchsorted(placed[0], offset, side="right"))
        table[:, at + 1 : count + 1] = table[:, at:count]
        table[:, at] = offset, offset + size, life.first, life.last
    return offsets


def _gap(begins: Array, ends: Array, size: int, planner: Planner) -> int:
    """Return the offset for a buffer of ``size`` bytes: in a gap between other buffers, or after all others.

    ``begins``, ``ends``: the offsets of the other buffers, sorted, and where these buffers end.
    """
    occupied = np.append(0, np.maximum.accumulate(ends))  # for each gap, the end of all buffers before it
    starts = aligned(occupied, planner.alignment)  # the last one is behind all buffers
    room = begins - starts[:-1]
    fits = np.flatnonzero(room >= size)
    if not fits.size:
        return int(starts[-1])
    best = fits[0]
    for gap in fits[1:] if planner.best_fit else ():
        # as LiteRT does: compare the room of ``gap`` after its aligned start with that of ``best`` after its
        # unaligned start
        if room[gap] < begins[best] - occupied[best]:
            best = gap
    return int(starts[best])
