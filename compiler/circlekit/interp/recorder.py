# SPDX-License-Identifier: Apache-2.0
"""Notes what the kernels of a graph would call, once for the shapes of its inputs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeGuard

import numpy as np

from circlekit.errors import CirclekitError
from circlekit.interp.evaluate import check_type, compute
from circlekit.interp.notes import Notes, arrays_of
from circlekit.interp.plan import Plan, Step, known_bytes
from circlekit.interp.room import Room
from circlekit.interp.together import together, views_ahead, whole
from circlekit.interp.track import NUMERIC, Cell, Choice, Entry, General, Loop, Track
from circlekit.ir.graph import Graph, Model
from circlekit.ir.op import Op, Run
from circlekit.ir.resource_limits import DEPTH
from circlekit.ir.value import Array, Value
from circlekit.ops.once import Kept

UNROLLED = 4096
"""A loop whose condition is known beforehand is written out, up to so many calls."""

COPIES = 4 * UNROLLED
"""Graphs that operators run are recorded where they are run, up to so many times."""


class NotBound(Exception):
    """A part of a graph that was to be bound cannot be."""


class Recorder(Notes):
    """Notes the calls of a graph.

    ``plans``: gives the plan of a graph; ``run``: runs graphs for operators that are not bound.
    """

    def __init__(self, model: Model | None, plans: Callable[[Graph], Plan], run: Run, kept: Kept) -> None:
        super().__init__(model, kept)
        self.plans, self.run = plans, run
        self.graphs: list[Graph] = []
        self.seen: dict[Graph, int] = {}
        self.copies = 0
        self.has_general = False

    # -- graphs --------------------------------------------------------------------------------

    def record(self, graph: Graph, inputs: Sequence[Entry]) -> list[Entry]:
        """The outputs of ``graph``, each of them held; ``inputs`` were, and are no more."""
        plan = self.plans(graph)
        self.seen[graph] = plan.epoch
        entries: list[Entry] = [None for _ in plan.values]
        entries[: len(inputs)] = list(inputs)
        self.graphs.append(graph)
        try:
            for index, step in enumerate(plan.steps):
                if not step.made or entries[step.made[0]] is None:  # else one before has made it
                    for other in views_ahead(plan, index, entries):
                        self._step(other, plan, entries)
                    several = together(plan, index, entries, self.arena)
                    if len(several) == 1 or not self._together(several, entries):
                        self._step(step, plan, entries)
                self._drop(step, entries)
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

    def _together(self, steps: Sequence[Step], entries: list[Entry]) -> bool:
        """Several operators by the calls of one; False where that is not possible."""
        operands = [[e for n in step.operands for e in arrays_of(entries[n])] for step in steps]
        outer, self.scope, self.owner = self.scope, [], steps[0].op
        length, place = len(self.track.calls), 0
        try:
            out = steps[0].op.bind(self, *(whole(each, self.arena) for each in zip(*operands, strict=True)))
            for step, arrays in zip(steps, operands, strict=True):
                check_type(step.op.output, arrays[0], "made")
        except (CirclekitError, *NUMERIC):  # each says it by itself
            out = None
        if out is None:
            self.track.cut(length)
        else:
            for step, (operand, *_) in zip(steps, operands, strict=True):
                part = out[place : place + operand.size].reshape(operand.shape)
                self.hold(part)
                entries[step.made[0]] = part
                place += operand.size
        for entry in self.scope:
            self.release(entry)
        self.scope = outer
        return out is not None

    def _drop(self, step: Step, entries: list[Entry]) -> None:
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
        arrays = [a for e in operands for a in arrays_of(e)]
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


def _are_arrays(entries: Sequence[Entry]) -> TypeGuard[Sequence[Array | None]]:
    return all(e is None or isinstance(e, np.ndarray) for e in entries)


def _types(arrays: Sequence[Array]) -> list[tuple[Any, ...]]:
    return [(a.shape, a.dtype) for a in arrays]
