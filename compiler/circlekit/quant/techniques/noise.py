# SPDX-License-Identifier: Apache-2.0
"""Measure the noise at the outputs of a quantized model, and tell whether another one has less."""

from __future__ import annotations

import numpy as np

from circlekit.ir.value import Array

Powers = tuple[float, float]
"""The power of a signal and that of its noise: sums of squares."""

Outcome = list[list[Powers]]
"""For each sample, the powers of signal and noise of each output."""

FLOOR = 1e-12
"""Noise below this part of the signal counts as none: it is that of float32."""

STANDARD_ERRORS = 1.5
"""A gain is believed if it is larger than this many standard errors."""


def powers(reference: Array, actual: Array) -> Powers:
    """Return the powers of ``reference`` and of the difference, both where ``reference`` is finite."""
    finite = np.isfinite(reference)
    signal = float(np.square(reference[finite], dtype=np.float64).sum())
    return signal, float(np.square(reference[finite].astype(np.float64) - actual[finite]).sum())


def decibels(runs: Outcome) -> float:
    """Return the mean over all outputs of 10 log10(signal / noise).

    ``runs``: for each run on a sample the powers of each output, which are summed over the runs.
    """
    ratios = []
    for output in zip(*runs, strict=True):
        signal, noise = (sum(numbers) for numbers in zip(*output, strict=True))
        ratio = np.log10(max(signal, 1e-30)) - np.log10(max(noise, 1e-50))
        ratios.append(float(np.clip(10 * ratio, -200, 200)))
    return float(np.mean(ratios)) if ratios else 0.0


def paired_gain(before: Outcome, after: Outcome, errors: float = STANDARD_ERRORS) -> float:
    """Return by how many dB ``after`` has less noise than ``before``, minus ``errors`` standard errors.

    ``before``, ``after``: of the same samples.  The amplitudes of the noise are summed over the samples: of
    powers, the largest few would decide.  The gain is the mean over the outputs.  Its standard error is that
    of the jackknife (Efron, "The Jackknife, the Bootstrap and Other Resampling Plans", 1982, chapter 3); a
    single sample has none.
    """
    amplitudes = np.stack([_amplitudes(before), _amplitudes(after)])
    count = amplitudes.shape[1]
    sums = amplitudes.sum(axis=1)
    if count < 2:
        return _gain(*sums)
    without = np.array([_gain(*(sums - amplitudes[:, sample])) for sample in range(count)])
    error = np.sqrt((count - 1) * np.square(without - without.mean()).mean())
    return float(_gain(*sums) - errors * error)


def _amplitudes(outcome: Outcome) -> Array:
    """Return the amplitude of the noise [samples, outputs]."""
    return np.array([[np.sqrt(noise + FLOOR * signal) for signal, noise in outputs] for outputs in outcome])


def _gain(before: Array, after: Array) -> float:
    """Return the mean ratio in dB of the amplitudes ``before`` and ``after``, for each output."""
    ratios = np.log10(np.maximum(before, 1e-25)) - np.log10(np.maximum(after, 1e-25))
    return 20 * float(ratios.mean()) if ratios.size else 0.0
