# SPDX-License-Identifier: Apache-2.0
"""A tape that notes calls, in memory that is planned."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from circlekit.interp.arena import Arena
from circlekit.interp.track import Cell, Entry, Track
from circlekit.interp.workspace import Several, Work, Workspace
from circlekit.ir.graph import Model
from circlekit.ir.op import Op
from circlekit.ir.resource_limits import need_memory
from circlekit.ir.tape import Need, Tape, Turns
from circlekit.ir.value import Array
from circlekit.ops.once import Kept

SMALL = 1 << 16
"""Elements of a constant that is looked at for its range."""


class Notes(Tape):
    """Calls on ``track``.  Memory comes from ``arena``; who holds a block is counted.

    ``kept``: how much may be kept, and what calls work in is to be no more than what is left of that.
    ``owner``: the operator whose calls are noted; ``scope``: what it holds until it is through.
    """

    def __init__(self, model: Model | None, kept: Kept) -> None:
        self.model, self.kept = model, kept
        self.track = Track(model)
        self.arena = Arena()
        self.space = Workspace()
        self.least, self.planned = kept.limit // 6, 0
        self.owner: Op | None = None
        self.scope: list[Entry] = []
        self.has_work = False

    def reserve(self, size: int) -> None:
        """Get memory for values in one piece."""
        self.arena.reserve(size)
        self.planned += size

    def empty(self, shape: Sequence[int], dtype: Any) -> Array:
        kind = np.dtype(dtype)
        if kind.hasobject:
            return np.empty(shape, kind)
        array = self.arena.empty(shape, kind)
        self.scope.append(array)
        return array

    def do(self, function: Callable[..., object], *args: Any, **options: Any) -> None:
        assert self.owner is not None  # calls are written by operators
        self.track.add(self.owner, function, *args, **options)

    def work(self, function: Callable[..., object], *needs: Need | Turns | None) -> None:
        self.has_work = True
        self._working(Work(function, needs, self.space))

    def several(self, write: Callable[..., object], *needs: Need) -> None:
        self._working(Several(write, needs, self.space))

    def _working(self, call: Callable[[], None]) -> None:
        self.do(call)
        need_memory(self.arena.size + self.space.size, f"{self.space.size} bytes to work in")

    @property
    def scratch(self) -> int:  # type: ignore[override]  # what is kept, and values beyond the plan, count
        return max(self.kept.limit - (self.arena.size - self.planned), self.least)

    def fixed(self, *arrays: Array | None) -> bool:
        return all(a is None or not (a.flags.writeable or self.arena.block_of(a) is not None) for a in arrays)

    def room(self, size: int) -> bool:
        return size + max(self.space.size, self.least) <= self.scratch

    def keeps(self, size: int) -> bool:
        if not self.room(size):
            return False
        self.kept.limit -= size
        return True

    def holds(self, *arrays: Array) -> None:
        self.kept.limit -= sum(a.nbytes for a in arrays)

    @property
    def beyond(self) -> int:
        """Bytes that are used beyond what was to be kept and to be worked in."""
        return self.space.size + self.arena.size - self.planned - self.kept.limit

    def reach(self, array: Array | None) -> float:
        if array is None or array.size == 0:
            return 0.0
        block = self.arena.block_of(array)
        if block is not None:
            return block.reach
        if array.size > SMALL or not self.fixed(array) or array.dtype.kind != "f":
            return np.inf
        ends = array.min(), array.max()
        return float(np.abs(ends).max())  # NaN makes it NaN, which is no limit

    def limit(self, array: Array, reach: float) -> None:
        block = self.arena.block_of(array)
        if block is not None:
            block.reach = reach

    def reshaped(self, array: Array, shape: Sequence[int]) -> Array:
        view = array.reshape(shape)
        if view.size == 0 or np.may_share_memory(view, array):
            return view
        out = self.empty(array.shape, array.dtype)
        self.copy(array, out)
        self.limit(out, self.reach(array))
        return out.reshape(shape)

    def contiguous(self, array: Array) -> Array:
        if array.flags.c_contiguous:
            return array
        if self.fixed(array) and self.keeps(array.nbytes):
            kept: Array = array.copy()
            kept.flags.writeable = False
            return kept
        out = self.empty(array.shape, array.dtype)
        self.copy(array, out)
        self.limit(out, self.reach(array))
        return out

    def input(self, array: Array, reach: float) -> Array:
        """A place for an input like ``array``, held for the graph that is recorded next.

        ``reach``: of its elements, if they are float32 or float64.
        """
        if array.dtype.hasobject:
            return np.empty(array.shape, array.dtype)
        place = self.arena.empty(array.shape, array.dtype)
        if array.dtype in (np.float32, np.float64):
            self.limit(place, reach)
        return place

    # -- who holds what ------------------------------------------------------------------------

    def hold(self, entry: Entry) -> None:
        for array in arrays_of(entry):
            block = self.arena.block_of(array)
            if block is not None:
                block.users += 1

    def release(self, entry: Entry) -> None:
        for array in arrays_of(entry):
            block = self.arena.block_of(array)
            if block is not None:
                self.arena.release(block)


def arrays_of(entry: Entry) -> Sequence[Array]:
    """What an entry keeps memory for."""
    if isinstance(entry, np.ndarray):
        return (entry,)
    return entry.held if isinstance(entry, Cell) else ()
