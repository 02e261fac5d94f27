# SPDX-License-Identifier: Apache-2.0
"""The weights of matrix products: floats as they are stored, or made of what is stored, a part at a time."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from circlekit.ir.tape import Need, Tape
from circlekit.ir.value import Array

OFTEN = 64
"""Weights that meet so many rows of data are widened in no time, beside their products."""


class Weights:
    """Weights [O, ..] as floats of ``dtype``, of which ``rows`` rows of data are multiplied with each.

    They are taken as they are where that can be, or kept where they meet few rows and the tape has room.
    Else ``step`` units at a time are put into memory, in each run: all at once if they take no more than half
    of ``limit`` bytes, or a quarter.  ``zeros``: what is subtracted, one number or one for each unit.
    """

    __slots__ = ("depth", "dtype", "matrix", "ready", "step", "stored", "units", "zeros")

    def __init__(
        self, tape: Tape, stored: Array, dtype: np.dtype[Any], zeros: Array | None, rows: int, limit: int
    ) -> None:
        self.stored, self.dtype = stored, dtype
        self.units, self.depth = stored.shape[0], prod(stored.shape[1:])
        self.zeros = None if zeros is None or not zeros.any() else zeros.astype(dtype)
        each = max(1, self.depth) * dtype.itemsize
        self.step = self.units
        self.matrix: Array | None = None
        if stored.dtype == dtype and self.zeros is None and stored.flags.c_contiguous:
            self.matrix = stored.reshape(self.units, self.depth)
        elif rows < OFTEN and tape.fixed(stored) and tape.keeps(self.units * each):
            kept = np.empty(stored.shape, dtype)
            self._put(0, kept)
            kept.flags.writeable = False
            self.matrix = kept.reshape(self.units, self.depth)
        elif self.units * each > limit // 2:
            self.step = min(self.units, max(1, limit // 4 // each))
        self.ready = self.matrix is not None

    @property
    def need(self) -> Need | None:
        """Memory that ``begin`` and ``product`` want."""
        return None if self.ready else ((self.step * self.depth,), self.dtype)

    @property
    def bytes(self) -> int:
        return 0 if self.ready else self.step * self.depth * self.dtype.itemsize

    def _put(self, first: int, place: Array) -> Array:
        """The weights from unit ``first`` on, as many as ``place`` [n, ..] has room for, as a matrix."""
        last = first + len(place)
        place[...] = self.stored[first:last]
        if self.zeros is not None:
            zeros = self.zeros if self.zeros.size == 1 else self.zeros[first:last]
            np.subtract(place, zeros.reshape(-1, *[1] * (place.ndim - 1)), place)
        return place.reshape(len(place), self.depth)

    def _part(self, first: int, memory: Array) -> Array:
        count = min(self.step, self.units - first)
        return self._put(first, memory[: count * self.depth].reshape(count, *self.stored.shape[1:]))

    def begin(self, memory: Array | None) -> None:
        """Before products with the same ``memory``."""
        if not self.ready:
            assert memory is not None
            self.matrix = self._part(0, memory) if self.step == self.units else None

    def whole(self) -> Array:
        """All weights [O,K]; only after ``begin``, and where ``step`` is all."""
        assert self.matrix is not None
        return self.matrix

    def product(self, rows: Array, out: Array, memory: Array | None) -> None:
        """Rows [R,K] times the transpose of the weights, into out [R,O], which has no gaps."""
        if self.matrix is not None:
            rows.dot(self.matrix.T, out)
            return
        assert memory is not None
        for first in range(0, self.units, self.step):
            part = self._part(first, memory)
            np.matmul(rows, part.T, out[:, first : first + self.step])


def bytes_of(needs: Sequence[Need | None]) -> int:
    return sum(prod(shape) * dtype.itemsize for shape, dtype in (n for n in needs if n is not None))
