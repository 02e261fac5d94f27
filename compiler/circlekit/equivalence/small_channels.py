# SPDX-License-Identifier: Apache-2.0
"""Compare each channel of an output in proportion to its own largest number.

One output may hold numbers of different size, such as coordinates and probabilities.  TOLERANCE is in
proportion to the largest number of the output, so it would hide errors in a channel (an index of the last
axis) whose numbers are smaller.  Here a channel may differ by TOLERANCE in proportion to its own largest
number, or by what rounding can change in it.  For a channel of zeros, only the tolerance of the whole output
counts.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from circlekit.equivalence.array_comparison import (
    TOLERANCE,
    Difference,
    Outcome,
    absolute_errors,
    is_clamped,
)
from circlekit.equivalence.reference_runs import Run
from circlekit.equivalence.rounding import (
    CANCELLATION_RUNS,
    with_moved_inputs,
    with_moved_results,
)
from circlekit.ir.graph import Model
from circlekit.ir.value import Array

CHANNEL_SAFETY_FACTOR = 10.0
"""The tolerated difference is this many times the measured one.

It is more than for whole outputs, because the error of a single channel is measured only a few times
(CANCELLATION_RUNS).
"""

POOL_EXPONENTS = 3
"""A pool is the channels whose magnitudes are in a range of this many powers of 2.

The magnitude of a channel is the largest absolute value of its elements.  NaN, infinities and clamped
results do not count (``_finite_magnitudes``).
"""


class ChannelComparison:
    """Compares the channels of the outputs of models with those of a reference.

    What rounding can change is measured when it is first needed: the reference runs with its inputs, float
    constants and float32 results moved by about one unit in the last place.  This is a moved run.
    """

    def __init__(self, reference: Model) -> None:
        self._reference = reference
        # the outputs of each moved run, by the label of the original run and the seed
        self._measured: dict[tuple[str, int], list[Array]] = {}

    def outcome(self, found: Outcome, run: Run, index: int, result: Array) -> Outcome:
        """Return ``found``; if channels differ too much, a copy whose ``worst`` is the difference of one.

        This channel differs most in proportion to what is allowed for it.  The copy has the former ``worst``
        as ``whole``.
        ``run``: a run of the reference.  ``index``: the index of an output.  ``result``: the array that
        another model computes for this output on the same inputs.  ``found``: the outcome of the comparison
        of the whole arrays.
        """
        left = run.outputs[index]
        if not found.equal or not found.excess or left.dtype != np.float32 or left.ndim == 0:
            # the arrays differ already, are equal or empty, or have no channels; or what rounding can change
            # is not known: it is measured for float32 only
            return found
        errors, magnitudes = _largest(absolute_errors(left, result)), _largest(_finite_magnitudes(left))
        allowed = np.maximum(TOLERANCE["float32"] * magnitudes, np.finfo(np.float32).tiny)
        # a channel of zeros is not doubtful: a RELU may have made them from small sums of large terms, whose
        # rounding errors are unknown
        doubtful = (errors > allowed) & (magnitudes > 0)
        for noise in self._noise(run, index) if doubtful.any() else ():
            allowed = np.maximum(allowed, CHANNEL_SAFETY_FACTOR * _pooled(noise, magnitudes))
            doubtful &= errors > allowed
            if not doubtful.any():
                break
        if not doubtful.any():
            return found
        channel = int(np.argmax(np.where(doubtful, errors / allowed, 0.0)))
        worst = _difference(left, result, channel, float(allowed[channel]))
        return replace(found, worst=worst, whole=found.worst)

    def _noise(self, run: Run, index: int) -> Iterator[Array]:
        """Yield the largest changes in the channels of the output ``index``, once for each moved run.

        Moved runs in which the output has another shape are left out.
        """
        left = run.outputs[index]
        for seed in range(CANCELLATION_RUNS):
            key = run.label, seed
            if key not in self._measured:
                moved = replace(run, inputs=with_moved_inputs(run.inputs, seed))
                self._measured[key] = moved.again(with_moved_results(self._reference, seed))
            result = self._measured[key][index]
            if result.shape == left.shape:
                with np.errstate(invalid="ignore"):  # inf - inf
                    change = left.astype(np.float64) - result
                yield _largest(_finite_magnitudes(change))


def _pooled(noise: Array, magnitudes: Array) -> Array:
    """Return for each channel the largest ``noise`` in its pool and in the two pools next to it.

    These pools have the channels of similar magnitude.  There are few moved runs, so the noise of one channel
    may be small by chance, but hardly that of all similar ones.  The noise of channels of zeros does not
    count: they are similar to no other channel.
    """
    exponents = np.frexp(magnitudes)[1] // POOL_EXPONENTS
    pools = exponents - exponents.min() + 1
    largest = np.zeros(int(pools.max()) + 2)
    np.maximum.at(largest, pools, np.where(magnitudes > 0, noise, 0.0))
    return np.asarray(np.maximum(np.maximum(largest[pools - 1], largest[pools]), largest[pools + 1]))


def _finite_magnitudes(array: Array) -> Array:
    """Return the absolute values of the elements; 0 for NaN, infinities and the largest finite number.

    Kernels clamp infinite results to the largest finite number of the dtype (``is_clamped``).
    """
    with np.errstate(invalid="ignore"):
        return np.where(np.isfinite(array) & ~is_clamped(array), np.abs(array), 0).astype(np.float64)


def _largest(array: Array) -> Array:
    """Return the largest element of each channel."""
    return np.asarray(array.reshape(-1, array.shape[-1]).max(axis=0))


def _difference(left: Array, right: Array, channel: int, tolerance: float) -> Difference:
    """Return the largest difference in ``channel``."""
    errors = absolute_errors(left, right)[..., channel]
    index = (*(int(i) for i in np.unravel_index(int(np.argmax(errors)), errors.shape)), channel)
    absolute, value = float(errors.max()), left[index]
    relative = absolute / abs(float(value)) if value else float("inf")
    return Difference(index, value, right[index], absolute, relative, tolerance)
