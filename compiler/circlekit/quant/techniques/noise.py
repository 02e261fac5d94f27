# SPDX-License-Identifier: Apache-2.0
"""Measure the noise at the outputs of a quantized model, and compare the noise of two models."""

from __future__ import annotations

import numpy as np

from circlekit.ir.value import Array

Powers = tuple[float, float]
"""(power of the signal, power of the noise), where a power is a sum of squares."""

Outcome = list[list[Powers]]
"""For each sample, the powers of signal and noise of each output."""

FLOOR = 1e-12
"""The fraction of the signal's power that ``paired_gain`` adds to the noise.

So rounding errors of float32 hardly count.
"""

STANDARD_ERRORS = 1.5
"""How many standard errors ``paired_gain`` subtracts from the gain, unless told otherwise."""


def aligned(reference: Array, actual: Array) -> tuple[Array, Array]:
    """Return both arrays; if their shapes differ, return two vectors of equal length instead.

    The shapes differ, for example, where a RANGE has a limit that is computed from quantized numbers.  Then
    no element of one array belongs to an element of the other, and all elements of both are noise.  So each
    vector has zeros at the places of the other array's elements.
    """
    if reference.shape == actual.shape:
        return reference, actual
    first, second = reference.reshape(-1), actual.reshape(-1)
    return (
        np.concatenate([first, np.zeros(second.size, first.dtype)]),
        np.concatenate([np.zeros(first.size, second.dtype), second]),
    )


def powers(reference: Array, actual: Array) -> Powers:
    """Return the powers of ``reference`` (the signal) and of ``actual - reference`` (the noise).

    ``aligned`` says what the noise is if the shapes differ.  Elements that are not finite in ``reference`` do
    not count.  A NaN in ``actual`` at another element makes the noise NaN.
    """
    reference, actual = aligned(reference, actual)
    finite = np.isfinite(reference)
    signal = float(np.square(reference[finite], dtype=np.float64).sum())
    return signal, float(np.square(reference[finite].astype(np.float64) - actual[finite]).sum())


def decibels(outcome: Outcome) -> float:
    """Return the signal-to-noise ratio in dB: the mean over all outputs of 10 log10(signal / noise).

    The powers of an output are first summed over the samples.  A ratio is limited to -200 to 200 dB; without
    outputs, the result is 0.  If the noise of an output is NaN, the result is NaN.
    """
    ratios = []
    for output in zip(*outcome, strict=True):
        signal, noise = (sum(numbers) for numbers in zip(*output, strict=True))
        ratio = np.log10(max(signal, 1e-30)) - np.log10(max(noise, 1e-50))
        ratios.append(float(np.clip(10 * ratio, -200, 200)))
    return float(np.mean(ratios)) if ratios else 0.0


def paired_gain(before: Outcome, after: Outcome, standard_errors: float = STANDARD_ERRORS) -> float:
    """Return by how many dB ``after`` has less noise than ``before``, minus a margin.

    ``before``, ``after``: outcomes on the same samples.  For each output, the amplitudes of the noise are
    summed over the samples.  (A few samples would dominate a sum of powers.)  The gain is the ratio of these
    sums in dB, averaged over the outputs.  The standard error is estimated by the jackknife
    (Efron, "The Jackknife, the Bootstrap and Other Resampling Plans", 1982, chapter 3); for a single sample,
    nothing is subtracted.
    ``standard_errors``: the margin as a number of standard errors.
    """
    amplitudes = np.stack([_amplitudes(before), _amplitudes(after)])
    count = amplitudes.shape[1]
    sums = amplitudes.sum(axis=1)
    if count < 2:
        return _gain(*sums)
    without = np.array([_gain(*(sums - amplitudes[:, sample])) for sample in range(count)])
    error = np.sqrt((count - 1) * np.square(without - without.mean()).mean())
    return float(_gain(*sums) - standard_errors * error)


def _amplitudes(outcome: Outcome) -> Array:
    """Return the amplitudes of the noise as an array [samples, outputs]."""
    return np.array([[np.sqrt(noise + FLOOR * signal) for signal, noise in outputs] for outputs in outcome])


def _gain(before: Array, after: Array) -> float:
    """Return the ratio ``before / after`` of amplitudes [outputs] in dB, averaged over the outputs."""
    ratios = np.log10(np.maximum(before, 1e-25)) - np.log10(np.maximum(after, 1e-25))
    return 20 * float(ratios.mean()) if ratios.size else 0.0
