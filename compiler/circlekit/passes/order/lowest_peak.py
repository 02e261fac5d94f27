# SPDX-License-Identifier: Apache-2.0
"""Search for the order of operators with the lowest peak: the most bytes that are live at the same time.

The buffers that are live after a set of operators has run do not depend on the order in which these ran.  So
an order is a path through sets, each with one operator more than the set before.  The exact search (dynamic
programming over these sets) continues from every set at most once.  If the exact search takes too long, a
beam search replaces it, which keeps only the best sets of each round.
In this file, a set of operators is an integer: bit ``i`` stands for operator number ``i``.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from itertools import accumulate, count
from typing import NamedTuple

EXACT_TRIALS = 200_000
"""The exact search gives up after this many continuations of paths, which take about a second."""

BEAM_TRIALS = 100_000
"""About how many continuations the beam search tries; each of its rounds has an equal share."""

BEAM_WIDTH = 64
"""The most sets that the beam search keeps in a round.

A round adds one operator to each set, and then those that ``_without_choice`` runs.
"""


class BufferUse(NamedTuple):
    """A buffer of ``size`` bytes.

    ``producer``: the number of the operator that creates the buffer, -1 if it is live from the beginning.
    ``users``: the set of operators that read or write the buffer, the producer included.  The buffer is
    released when all of them have run; if ``is_kept`` is true, never.
    """

    size: int
    producer: int
    users: int
    is_kept: bool


@dataclass(slots=True)
class Step:
    """A position on a path: the set ``done`` of operators has run.

    ``live``: the bytes that are live now.  ``peak``: the most bytes that were live so far.  ``ready``: the
    set of operators that can run next.  ``count``: the number of operators in ``done``.  ``operator``: the
    operator that ran last, or -1.  ``previous``: the step before it, or None.
    """

    done: int
    live: int
    peak: int
    ready: int
    count: int
    operator: int = -1
    previous: Step | None = None

    def order(self) -> list[int]:
        """Return the operators of the path up to this step, in order."""
        found, step = [], self
        while step.previous is not None:
            found.append(step.operator)
            step = step.previous
        return found[::-1]


@dataclass
class OrderSearch:
    """The search for one graph.

    ``predecessors``: for each operator, the set of operators that must run before it.
    ``limit``: a number of bytes; only orders with a lower peak are searched.
    ``_successors``: for each operator, the operators that have it among their ``predecessors``.
    ``_created``: for each operator, the bytes of the buffers that it creates.
    ``_released_by``: for each operator, (size, users) of each buffer that it releases if it is the last user.
    ``_live``: the bytes that are live at the beginning.
    ``_floor``: a lower bound of the peak of every order.  It is the larger of ``_live`` and the most bytes
    that one operator needs: its buffers, and those that are live from the beginning and never released.
    ``_shrinking``: the set of operators that can release at least as many bytes as they create.
    ``_trials``: about the number of continuations of paths that were tried; an operator that
    ``_without_choice`` runs counts twice.
    """

    predecessors: Sequence[int]
    buffers: Sequence[BufferUse]
    limit: int
    _successors: list[list[int]] = field(init=False)
    _created: list[int] = field(init=False)
    _released_by: list[list[tuple[int, int]]] = field(init=False)
    _live: int = field(init=False, default=0)
    _floor: int = field(init=False, default=0)
    _shrinking: int = field(init=False, default=0)
    _trials: int = field(init=False, default=0)

    def __post_init__(self) -> None:
        size = len(self.predecessors)
        self._successors = [[] for _ in range(size)]
        for index, before in enumerate(self.predecessors):
            for other in members(before):
                self._successors[other].append(index)
        self._created, self._released_by = [0] * size, [[] for _ in range(size)]
        always, touched = 0, [0] * size  # bytes live during every operator; bytes of each operator's buffers
        for buffer in self.buffers:
            if buffer.producer >= 0:
                self._created[buffer.producer] += buffer.size
            else:
                self._live += buffer.size
                if buffer.is_kept:
                    always += buffer.size
                    continue
            for index in members(buffer.users):
                touched[index] += buffer.size
                if not buffer.is_kept:
                    self._released_by[index].append((buffer.size, buffer.users))
        for index, created in enumerate(self._created):
            if created <= sum(size for size, _ in self._released_by[index]):
                self._shrinking |= 1 << index
        self._floor = max(self._live, always + max(touched, default=0))

    def lowest(self) -> tuple[list[int] | None, bool]:
        """Return (the order with the lowest peak that was found, or None; whether the search was complete).

        Only orders with a peak below ``limit`` are searched.  After a complete search, no order has a lower
        peak than the returned one; if it is None, no order has a peak below ``limit``.
        """
        if self._floor >= self.limit:
            return None, True
        found, is_complete = self._exact()
        if is_complete:
            return found, True
        return self._beam(), False

    def _first(self) -> Step:
        """Return the step from which the search starts."""
        ready = sum(1 << index for index, before in enumerate(self.predecessors) if not before)
        return self._without_choice(Step(0, self._live, self._live, ready, 0))

    def _exact(self) -> tuple[list[int] | None, bool]:
        """Return (the best order below the limit, or None; whether the search came to its end)."""
        first, numbers = self._first(), count()
        queue = [(first.peak, -first.count, next(numbers), first)]  # the number orders equal steps
        # the lowest peaks so far, by set: ``reached`` before ``_without_choice`` adds operators, ``settled``
        # after
        settled, reached = {first.done: first.peak}, dict[int, int]()
        while queue:
            *_, step = heappop(queue)
            if step.count == len(self.predecessors):
                return step.order(), True  # no other step of the queue has a lower peak
            if step.peak > settled[step.done]:
                continue
            if self._trials > EXACT_TRIALS:
                return None, False
            for following in self._following(step, reached):
                if following.peak < settled.get(following.done, self.limit):
                    settled[following.done] = following.peak
                    heappush(queue, (following.peak, -following.count, next(numbers), following))
        return None, True

    def _beam(self) -> list[int] | None:
        """Return the best order below the limit that a beam search finds, or None."""
        trials = BEAM_TRIALS // len(self.predecessors)  # for each round
        steps, best = [self._first()], None
        while steps:
            found: dict[int, Step] = {}
            reached: dict[int, int] = {}
            for step in steps:
                for following in self._following(step, reached):
                    known = found.get(following.done, following)
                    found[following.done] = min(known, following, key=lambda step: step.peak)
            # of steps with equal peaks, fewer live bytes are better; one more operator is worth one byte
            ranked = sorted(found.values(), key=lambda step: (step.peak, step.live - step.count))
            complete = [step for step in ranked if step.count == len(self.predecessors)]
            best = min([*complete, *filter(None, [best])], key=lambda step: step.peak, default=None)
            better = [step for step in ranked if best is None or step.peak < best.peak][:BEAM_WIDTH]
            # for each step, the number of continuations of this step and all better ones together
            tried = list(accumulate(step.ready.bit_count() for step in better))
            steps = better[: max(1, bisect_right(tried, trials))]
        return best.order() if best is not None else None

    def _following(self, step: Step, reached: dict[int, int]) -> Iterator[Step]:
        """Yield the step after each operator that can run next, if the peak of this step is low enough.

        ``reached``: {set of operators: the lowest peak with which a path has reached it}; it is updated.  A
        step is yielded if its peak is lower than that of ``reached`` and lower than ``limit``.
        """
        for index in members(step.ready):
            done, peak = step.done | 1 << index, max(step.peak, step.live + self._created[index])
            if peak < reached.get(done, self.limit):
                reached[done] = peak
                yield self._without_choice(self._after(step, index))

    def _without_choice(self, step: Step) -> Step:
        """Run all operators that cost no bytes, as long as there are any, and return the last step.

        Such an operator releases at least as many bytes as it creates.  While it runs, the live bytes do not
        exceed the larger of the peak so far and ``_floor``.  To run it now is best: in any order of the
        operators that are left, it can be moved to the beginning.  There it may release fewer bytes than at
        its old place, because other users of its operands have not run yet.  But it still releases as many as
        it creates, so the peak of the order does not rise.
        """
        is_changed = True
        while is_changed:
            is_changed = False
            for index in members(step.ready & self._shrinking):
                during = step.live + self._created[index]
                if during > max(step.peak, self._floor):
                    continue
                if self._created[index] <= self._released(step.done | 1 << index, index):
                    step, is_changed = self._after(step, index), True
        return step

    def _released(self, done: int, index: int) -> int:
        """Return the bytes that operator ``index`` releases if it runs as the last of the set ``done``."""
        self._trials += 1
        return sum(size for size, users in self._released_by[index] if not users & ~done)

    def _after(self, step: Step, index: int) -> Step:
        """Return the step after ``step`` and then operator ``index``."""
        done = step.done | 1 << index
        during = step.live + self._created[index]
        ready = step.ready & ~(1 << index)
        for other in self._successors[index]:
            if not self.predecessors[other] & ~done:
                ready |= 1 << other
        peak = max(step.peak, during)
        return Step(done, during - self._released(done, index), peak, ready, step.count + 1, index, step)


def members(numbers: int) -> Iterator[int]:
    """Yield the numbers of the operators in a set, ascending."""
    while numbers:
        lowest = numbers & -numbers
        yield lowest.bit_length() - 1
        numbers ^= lowest
