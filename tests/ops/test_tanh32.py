# SPDX-License-Identifier: Apache-2.0
"""float32 tangents against numpy's of float64; their last bits are held against LiteRT by LSTMs of 8 bits."""

from __future__ import annotations

import numpy as np

from circlekit.ops.numerics.tanh_float32 import tanh_32


def test_is_within_three_units_in_the_last_place() -> None:
    rng = np.random.default_rng(1)
    for spread in (1e-3, 0.1, 1, 5, 30):
        x = rng.normal(0, spread, 20000).astype(np.float32)
        exact = np.tanh(x.astype(np.float64))
        error = np.abs(tanh_32(x) - exact) / np.spacing(np.abs(exact).astype(np.float32))
        assert error.max() <= 3


def test_ends() -> None:
    x = np.array([0.0, -0.0, 22, -22, 1e30, -np.inf, 1e-30], np.float32)
    wanted = np.array([0.0, -0.0, 1, -1, 1, -1, 1e-30], np.float32)
    got = tanh_32(x)
    assert np.array_equal(got, wanted)
    assert np.array_equal(np.signbit(got), np.signbit(wanted))
