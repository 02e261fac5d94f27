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

STANDARD_ERRORS = 2
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


def paired_gain(before: Outcome, after: Outcome) -> float:
    """Return by how many dB ``after`` has less noise than ``before``, minus STANDARD_ERRORS of that number.

    ``before``, ``after``: for each of the same samples, the powers of each output.  The ratios of the noises
    are averaged over outputs and samples as logarithms, because a sum would be that of a few samples with
    much noise.  With a single sample there is no standard error.
    """
    ratios = []
    for pairs in zip(before, after, strict=True):
        noises = [
            [noise + FLOOR * signal + 1e-50 for signal, noise in pair] for pair in zip(*pairs, strict=True)
        ]
        ratios.append(np.mean([10 * np.log10(a / b) for a, b in noises]) if noises else 0.0)
    error = np.std(ratios, ddof=1) / np.sqrt(len(ratios)) if len(ratios) > 1 else 0.0
    return float(np.mean(ratios) - STANDARD_ERRORS * error)
