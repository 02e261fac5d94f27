# SPDX-License-Identifier: Apache-2.0
"""Memory that the calls of a recording work in, one after the other."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from math import prod
from typing import Any

import numpy as np

from circlekit.interp.arena import ALIGNED, address
from circlekit.ir.tape import Need, Tape, Turns
from circlekit.ir.value import Array


class Workspace:
    """As many bytes as the call that needs most; they are got when the first call runs, and all are known."""

    def __init__(self) -> None:
        self.size = 0
        self.bytes: Array | None = None

    def arrays(self, needs: Sequence[Need | Turns | None]) -> list[Array | None]:
        """Memory for ``needs``, side by side."""
        if self.bytes is None or self.bytes.nbytes < self.size:
            raw = np.empty(self.size + ALIGNED, np.uint8)
            first = -address(raw) % ALIGNED
            self.bytes = raw[first : first + self.size]
        places, _ = placed(needs)
        return [None if p is None else np.ndarray(p[0], p[1], self.bytes, p[2]) for p in places]


class Work:
    """A call of ``function`` with arrays of ``space`` for ``needs``."""

    __slots__ = ("arrays", "function", "needs", "space")

    def __init__(
        self, function: Callable[..., object], needs: Sequence[Need | Turns | None], space: Workspace
    ) -> None:
        self.function, self.needs, self.space = function, needs, space
        self.arrays: list[Array | None] | None = None
        space.size = max(space.size, placed(needs)[1])

    def __call__(self) -> None:
        if self.arrays is None:
            self.arrays = self.space.arrays(self.needs)
            self.needs = ()
        self.function(*self.arrays)


class Notes(Tape):
    """Calls without arguments, one after the other."""

    def __init__(self) -> None:
        self.calls: list[Callable[[], object]] = []

    def do(self, function: Callable[..., object], *args: Any, **options: Any) -> None:
        self.calls.append(partial(function, *args, **options))


class Several:
    """The calls that ``write`` writes on a tape, with arrays of ``space`` for ``needs``."""

    __slots__ = ("calls", "needs", "space", "write")

    def __init__(self, write: Callable[..., object], needs: Sequence[Need], space: Workspace) -> None:
        self.write, self.needs, self.space = write, needs, space
        self.calls: list[Callable[[], object]] | None = None
        space.size = max(space.size, placed(needs)[1])

    def __call__(self) -> None:
        if self.calls is None:
            notes = Notes()
            self.write(notes, *self.space.arrays(self.needs))
            self.calls = notes.calls
        for call in self.calls:
            call()


Place = tuple[tuple[int, ...], np.dtype[Any], int]
"""Shape, dtype and start of an array."""


def placed(needs: Sequence[Need | Turns | None], start: int = 0) -> tuple[list[Place | None], int]:
    """Where arrays for ``needs`` are, from ``start`` on, and where they end."""
    places: list[Place | None] = []
    for need in needs:
        if isinstance(need, Turns):
            (first, end), (then, other) = placed(need.first, start), placed(need.then, start)
            places += first + then
            start = max(end, other)
        elif need is None:
            places.append(None)
        else:
            places.append((*need, start))
            start += -(-prod(need[0]) * need[1].itemsize // ALIGNED) * ALIGNED
    return places, start
