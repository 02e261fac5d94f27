# SPDX-License-Identifier: Apache-2.0
"""Compare arrays, and describe the element that differs most."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from circlekit.ir.value import Array, format_shape

TOLERANCE = {"float64": 1e-9, "float32": 1e-5, "float16": 1e-2}
"""The tolerated difference of float results, divided by the largest magnitude in the reference.

A rewrite may reorder sums, or move a factor from the data into the weights.  The error of a sum is then some
units in the last place of its largest term, even if the sum itself is small.  So the difference of an element
is not divided by the element.  Integers and bools must be equal.
"""


@dataclass(frozen=True)
class Difference:
    """The element that differs most between two arrays.

    ``index``: its position.  ``left``, ``right``: its values; ``left`` is the reference.  ``absolute``: the
    absolute difference.  ``relative``: ``absolute`` divided by the magnitude of ``left``; inf if only
    ``left`` is 0, or if ``absolute`` is inf.
    ``tolerance``: the largest absolute difference that counts as equal.
    """

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


@dataclass(frozen=True)
class Similarity:
    """How similar two arrays are as a whole.

    ``cosine``: the cosine of the angle between the arrays as vectors; None if the product of their lengths is
    0 or not finite.
    ``psnr``: the range of the reference (largest minus smallest element) divided by the root of the mean
    squared difference, in dB.  None: all elements of the reference are equal.  inf: this mean is 0.
    -inf: the range or a square is too large for float64.
    ``magnitude``: the largest absolute value of the reference.
    """

    cosine: float | None
    psnr: float | None
    magnitude: float


def similarity(left: Array, right: Array) -> Similarity | None:
    """Return how similar ``right`` is to the reference ``left``; elements that are not finite are left out.

    Return None if no element is left, if the shapes differ, or if the elements are not real numbers.
    """
    if left.shape != right.shape or left.dtype.kind not in "fiub" or right.dtype.kind not in "fiub":
        return None
    a, b = (array.astype(np.float64).reshape(-1) for array in (left, right))
    finite = np.isfinite(a) & np.isfinite(b)
    a, b = a[finite], b[finite]
    if a.size == 0:
        return None
    with np.errstate(over="ignore", invalid="ignore"):
        length = float(np.linalg.norm(a)) * float(np.linalg.norm(b))
        cosine = cosine_of(float(a @ b), length)
        psnr = decibels(float(np.ptp(a)), float(np.sqrt(np.mean((a - b) ** 2))), 20)
    return Similarity(cosine, psnr, float(np.abs(a).max()))


def cosine_of(product: float, length: float) -> float | None:
    """Return the cosine of the angle between two vectors; None if ``length`` is 0 or not finite.

    ``product``: the sum of the products of their elements.  ``length``: the product of their lengths.
    """
    return min(1.0, max(-1.0, product / length)) if 0 < length < math.inf else None


def decibels(signal: float, noise: float, factor: int = 10) -> float | None:
    """Return ``factor`` * log10(``signal`` / ``noise``).

    ``factor``: 10 if signal and noise are sums of squares, 20 if they are magnitudes.  Both are at least 0.
    Return None if ``signal`` is 0, and inf if only ``noise`` is 0.  Otherwise, return -inf if one of them is
    inf (too large for float64), or if the quotient is 0 in float64.
    """
    if not signal or not noise:
        return math.inf if signal else None
    ratio = 0.0 if math.isinf(signal) else signal / noise
    return factor * math.log10(ratio) if ratio else -math.inf


@dataclass
class Outcome:
    """The result of the comparison of two arrays with the same name.

    ``reason``: why they cannot be compared (one is missing, or dtypes or shapes differ), else "".
    ``worst``: the largest difference; None if the arrays are empty or cannot be compared.  ``inputs``: for an
    output of a model, the name of the set of inputs.  ``similarity``: how similar the arrays are; None if
    that was not measured.
    ``whole``: the largest difference in the whole array, if ``worst`` is the largest one in a single channel
    (``small_channels``); else None.
    """

    name: str
    worst: Difference | None = None
    reason: str = ""
    inputs: str = ""
    similarity: Similarity | None = None
    whole: Difference | None = None

    @property
    def equal(self) -> bool:
        return not self.reason and (self.worst is None or self.worst.equal)

    @property
    def excess(self) -> float:
        """The largest difference divided by its tolerance; 0 for empty arrays, inf if ``reason`` is given."""
        if self.reason:
            return math.inf
        if self.worst is None or self.worst.absolute == 0:
            return 0.0
        return self.worst.absolute / self.worst.tolerance if self.worst.tolerance else math.inf

    @property
    def relative_to_largest(self) -> float | None:
        """The largest difference divided by ``similarity.magnitude``; None if either is missing."""
        if self.worst is None or self.similarity is None:
            return None
        if self.worst.absolute == 0:
            return 0.0
        return self.worst.absolute / self.similarity.magnitude if self.similarity.magnitude else math.inf

    def __str__(self) -> str:
        place = f"output %{self.name} on {self.inputs} inputs" if self.inputs else self.name
        return f"{place}: {self.reason or self.worst or 'empty'}"


def compare_arrays(name: str, left: Array, right: Array, tolerance: float | None = None) -> Outcome:
    """Compare ``right`` with the reference ``left``.  ``tolerance``: see ``worst_difference``."""
    if left.shape != right.shape:
        return Outcome(
            name, reason=f"shapes {format_shape(left.shape)} and {format_shape(right.shape)} differ"
        )
    same_kind = left.dtype.kind == right.dtype.kind
    are_strings = same_kind and left.dtype.kind in "SU"  # the dtype has the length of the longest string
    if left.dtype != right.dtype and not are_strings:
        return Outcome(name, reason=f"dtypes {left.dtype} and {right.dtype} differ")
    return Outcome(name, worst_difference(left, right, tolerance))


def worst_difference(left: Array, right: Array, tolerance: float | None = None) -> Difference | None:
    """Return the element where ``right`` differs most from the reference ``left``; None for empty arrays.

    Shapes and dtypes must be equal.  ``tolerance``: the absolute difference up to which elements count as
    equal, by default ``allowed_difference(left)``.  NaN equals NaN; an infinity equals itself and the largest
    finite number of the same sign (``is_clamped``).  The difference of NaN or an infinity to any other number
    is inf.
    """
    if left.size == 0:
        return None
    errors = absolute_errors(left, right)
    index = tuple(int(i) for i in np.unravel_index(int(np.argmax(errors)), left.shape))
    absolute = float(errors[index])
    value = left[index]
    magnitude = 0.0 if left.dtype.kind in "OSU" else float(np.abs(np.asarray(value, _wide_dtype(left))))
    relative = absolute  # right for 0 and inf, whatever the reference element is
    if 0 < absolute < math.inf:
        relative = absolute / magnitude if magnitude else math.inf
    allowed = allowed_difference(left) if tolerance is None else tolerance
    return Difference(index, value, right[index], absolute, relative, allowed)


def absolute_errors(left: Array, right: Array) -> Array:
    """Return |left - right| as float64.

    It is 0 where both are NaN, and where both are infinite (``is_clamped``) and have the same sign.
    The elements of an array of strings (dtype object, S or U) differ by 0 or by inf.
    """
    if left.dtype.kind in "iu" and left.dtype.itemsize == 8:
        high, low = np.maximum(left, right), np.minimum(left, right)  # so that high - low is not negative
        return (high.astype(np.uint64) - low.astype(np.uint64)).astype(np.float64)
    if left.dtype.kind in "OSU":
        return np.where(left == right, 0.0, np.inf)
    a, b = left.astype(_wide_dtype(left)), right.astype(_wide_dtype(left))
    with np.errstate(invalid="ignore", over="ignore"):
        errors = np.abs(a - b)
    same = (a == b) | (np.isnan(a) & np.isnan(b))
    if left.dtype.kind == "f":
        same |= is_clamped(left) & is_clamped(right) & (np.signbit(left) == np.signbit(right))
    return np.where(same, 0.0, np.where(np.isnan(errors), np.inf, errors))


def _wide_dtype(array: Array) -> type[np.complex128 | np.float64]:
    """Return the dtype in which differences of elements of ``array`` are computed."""
    return np.complex128 if array.dtype.kind == "c" else np.float64


def allowed_difference(reference: Array, fraction: float | None = None) -> float:
    """Return the absolute difference from ``reference`` that rounding explains.

    It is ``fraction`` times the largest magnitude in ``reference``, but at least the smallest normal number.
    It is 0 if ``fraction`` is 0, and for elements that are neither float nor complex.
    ``fraction``: by default the TOLERANCE of the dtype.
    """
    if fraction is None:
        fraction = TOLERANCE.get(str(reference.real.dtype), 0.0)
    if not fraction or reference.dtype.kind not in "fc":
        return 0.0
    return max(fraction * largest_magnitude(reference), float(np.finfo(reference.dtype).tiny))


def largest_magnitude(array: Array) -> float:
    """Return the largest absolute value of the finite elements; 0 if there are none.

    The largest finite float counts as infinite (``is_clamped``).
    """
    finite = np.isfinite(array)
    if array.dtype.kind == "f":
        finite &= ~is_clamped(array)
    return float(np.abs(array[finite]).max(initial=0.0))


def is_clamped(array: Array) -> Array:
    """Return which floats are infinite, or the highest or lowest finite number of the dtype.

    Operators that can fuse an activation clamp infinite results to these numbers; others do not.  A correct
    rewrite, such as the removal of a factor of 1, may therefore exchange one for the other.
    """
    return np.asarray(np.abs(array) >= np.finfo(array.dtype).max)
