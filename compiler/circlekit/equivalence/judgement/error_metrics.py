# SPDX-License-Identifier: Apache-2.0
"""Metrics of the error of arrays against reference arrays, accumulated over any number of records."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from circlekit.equivalence.array_comparison import cosine_of, decibels
from circlekit.errors import ShapeError
from circlekit.ir.value import Array, format_shape

TOP = (1, 5)
"""The numbers k for which the k largest elements of reference and result are compared."""

MIN_CLASSES = 10
"""The k largest elements are compared only along a last axis of at least this size, such as a class axis."""


@dataclass
class ErrorMetrics:
    """Sums over the elements of all pairs of arrays that were added, and the metrics that follow from them.

    The error is the result minus the reference.  A complex number counts as two elements.
    ``skipped``: the number of elements that are left out because the reference or the result is a string, or
    is not finite.  ``lost``: how many of them are finite in the reference, but not in the result.
    ``count``: the number of all other elements; if it is 0, ``mse``, ``mae``, ``mean_error`` and
    ``deviation`` are NaN.
    ``signal``, ``power``, ``noise``: the sums of squares of the reference, of the result and of the error.
    ``product``: the sum of reference times result.
    ``total``, ``absolute``: the sums of the errors and of their magnitudes.  ``worst``: the largest
    magnitude of an error.
    ``intervals``: for each pair of arrays, the largest magnitude of an error divided by the range of the
    reference (largest minus smallest element); 1 if that range is 0.
    ``overlaps``: for each k of TOP, one number for each vector along the last axis: which share of the k
    largest elements of the reference is also among the k largest elements of the result.  Elements that are
    not finite are compared, too.  Vectors of fewer than MIN_CLASSES elements and complex arrays are left out.
    """

    count: int = 0
    skipped: int = 0
    lost: int = 0
    signal: float = 0.0
    noise: float = 0.0
    product: float = 0.0
    power: float = 0.0
    total: float = 0.0
    absolute: float = 0.0
    worst: float = 0.0
    intervals: list[float] = field(default_factory=list)
    overlaps: dict[int, list[float]] = field(default_factory=dict)

    def add(self, reference: Array, result: Array) -> None:
        """Add a pair of arrays; raise ShapeError if their shapes differ."""
        if reference.shape != result.shape:
            shapes = f"{format_shape(reference.shape)}, got {format_shape(result.shape)}"
            raise ShapeError(f"expected a result of shape {shapes}")
        kinds = {x.dtype.kind for x in (reference, result)}
        if not kinds.issubset("fiubc"):  # strings
            self.skipped += reference.size
            return
        dtype = np.complex128 if "c" in kinds else np.float64
        first, second = (np.ascontiguousarray(x, dtype) for x in (reference, result))
        if reference.ndim and dtype is np.float64:
            self._add_overlaps(first, second)
        a, b = (x.reshape(-1).view(np.float64) for x in (first, second))
        finite = np.isfinite(a) & np.isfinite(b)
        if not finite.all():
            self.skipped += int(a.size - np.count_nonzero(finite))
            self.lost += int(np.count_nonzero(np.isfinite(a) & ~finite))
            a, b = a[finite], b[finite]
        if a.size:
            with np.errstate(over="ignore", invalid="ignore"):
                self._add_sums(a, b)

    def _add_sums(self, a: NDArray[np.float64], b: NDArray[np.float64]) -> None:
        """Add the elements ``a`` of the reference and ``b`` of the result, all finite, to the sums."""
        error = b - a
        self.count += a.size
        self.signal += float(a @ a)
        self.power += float(b @ b)
        self.product += float(a @ b)
        self.noise += float(error @ error)
        self.total += float(error.sum())
        magnitudes = np.abs(error)
        self.absolute += float(magnitudes.sum())
        largest = float(magnitudes.max())
        self.worst = max(self.worst, largest)
        extent = float(np.ptp(a))
        self.intervals.append(largest / extent if extent else 1.0)

    def _add_overlaps(self, reference: Array, result: Array) -> None:
        """Add a pair of arrays to ``overlaps``, if the last axis has at least MIN_CLASSES elements."""
        if reference.shape[-1] < MIN_CLASSES:
            return
        rows = [x.reshape(-1, x.shape[-1]) for x in (reference, result)]
        first, second = (np.argsort(-x, axis=1, kind="stable")[:, : max(TOP)] for x in rows)
        for k in TOP:
            shared = (first[:, :k, None] == second[:, None, :k]).any(axis=2)
            self.overlaps.setdefault(k, []).extend(shared.mean(axis=1).tolist())

    @property
    def sqnr(self) -> float | None:
        """Signal to quantization noise ratio in dB: 10 log10(``signal`` / ``noise``).

        None: ``signal`` is 0, also if all elements are skipped.  inf: there is no error.  -inf: a sum of
        squares is too large for float64.
        """
        return decibels(self.signal, self.noise)

    @property
    def cosine(self) -> float | None:
        """The cosine of the angle between reference and result.

        It is None if ``signal`` or ``power`` is 0, or if a sum of squares is too large for float64.
        """
        return cosine_of(self.product, math.sqrt(self.signal) * math.sqrt(self.power))

    @property
    def mse(self) -> float:
        """The mean squared error."""
        return self._mean(self.noise)

    @property
    def mae(self) -> float:
        """The mean absolute error."""
        return self._mean(self.absolute)

    @property
    def mean_error(self) -> float:
        """The mean of the errors, which keep their signs."""
        return self._mean(self.total)

    def _mean(self, total: float) -> float:
        """Return ``total`` divided by ``count``; NaN if this is 0."""
        return total / self.count if self.count else math.nan

    @property
    def deviation(self) -> float:
        """The standard deviation of the error; inf if a square is too large for float64."""
        if math.isinf(self.mse):
            return math.inf
        return math.sqrt(max(self.mse - self.mean_error**2, 0.0))

    @property
    def mpeir(self) -> float | None:
        """The mean peak error to interval ratio of ONE's circle-eval-diff: the mean of ``intervals``.

        It is None if no pair has an element that is finite in both arrays.
        """
        return sum(self.intervals) / len(self.intervals) if self.intervals else None

    def top(self, k: int) -> float | None:
        """Return the mean of ``overlaps[k]``; None if no vector was compared."""
        shares = self.overlaps.get(k)
        return sum(shares) / len(shares) if shares else None
