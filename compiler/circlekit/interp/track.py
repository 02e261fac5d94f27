# SPDX-License-Identifier: Apache-2.0
"""Calls in their order, as a recorder notes them, and what they belong to."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from operator import length_hint
from typing import Any

import numpy as np

from circlekit.errors import CirclekitError, ModelError
from circlekit.interp.evaluate import compute
from circlekit.interp.room import Room
from circlekit.ir.graph import Model
from circlekit.ir.location import place
from circlekit.ir.op import Op, Run
from circlekit.ir.value import Array, Value

NUMERIC = (ValueError, TypeError, IndexError, ArithmeticError, MemoryError)
"""What numpy raises where arrays are not as a function wants them."""


class Track:
    """Calls without arguments, made one after the other; ``owners``: the operator of each."""

    def __init__(self, model: Model | None) -> None:
        self.model = model
        self.calls: list[Callable[[], object]] = []
        self.owners: list[Op] = []

    def add(self, owner: Op, function: Callable[..., object], *args: Any, **options: Any) -> None:
        self.calls.append(partial(function, *args, **options) if args else function)
        self.owners.append(owner)

    def cut(self, length: int) -> None:
        """Forget all calls behind the first ``length``."""
        del self.calls[length:], self.owners[length:]

    def extend(self, other: Track) -> None:
        self.calls += other.calls
        self.owners += other.owners

    def __call__(self) -> None:
        calls = iter(self.calls)
        try:
            for call in calls:
                call()
        except CirclekitError as error:
            raise error.note(place(self._last(calls), self.model)) from None
        except NUMERIC as error:
            op = self._last(calls)
            raise ModelError(f"{op.code} cannot be computed: {error}").note(place(op, self.model)) from error

    def _last(self, calls: object) -> Op:
        """The operator of the call that ``calls`` gave last."""
        return self.owners[len(self.calls) - length_hint(calls) - 1]


class Cell:
    """A result whose shape or place is not known before the run; ``held``: what its array may look into."""

    __slots__ = ("array", "held")

    def __init__(self, held: Sequence[Array]) -> None:
        self.array: Any = None
        self.held = held

    def clear(self) -> None:
        self.array = None


Entry = Array | Cell | Value | None
"""What stands for a value: its array in all runs, a cell, a variable (read when it is wanted), nothing."""


class General:
    """An operator without a bound form: its kernel is called in every run."""

    def __init__(self, op: Op, operands: Sequence[Entry], targets: Sequence[Array | Cell], run: Run) -> None:
        self.op, self.operands, self.targets, self.run = op, operands, targets, run
        self.room = Room(op)

    def __call__(self) -> None:
        arguments = [read(entry, self.run) for entry in self.operands]
        self.room.check(arguments)
        if not self.op.pure:  # what it keeps must not change with the next run
            arguments = [None if a is None else a.copy() for a in arguments]
        for target, result in zip(self.targets, compute(self.op, arguments, self.run), strict=True):
            if isinstance(target, Cell):
                target.array = result
            else:
                np.copyto(target, result)


def read(entry: Entry, run: Run) -> Array | None:
    """The array that ``entry`` stands for now; no kernel can write into it."""
    if isinstance(entry, np.ndarray):
        view: Array = entry.view()
        view.flags.writeable = False
        return view
    if isinstance(entry, Cell):
        array: Array = entry.array
        return array
    if isinstance(entry, Value):
        variable: Array = run.state.read(entry)  # type: ignore[attr-defined]  # the interpreter's
        return variable
    return None


class Loop:
    """``body`` as long as ``condition`` leaves something else than 0 in ``truth``.

    ``run``: counts the graphs that it runs.
    """

    def __init__(self, condition: Track, truth: Array, body: Track, run: Run) -> None:
        self.condition, self.truth, self.body, self.run = condition, truth, body, run

    def __call__(self) -> None:
        condition, truth, body = self.condition, self.truth, self.body
        count: Callable[[], None] = self.run.count  # type: ignore[attr-defined]  # the interpreter's
        count()
        condition()
        while truth.item():
            count()
            body()
            count()
            condition()


class Choice:
    """The first track if ``truth`` holds something else than 0, else the second."""

    def __init__(self, truth: Array, tracks: tuple[Track, Track]) -> None:
        self.truth, self.tracks = truth, tracks

    def __call__(self) -> None:
        self.tracks[0 if self.truth.item() else 1]()
