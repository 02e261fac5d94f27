# SPDX-License-Identifier: Apache-2.0
"""Functions of two integers of 8 bits in float64: without a table of 64 KB, and with the same results.

Products are whole numbers, of which a layer's end makes the results.  The terms of a sum are not: fixed-point
arithmetic rounds them, and sums are a little away from the real numbers they stand for.  Where no pair has
one so near to a step that this shows, float64 is right, which is tried once.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from circlekit.ir.tape import Tape
from circlekit.ir.value import Array
from circlekit.ops.common import clip
from circlekit.ops.numerics.lookup import BLOCK, FEWEST, every, parts
from circlekit.ops.numerics.stores import Store

Pairs = Callable[[Array, Array], Array]

TRIALS = (0.0, *(sign * 2.0**-power for power in (24, 21, 20, 19, 18) for sign in (1, -1)))
"""How far to move the results until all are right."""

FLOAT = np.dtype(np.float64)


class Pairwise:
    """What may be done with all pairs in floats."""

    def proven(
        self, function: Pairs, x: np.dtype[Any], y: Array, dtype: np.dtype[Any], room: int
    ) -> Pairwise | None:
        """What is ``function`` of all x and the given y [N], with results of ``dtype``; or None.

        ``room``: bytes that may be used to find out.
        """
        raise NotImplementedError

    def note(self, tape: Tape, x: Array, y: Array, out: Array) -> None:
        """Note the call that puts results of x and y, which broadcast, into ``out``."""
        raise NotImplementedError


@dataclass(eq=False, repr=False)
class Product(Pairwise):
    """(x - one zero point) * (y - the other): whole numbers, of which ``end`` makes the results."""

    zeros: tuple[int, int]
    end: Store

    def proven(
        self, function: Pairs, x: np.dtype[Any], y: Array, dtype: np.dtype[Any], room: int
    ) -> Pairwise | None:
        return self

    def note(self, tape: Tape, x: Array, y: Array, out: Array) -> None:
        left, right, target = flat(x, y, out)
        most = block_size(tape, out, 4)
        channels = max(out.shape[-1], 1) if target.ndim > 1 else 1
        writer = self.end.writer(most, channels, 8 * most, 0)

        def run(first: Array, second: Array, *memory: Array) -> None:
            writer.begin(*memory)
            for part in parts(target.shape, most):
                place = target[part]
                one, other = (m[: place.size].reshape(place.shape) for m in (first, second))
                one[...], other[...] = left[part], right[part]
                np.subtract(one, float(self.zeros[0]), one)
                np.subtract(other, float(self.zeros[1]), other)
                np.multiply(one, other, one)
                writer(one, place)

        tape.work(run, ((most,), FLOAT), ((most,), FLOAT), *writer.needs, *writer.held)


@dataclass(eq=False, repr=False)
class Sketch(Pairwise):
    """x * ``left`` + y * ``right`` + ``offset``, rounded to the nearest, and limited."""

    left: float
    right: float
    offset: float
    limits: tuple[int, int]

    def __call__(self, x: Array, y: Array, out: Array, first: Array, second: Array) -> None:
        """Put results into ``out``; ``first`` and ``second``: float64 of its shape and of that of y."""
        low, high = self.limits
        first[...], second[...] = x, y
        np.multiply(first, self.left, first)
        np.multiply(second, self.right, second)
        np.add(second, self.offset - low + 0.5, second)
        np.add(first, second, first)
        clip(first, 0.0, float(high - low), first)
        steps = out.view(np.uint8)
        steps[...] = first  # nothing is negative: conversion rounds down
        if low:
            np.add(steps, np.uint8(low % 256), steps)

    def proven(
        self, function: Pairs, x: np.dtype[Any], y: Array, dtype: np.dtype[Any], room: int
    ) -> Pairwise | None:
        """Itself, or what is near to it."""
        left = [replace(self, offset=self.offset + by) for by in TRIALS]
        numbers = every(x)
        most = max(1, min(ROWS, room // (WIDE * numbers.size)))
        first, second = np.empty((most, numbers.size), FLOAT), np.empty((most, 1), FLOAT)
        made = np.empty(first.shape, dtype)
        for top in range(0, len(y), most):
            rows = y[top : top + most, None]
            exact, count = function(numbers, rows), len(rows)
            for tried in left.copy():
                tried(numbers, rows, made[:count], first[:count], second[:count])
                if not np.array_equal(made[:count], exact):
                    left.remove(tried)
            if not left:
                return None
        return left[0]

    def note(self, tape: Tape, x: Array, y: Array, out: Array) -> None:
        left, right, target = flat(x, y, out)
        most = block_size(tape, out, 2)

        def run(first: Array, second: Array) -> None:
            for part in parts(target.shape, most):
                place = target[part]
                memory = (m[: place.size].reshape(place.shape) for m in (first, second))
                self(left[part], right[part], place, *memory)

        tape.work(run, ((most,), FLOAT), ((most,), FLOAT))


ROWS, WIDE = 8, 48
"""Of the table of all pairs, at a time; and bytes that an entry takes on the way."""


def flat(x: Array, y: Array, out: Array) -> tuple[Array, Array, Array]:
    """All in the shape of ``out``, or in a row if they are without gaps."""
    x, y = np.broadcast_to(x, out.shape), np.broadcast_to(y, out.shape)
    if x.flags.c_contiguous and y.flags.c_contiguous and out.flags.c_contiguous:
        return x.reshape(-1), y.reshape(-1), out.reshape(-1)
    return x, y, out


def block_size(tape: Tape, out: Array, arrays: int) -> int:
    """Elements of a block of results for which ``arrays`` of float64 are needed."""
    return min(out.size, BLOCK, max(FEWEST, tape.scratch // 2 // arrays // FLOAT.itemsize))
