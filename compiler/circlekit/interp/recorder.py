# SPDX-License-Identifier: Apache-2.0
"""Notes what the kernels of a graph would call, once for the shapes of its inputs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeGuard

import numpy as np

from circlekit.errors import CirclekitError
from circlekit.interp.arena import Arena
from circlekit.interp.evaluate import check_type, compute
from circlekit.interp.plan import Plan, Step, known_bytes
from circlekit.interp.room import Room
from circlekit.interp.track import NUMERIC, Cell, Choice, Entry, General, Loop, Track
from circlekit.interp.workspace import Several, Work, Workspace
from circlekit.ir.graph import Graph, Model
from circlekit.ir.limits import DEPTH, need_memory
from circlekit.ir.op import Op, Run
from circlekit.ir.tape import Need, Tape, Turns
from circlekit.ir.value import Array, Value
from circlekit.ops.once import Kept

SMALL = 1 << 16
"""Elements of a constant that is looked at for its range."""

UNROLLED = 4096
"""A loop whose condition is known beforehand is written out, up to so many calls."""


COPIES = 4 * UNROLLED
"""Graphs that operators run are recorded where they are run, up to so many times."""


class NotBound(Exception):
    """A part of a graph that was to be bound cannot be."""


class Recorder(Tape):
    """A tape that notes calls on ``track``.  Memory comes from ``arena``; who holds a block is counted.

    ``plans``: gives the plan of a graph; ``run``: runs graphs for operators that are not bound; ``kept``: how
    much may be kept, and what calls work in is to be no more than what is left of that.
    """

    def __init__(self, model: Model | None, plans: Callable[[Graph], Plan], run: Run, kept: Kept) -> None:
        self.model, self.plans, self.run, self.kept = model, plans, run, kept
        self.track = Track(model)
        self.arena = Arena()
        self.space = Workspace()
        self.least, self.planned = kept.limit // 6, 0
        self.graphs: list[Graph] = []
        self.seen: dict[Graph, int] = {}
        self.owner: Op | None = None
        self.scope: list[Entry] = []
        self.copies = 0
        self.has_general = self.has_work = False

    def reserve(self, size: int) -> None:
        """Get memory for values in one piece."""
        self.arena.reserve(size)
        self.planned += size

    # -- the tape ------------------------------------------------------------------------------

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
        for array in _arrays(entry):
            block = self.arena.block_of(array)
            if block is not None:
                block.users += 1

    def release(self, entry: Entry) -> None:
        for array in _arrays(entry):
            block = self.arena.block_of(array)
            if block is not None:
                self.arena.release(block)

    # -- graphs --------------------------------------------------------------------------------

    def record(self, graph: Graph, inputs: Sequence[Entry]) -> list[Entry]:
        """The outputs of ``graph``, each of them held; ``inputs`` were, and are no more."""
        plan = self.plans(graph)
        self.seen[graph] = plan.epoch
        entries: list[Entry] = [None for _ in plan.values]
        entries[: len(inputs)] = list(inputs)
        self.graphs.append(graph)
        try:
            for step in plan.steps:
                self._step(step, plan, entries)
            outputs = [self._entry(plan, n, entries) for n in plan.results]
            for entry in outputs:
                self.hold(entry)
        finally:
            self.graphs.pop()
            for entry in entries:
                self.release(entry)
        return outputs

    def _step(self, step: Step, plan: Plan, entries: list[Entry]) -> None:
        operands = [self._entry(plan, n, entries) for n in step.operands]
        results = self._operator(step.op, [*operands, *step.missing])
        for number, result in zip(step.made, results, strict=True):
            entries[number] = result
        for number in step.dropped:
            entry, entries[number] = entries[number], None
            self.release(entry)
            if isinstance(entry, Cell):
                self.do(entry.clear)

    def _entry(self, plan: Plan, number: int, entries: list[Entry]) -> Entry:
        value = plan.values[number]
        if entries[number] is not None or value is None:
            return entries[number]
        return plan.constant(number) if value.data is not None or not value.is_variable else value

    def _operator(self, op: Op, operands: list[Entry]) -> Sequence[Entry]:
        """The results, each of them held."""
        outer, self.scope = self.scope, []
        self.owner = op
        length = len(self.track.calls)
        try:
            results = self._folded(op, operands)
            results = self._bound(op, operands) if results is None else results
        except (CirclekitError, NotBound, *NUMERIC):  # if it is an error, the run will meet it
            results = None
        self.owner = op
        if results is None:
            self.track.cut(length)
            results = self._general(op, operands)
        for entry in results:
            self.hold(entry)
        for entry in self.scope:
            self.release(entry)
        self.scope = outer
        return results

    def _folded(self, op: Op, operands: list[Entry]) -> list[Entry] | None:
        """The results of constants, computed now; None where they are none, or are too large to be kept."""
        if not op.pure or not _are_arrays(operands) or op.called_graphs():
            return None
        if op.reads_data and not self.fixed(*operands):
            return None
        if not self.room(sum(known_bytes(v) for v in op.results)):
            return None
        Room(op).check([e for e in operands if not isinstance(e, Value | Cell)])
        results = compute(op, operands, self.run)
        if not self.keeps(sum(r.nbytes for r in results if r.flags.writeable)):
            return None
        frozen: list[Entry] = []
        for result in results:
            array = result.copy() if result.flags.writeable and not result.flags.owndata else result
            array.flags.writeable = False
            frozen.append(array)
        return frozen

    def _bound(self, op: Op, operands: list[Entry]) -> list[Entry] | None:
        if not _are_arrays(operands):
            return None
        bound = op.bind(self, *operands)
        if bound is None:
            return None
        results: list[Entry] = []
        for value, array in zip(
            op.results, bound if isinstance(bound, tuple | list) else [bound], strict=True
        ):
            if not isinstance(array, np.ndarray):
                raise NotBound  # an element, which was read now
            if array.shape != value.shape or array.dtype != value.dtype.numpy:
                check_type(value, array, "made")
            known = self.fixed(array) or array.size == 0 or array.dtype.hasobject
            if not known and self.arena.block_of(array) is None:
                raise NotBound  # it was computed, of what nobody has written yet
            results.append(array)
        return results

    def _general(self, op: Op, operands: list[Entry]) -> list[Entry]:
        arrays = [a for e in operands for a in _arrays(e)]
        targets: list[Array | Cell] = []
        for value in op.results:
            if value.shape and None not in value.shape and value.dtype.numpy not in (None, np.dtype(object)):
                targets.append(self.empty(value.static_shape, value.dtype.numpy))
            else:
                targets.append(Cell(arrays))
        self.has_general = True
        self.do(General(op, operands, targets, self.run))
        return list(targets)

    # -- graphs that operators run -------------------------------------------------------------

    def graph(self, graph: Graph, operands: Sequence[Array]) -> Sequence[Array]:
        self.copies += 1
        if graph in self.graphs or len(self.graphs) >= DEPTH or self.copies > COPIES:
            raise NotBound  # it runs itself, or a tree of graphs has no end
        owner = self.owner
        for array in operands:
            self.hold(array)
        entries = self.record(graph, operands)
        self.owner = owner
        self.scope += entries
        outputs = [e for e in entries if isinstance(e, np.ndarray)]
        if len(outputs) < len(entries):
            raise NotBound
        return outputs

    def choice(
        self, condition: Array, graphs: tuple[Graph, Graph], operands: Sequence[Array]
    ) -> Sequence[Array] | None:
        tracks, parts = (Track(self.model), Track(self.model)), []
        for track, graph in zip(tracks, graphs, strict=True):
            with self._on(track):
                parts.append(self.graph(graph, operands))
        types = [_types(part) for part in parts]
        if types[0] != types[1] or condition.size != 1:
            return None
        targets = [self.empty(*kind) for kind in types[0]]
        for track, part in zip(tracks, parts, strict=True):
            self._moved(track, part, targets)
        self.do(Choice(condition, tracks))
        return targets

    def loop(self, condition: Graph, body: Graph, state: Sequence[Array]) -> Sequence[Array] | None:
        if any(a.dtype.hasobject for a in state):
            return None
        outer, self.scope = self.scope, []
        inner = Track(self.model)
        try:
            with self._on(inner):
                written = self._written_out(condition, body, state)
        except NotBound:
            written = None
        mine, self.scope = self.scope, outer
        if written is None:
            for entry in mine:
                self.release(entry)
            return self._repeated(condition, body, state)
        self.track.extend(inner)
        self.scope += mine
        return written

    def _written_out(self, condition: Graph, body: Graph, state: Sequence[Array]) -> Sequence[Array] | None:
        """The state after the loop, one copy of the body for each turn; None if the turns are not known."""
        for _ in range(UNROLLED):  # a turn need not make a call
            truth = self.graph(condition, state)[0]
            if not self.fixed(truth) or truth.size != 1:
                return None
            if not truth.item():
                return state
            state = self.graph(body, state)
            if len(self.track.calls) > UNROLLED:
                return None
            ended = len(self.scope) - len(state)
            for entry in self.scope[:ended]:
                self.release(entry)
            del self.scope[:ended]
        return None

    def _repeated(self, condition: Graph, body: Graph, state: Sequence[Array]) -> Sequence[Array] | None:
        kept = [self.empty(a.shape, a.dtype) for a in state]
        for target, source in zip(kept, state, strict=True):
            self.copy(source, target)
        tracks = (Track(self.model), Track(self.model))
        with self._on(tracks[0]):
            truth = self.graph(condition, kept)[0]
        with self._on(tracks[1]):
            after = self.graph(body, kept)
        if truth.size != 1 or _types(after) != _types(kept):
            return None
        self._moved(tracks[1], after, kept)
        self.do(Loop(tracks[0], truth, tracks[1], self.run))
        return kept

    @contextmanager
    def _on(self, track: Track) -> Iterator[None]:
        """Within, calls are noted on ``track``."""
        outer, self.track = self.track, track
        try:
            yield
        finally:
            self.track = outer

    def _moved(self, track: Track, sources: Sequence[Array], targets: Sequence[Array]) -> None:
        """Copy ``sources`` to ``targets`` at the end of ``track``, as if at the same time."""
        assert self.owner is not None
        pairs = []
        for source, target in zip(sources, targets, strict=True):
            others = [t for t in targets if t is not target]
            if source is target:
                continue
            if any(np.may_share_memory(source, t) for t in others):
                spare = self.empty(source.shape, source.dtype)
                track.add(self.owner, spare.__setitem__, Ellipsis, source)
                source = spare
            pairs.append((target, source))
        for target, source in pairs:
            track.add(self.owner, target.__setitem__, Ellipsis, source)


def _arrays(entry: Entry) -> Sequence[Array]:
    if isinstance(entry, np.ndarray):
        return (entry,)
    return entry.held if isinstance(entry, Cell) else ()


def _are_arrays(entries: Sequence[Entry]) -> TypeGuard[Sequence[Array | None]]:
    return all(e is None or isinstance(e, np.ndarray) for e in entries)


def _types(arrays: Sequence[Array]) -> list[tuple[Any, ...]]:
    return [(a.shape, a.dtype) for a in arrays]
