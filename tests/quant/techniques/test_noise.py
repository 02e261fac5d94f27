# SPDX-License-Identifier: Apache-2.0
"""Ratios of signal to noise, and whether a difference of two is more than chance."""

from __future__ import annotations

import numpy as np
import pytest

from circlekit.quant.techniques.noise import Outcome, decibels, paired_gain, powers


def outcome(noises: list[float], signal: float = 1.0) -> Outcome:
    """An outcome with one output and a sample for each of ``noises``."""
    return [[(signal, noise)] for noise in noises]


def test_decibels_sum_the_powers_of_all_samples() -> None:
    assert decibels(outcome([0.01, 0.03])) == pytest.approx(10 * np.log10(2 / 0.04))


def test_powers_leave_out_what_is_not_finite() -> None:
    assert powers(np.array([3, np.inf], np.float32), np.array([1, 5], np.float32)) == (9.0, 4.0)


def test_arrays_of_different_shapes_are_noise_as_a_whole() -> None:
    assert powers(np.array([3, 4], np.float32), np.array([3, 4, 12], np.float32)) == (25.0, 25.0 + 169.0)


def test_the_gain_is_less_by_one_and_a_half_standard_errors() -> None:
    """The amplitudes are 2 before, and 1 on average after: a gain of 20 log10 2 dB.

    The standard error of the mean, s, makes an error of 20 / ln 10 * s dB.
    """
    noises = np.linspace(0.9, 1.1, 400) ** 2
    error = np.sqrt(noises).std(ddof=1) / np.sqrt(400)
    expected = 20 * np.log10(2) - 1.5 * 20 / np.log(10) * error
    gain = paired_gain(outcome([4.0] * 400), outcome(noises.tolist()))
    assert gain == pytest.approx(expected, rel=1e-4)


def test_one_sample_with_much_noise_does_not_decide() -> None:
    before = outcome([*[1e-3] * 15, 10.0])
    after = outcome([*[2e-3] * 15, 1.0])
    assert decibels(after) > decibels(before) + 9
    assert paired_gain(before, after) < 0


def test_a_small_gain_on_every_sample_counts() -> None:
    noises = [10.0**-i for i in range(2, 10)]
    gain = paired_gain(outcome(noises), outcome([0.9 * n for n in noises]))
    assert gain == pytest.approx(-10 * np.log10(0.9), abs=1e-3)


def test_a_gain_of_the_noisy_half_of_the_samples_counts() -> None:
    """Outputs of a SOFTMAX are nearly exact on many samples, where the ratio of the noises is chance."""
    quiet = 10.0 ** np.random.default_rng(0).normal(-9, 1.5, (2, 12))
    before, after = outcome([*[1e-3] * 12, *quiet[0]]), outcome([*[1e-4] * 12, *quiet[1]])
    assert paired_gain(before, after) == pytest.approx(10, abs=0.2)


def test_noise_far_below_that_of_float32_counts_as_none() -> None:
    assert paired_gain(outcome([1e-20] * 4), outcome([1e-30] * 4)) == pytest.approx(0, abs=1e-6)


@pytest.mark.parametrize(
    ("outputs", "expected"),
    [
        ([[(100.0, 1.0)]], 20),
        ([[(100.0, 1.0), (1.0, 1.0)]], 10),  # the mean of two outputs
        ([[(60.0, 0.75)], [(40.0, 0.25)]], 20),  # powers of two samples are summed
        ([[(1.0, 0.0)]], 200),
        ([[(0.0, 1.0)]], -200),
        ([[(0.0, 0.0)]], 200),
        ([[]], 0),
    ],
)
def test_decibels_are_those_of_summed_powers(outputs: Outcome, expected: float) -> None:
    assert decibels(outputs) == pytest.approx(expected)


def test_the_gain_is_the_mean_over_the_outputs() -> None:
    before, after = [[(1.0, 1.0), (1.0, 1.0)]] * 4, [[(1.0, 0.01), (1.0, 1.0)]] * 4
    assert paired_gain(before, after) == pytest.approx(10)
    assert paired_gain(before[:1], after[:1]) == pytest.approx(10)
    assert paired_gain([[]], [[]]) == 0
