# SPDX-License-Identifier: Apache-2.0
"""How sums become integers, a block at a time, in memory that belongs to nobody."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np

from circlekit.ir.tape import NOW, Need, Tape
from circlekit.ir.value import Array
from circlekit.ops.common import clip

BLOCK = 1 << 14
"""Elements at a time: their float64 scratch stays in the cache."""

LARGE = 1 << 20
"""Bytes that are enough for any block."""


class Writer:
    """Writes what becomes of sums [R,..,C] into an array of integers.

    ``needs``: memory that each call works in; ``held``: what is between calls.  ``begin`` comes before the
    first of some calls with the same memory, for ``needs`` and for ``held``.  ``vectors``: its own arrays.
    """

    needs: Sequence[Need] = ()
    held: Sequence[Need] = ()
    vectors: Sequence[Array] = ()

    def begin(self, *memory: Array) -> None:
        """Prepare for calls."""

    def __call__(self, sums: Array, out: Array) -> None:
        raise NotImplementedError


class Store:
    """What becomes of sums."""

    def writer(self, size: int, channels: int, limit: int, held: int) -> Writer:
        """For ``size`` sums in all, in ``limit`` bytes or as few as can be, and ``held`` for what is held."""
        raise NotImplementedError

    def __call__(self, sums: Array, out: Array) -> None:
        write(NOW, self, sums, out)


def write(tape: Tape, store: Store, sums: Array, out: Array) -> None:
    """Note the calls that write what becomes of sums [R,..,C] into ``out``."""
    limit = min(tape.scratch, LARGE) // 2
    writer = store.writer(sums.size, sums.shape[-1] if sums.ndim else 1, limit, limit)

    def run(*memory: Array) -> None:
        writer.begin(*memory)
        writer(sums, out)

    tape.work(run, *writer.needs, *writer.held)


class Span(NamedTuple):
    """``zero``: the zero point of the result; ``limits``: its least and greatest integer; ``bound``: of the
    sums without bias, of either sign.
    """

    zero: int
    limits: tuple[int, int]
    bound: float


RUN = 1 << 6
"""Vectors of channels are repeated until they are so long: shorter runs are slow."""


class Steps(Store):
    """Results are counted from the least limit: nothing that matters is negative, and conversion to integers
    rounds down.
    """

    span: Span
    spare: ClassVar[int] = 0
    """Arrays like ``real`` that ``count`` works in."""

    def vectors(self) -> Sequence[Array]:
        """float64, one number or one for each channel."""
        raise NotImplementedError

    def count(self, real: Array, vectors: Sequence[Array], *spare: Array) -> None:
        """Make ``real`` sums numbers of steps; ``vectors`` broadcast to their shape."""
        raise NotImplementedError

    def writer(self, size: int, channels: int, limit: int, held: int) -> Writer:
        return StepWriter(self, size, channels, limit, held)


class StepWriter(Writer):
    """A block of sums at a time, as float64.

    ``most``: the elements of a block, whole vectors of channels.  Where there is room for vectors of that
    length, they are filled with those of the channels: numpy is twice as fast without broadcasting.
    """

    def __init__(self, steps: Steps, size: int, channels: int, limit: int, held: int) -> None:
        self.steps, self.channels = steps, max(channels, 1)
        self.vectors = self.full = list(steps.vectors())
        arrays, long = 1 + steps.spare, sum(v.size > 1 for v in self.vectors)
        block = max(min(size, BLOCK, max(BLOCK >> 2, size >> 3), limit // (8 * arrays)), 1)
        self.most = max(1, block // self.channels) * self.channels
        self.many = channels > 1 and 0 < 8 * self.most * long <= held and size > 2 * self.most
        real = (self.most,), np.dtype(np.float64)
        self.needs = [real] * arrays
        self.held = [real] * (long if self.many else 0)
        self.lowest, highest = steps.span.limits
        self.highest = np.array(highest - self.lowest, np.float64)
        self.memory: Sequence[Array] = ()
        self.suited: dict[int, tuple[Sequence[Array], Array, list[Array]]] = {}

    def begin(self, *memory: Array) -> None:
        work, held = memory[: len(self.needs)], memory[len(self.needs) :]
        if not self.memory or self.memory[0] is not work[0]:
            self.memory = work
            self.suited.clear()
        if self.many:
            places = iter(held)
            self.full = [v if v.size == 1 else fill(next(places), v) for v in self.vectors]

    def __call__(self, sums: Array, out: Array) -> None:
        if sums.size == 0:
            return
        if out.flags.c_contiguous:
            sums, out = sums.reshape(-1, self.channels), out.reshape(-1, self.channels)
        elif out.ndim > 2 and sums[0].size > self.most:
            for row, place in zip(sums, out, strict=True):
                self(row, place)
            return
        step = max(1, self.most // sums[0].size)
        target = out.view(_UNSIGNED[out.dtype.itemsize])
        if step >= len(sums):
            self._block(sums, target)
            return
        for top in range(0, len(sums), step):
            self._block(sums[top : top + step], target[top : top + step])

    def _block(self, sums: Array, target: Array) -> None:
        suited = self.suited.get(sums.size)
        vectors, real, spare = self._suited(sums.size) if suited is None else suited
        real[...] = sums.reshape(real.shape)  # functions of several dtypes work in buffers of numpy's
        self.steps.count(real, vectors, *spare)
        clip(real, ZERO, self.highest, real)
        target[...] = real.reshape(target.shape)
        if self.lowest:
            np.add(target, target.dtype.type(self.lowest % (1 << (8 * target.itemsize))), target)

    def _suited(self, size: int) -> tuple[Sequence[Array], Array, list[Array]]:
        """Vectors and memory for blocks of ``size`` sums."""
        row = size if self.many else self.channels * _repeats(size // self.channels, self.channels)
        others = (v for v, r, _ in self.suited.values() if r.shape[-1] == row)
        vectors = next(others, None) or [v if v.size == 1 else _of_length(v, row) for v in self.full]
        flat = row == size or all(v.size == 1 for v in self.full)
        real, *spare = (m[:size] if flat else m[:size].reshape(-1, row) for m in self.memory)
        self.suited[size] = vectors, real, spare
        return self.suited[size]


def _of_length(vector: Array, length: int) -> Array:
    """The start of a vector, or the vector again and again."""
    return vector[:length] if length <= vector.size else np.tile(vector, length // vector.size)


ZERO = np.array(0, np.float64)

_UNSIGNED: dict[int, np.dtype[Any]] = {1: np.dtype(np.uint8), 2: np.dtype(np.uint16)}


def _repeats(rows: int, channels: int) -> int:
    """How many of ``rows`` vectors of so many channels to take for one."""
    return next(n for n in range(max(1, RUN // channels), 0, -1) if rows % n == 0)


def fill(out: Array, vector: Array) -> Array:
    """``vector`` again and again in ``out``."""
    have = min(vector.size, out.size)
    out[:have] = vector[:have]
    while have < out.size:
        more = min(have, out.size - have)
        out[have : have + more] = out[:more]
        have += more
    return out


class Converted(Store):
    """Sums that functions of numpy convert, with some arrays of 64 bits on the way."""

    def convert(self, sums: Array, out: Array) -> None:
        raise NotImplementedError

    def writer(self, size: int, channels: int, limit: int, held: int) -> Writer:
        return BlockWriter(self, limit)


class BlockWriter(Writer):
    """A few vectors of sums at a time, for which ``convert`` takes a part of ``limit`` bytes of its own."""

    def __init__(self, store: Converted, limit: int) -> None:
        self.convert, self.most = store.convert, max(1, min(BLOCK, limit // 4 // WIDE))

    def __call__(self, sums: Array, out: Array) -> None:
        if sums.ndim > 2 and sums[:1].size > self.most:
            for row, place in zip(sums, out, strict=True):
                self(row, place)
            return
        step = max(1, self.most // max(1, sums[:1].size))
        for top in range(0, len(sums), step):
            self.convert(sums[top : top + step], out[top : top + step])


WIDE = 40
"""Bytes that a number takes on its way through integers of 64 bits."""
