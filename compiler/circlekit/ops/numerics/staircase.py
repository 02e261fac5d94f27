# SPDX-License-Identifier: Apache-2.0
"""What becomes of the sums of a layer with one scale, in float32, proven to be what float64 makes of them.

As a function of its sum, a result of 8 bits is a staircase of at most 255 steps.  Multiplication by a
positive number, addition and rounding never turn an order around: what float32 makes of the sums is a
staircase too.  Two of them are one if they agree before and behind every step, and at both ends.  That is
tried once; after that no result needs a second look.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from circlekit.ir.tape import NOW, Tape
from circlekit.ir.value import Array
from circlekit.ops.common import clip
from circlekit.ops.numerics.requantize import InDoubles

UNITS = 1.5 * 2.0**23
"""A float32 of this size has its units in the last bits of its mantissa."""

TRIALS = (0, 1, -1, 2, -2, 3, -3, 4, -4, 5, -5, 6, -6, 7, -7, 8, -8)
"""How far to move the factor, in units of its last bit, until all steps are right."""

EXACT = 1 << 24
"""float32 has all whole numbers up to this."""


@dataclass(eq=False, repr=False)
class Staircase:
    """round(sums * factor) + zero point, limited; of float32 sums, which are overwritten."""

    factor: np.float32
    zero: int
    limits: tuple[int, int]

    def __call__(self, sums: Array, out: Array) -> None:
        self.note(NOW, sums, out)

    def note(self, tape: Tape, sums: Array, out: Array) -> None:
        """Note the calls, with sums in a row and numbers in arrays: numpy is quickest with such."""
        sums, out = sums.reshape(-1), out.reshape(-1)
        zero, low, high = (np.array(UNITS + n, np.float32) for n in (self.zero, *self.limits))
        tape.do(np.multiply, sums, np.asarray(self.factor), sums)
        tape.do(np.add, sums, zero, sums)
        tape.do(clip, sums, low, high, sums)
        tape.copy(sums.view(np.int32), out)  # of which the last bits are kept


def proven(exact: InDoubles, most: float, dtype: np.dtype[Any]) -> Staircase | None:
    """What is equal to ``exact`` for all whole sums, bias included, up to ``most``; None where none is found.

    ``dtype``: of the results.
    """
    scale = float(exact.by.reshape(-1)[0])
    if exact.by.size > 1 or dtype.itemsize > 1 or most >= EXACT or not 0 < scale < 1:
        return None
    sums = landmarks(scale, exact.span.zero, exact.span.limits, int(most))
    results = np.empty(sums.shape, dtype)
    InDoubles(exact.by, None, exact.span)(sums[None].astype(np.float64), results[None])
    if not np.all((results[1:] == results[:-1]) | (sums[1:] - sums[:-1] <= 1)):
        return None
    made = np.empty(sums.shape, dtype)
    for ulps in TRIALS:
        factor = np.float32(scale)
        tried = Staircase(factor + ulps * np.spacing(factor), exact.span.zero, exact.span.limits)
        tried(sums[None].astype(np.float32), made[None])
        if np.array_equal(made, results):
            return tried
    return None


def landmarks(scale: float, zero: int, limits: tuple[int, int], most: int) -> Array:
    """Sums before and behind every step, in rising order, from the least to the greatest."""
    steps = np.arange(limits[0] - zero, limits[1] - zero + 1) - 0.5
    behind = np.ceil(steps / scale).clip(-most, most).astype(np.int64)
    around = np.concatenate([behind - 2, behind - 1, behind, behind + 1, [-most, most]]).clip(-most, most)
    around.sort()  # np.unique brings in all of numpy.ma
    return np.asarray(around[np.append(True, around[1:] != around[:-1])])
