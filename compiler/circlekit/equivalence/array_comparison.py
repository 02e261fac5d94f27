# SPDX-License-Identifier: Apache-2.0
"""How far two arrays are apart, and how far they may be."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from circlekit.ir.value import Array, format_shape

TOLERANCE = {"float64": 1e-9, "float32": 1e-5, "float16": 1e-2}
"""Largest difference of equal float results, as a fraction of the largest magnitude in the reference.

A rewrite may change the order of sums and move a factor from the data into the weights: that costs some
units in the last place of the largest term, not of each element.  Integers and booleans are exact.
"""


@dataclass(frozen=True)
class Difference:
    """The worst element: where it is, its two values, how far they are apart, and how far they may be."""

    index: tuple[int, ...]
    left: Any
    right: Any
    absolute: float
    relative: float
    tolerance: float

    @property
    def equal(self) -> bool:
        return self.absolute <= self.tolerance

    def __str__(self) -> str:
        if self.absolute == 0:
            return "all elements are equal"
        place = "[" + ",".join(map(str, self.index)) + "]"
        return (
            f"{place}: {self.left} and {self.right} differ by {self.absolute:.3g} "
            f"({self.relative:.3g} of the value), {self.tolerance:.3g} is allowed"
        )


@dataclass
class Outcome:
    """How two arrays of one name compare.

    ``reason``: why they are not comparable at all (absent, dtype, shape); else ``worst`` tells, None where
    they are empty.
    """

    name: str
    worst: Difference | None = None
    reason: str = ""

    @property
    def equal(self) -> bool:
        return not self.reason and (self.worst is None or self.worst.equal)

    def __str__(self) -> str:
        return f"{self.name}: {self.reason or self.worst or 'empty'}"


def compare_arrays(name: str, left: Array, right: Array, tolerance: float | None = None) -> Outcome:
    """``right`` against ``left``, the reference; ``tolerance`` as in ``worst_difference``."""
    if left.shape != right.shape:
        shapes = f"{format_shape(left.shape)} and {format_shape(right.shape)}"
        return Outcome(name, reason=f"shapes {shapes} differ")
    if left.dtype != right.dtype:
        return Outcome(name, reason=f"dtypes {left.dtype} and {right.dtype} differ")
    return Outcome(name, worst_difference(left, right, tolerance))


def worst_difference(left: Array, right: Array, tolerance: float | None = None) -> Difference | None:
    """The element where ``right`` is farthest from ``left``, the reference; None for empty arrays.

    Shapes and dtypes are equal.  ``tolerance`` is absolute; without one it follows from dtype and
    magnitude.  NaN equals NaN, and an infinity equals itself; either differs from all else by inf.
    """
    if left.size == 0:
        return None
    errors = _errors(left, right)
    flat = int(np.argmax(errors))
    index = tuple(int(i) for i in np.unravel_index(flat, left.shape))
    absolute = float(errors[index])
    value = left[index]
    magnitude = _magnitude(value)
    relative = absolute / magnitude if magnitude else (0.0 if absolute == 0 else float("inf"))
    allowed = allowed_difference(left) if tolerance is None else tolerance
    return Difference(index, value, right[index], absolute, relative, allowed)


def _magnitude(value: Any) -> float:
    """Of one element; a text has none."""
    if isinstance(value, np.generic):
        return float(np.abs(value.astype(np.float64) if value.dtype.kind != "c" else value))
    return 0.0


def _errors(left: Array, right: Array) -> Array:
    """|left - right|, in float64 where that is exact; 0 where both are the same infinity or both NaN."""
    if left.dtype.kind in "iu" and left.dtype.itemsize == 8:
        return _integer_errors(left, right)
    if left.dtype.kind == "O":
        return np.where(left == right, 0.0, np.inf)
    wide = np.complex128 if left.dtype.kind == "c" else np.float64
    a, b = left.astype(wide), right.astype(wide)
    with np.errstate(invalid="ignore", over="ignore"):
        errors = np.abs(a - b)
    same = (a == b) | (np.isnan(a) & np.isnan(b))
    return np.where(same, 0.0, np.where(np.isnan(errors), np.inf, errors))


def _integer_errors(left: Array, right: Array) -> Array:
    """|left - right| of 64-bit integers: larger minus smaller cannot wrap as unsigned."""
    high, low = np.maximum(left, right), np.minimum(left, right)
    return (high.astype(np.uint64) - low.astype(np.uint64)).astype(np.float64)


def allowed_difference(reference: Array) -> float:
    """The absolute difference that rounding explains in a result whose elements are ``reference``."""
    part = TOLERANCE.get(_real_dtype(reference), 0.0)
    if not part:
        return 0.0
    magnitudes = np.abs(reference[np.isfinite(reference)])
    largest = float(magnitudes.max()) if magnitudes.size else 0.0
    return max(part * largest, float(np.finfo(reference.dtype).tiny))


def _real_dtype(array: Array) -> str:
    return str(array.real.dtype) if array.dtype.kind == "c" else str(array.dtype)


def is_telling(array: Array) -> bool:
    """Whether equality with this says something: not all NaN, infinite or zero."""
    finite = np.isfinite(array) if array.dtype.kind in "fc" else np.ones(array.shape, np.bool_)
    return bool(np.any(finite & (array != 0)))
