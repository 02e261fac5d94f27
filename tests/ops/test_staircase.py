# SPDX-License-Identifier: Apache-2.0
"""Sums rescaled in float32: where that is taken for proven, every single sum is tried."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from circlekit.ops.numerics.requantize import InDoubles
from circlekit.ops.numerics.staircase import landmarks, proven
from circlekit.ops.numerics.stores import Span

INT8 = np.dtype(np.int8)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(
    st.floats(2.0**-12, 0.9),
    st.integers(-128, 127),
    st.sampled_from([(-128, 127), (-128, 3), (0, 127)]),
    st.integers(100, 1 << 17),
)
def test_what_is_proven_holds_for_every_sum(by: float, zero: int, limits: tuple[int, int], most: int) -> None:
    exact = InDoubles(np.array(by), None, Span(zero, limits, float(most)))
    found = proven(exact, float(most), INT8)
    if found is None:
        return
    sums = np.arange(-most, most + 1)[None]
    wanted, made = np.empty(sums.shape, np.int8), np.empty(sums.shape, np.int8)
    exact(sums.astype(np.float64), wanted)
    found(sums.astype(np.float32), made)
    np.testing.assert_array_equal(made, wanted)


@pytest.mark.parametrize("by", [0.3, 0.02, 0.004, 0.0017])
@pytest.mark.parametrize("zero", [-128, 5])
def test_common_scales_have_a_proof(by: float, zero: int) -> None:
    assert proven(InDoubles(np.array(by), None, Span(zero, (-128, 127), 1e5)), 1e5, INT8) is not None


def test_what_has_no_proof() -> None:
    """Steps that are finer than float32, several scales, sums and results that are too wide."""
    exact = InDoubles(np.array(0.7 / 2**15), None, Span(-128, (-128, 127), 2.0**23))
    assert proven(exact, 2.0**23, INT8) is None
    assert proven(replace(exact, by=np.array([0.3, 0.2])), 1000.0, INT8) is None
    assert proven(replace(exact, by=np.array(0.3)), 2.0**24, INT8) is None
    assert proven(replace(exact, by=np.array(0.3)), 1000.0, np.dtype(np.int16)) is None


def test_landmarks_are_next_to_every_change() -> None:
    sums = landmarks(0.037, 11, (-128, 127), 5000)
    exact = InDoubles(np.array(0.037), None, Span(11, (-128, 127), 5000.0))
    every = np.arange(-5000, 5001)[None]
    results = np.empty(every.shape, np.int8)
    exact(every.astype(np.float64), results)
    changes = every[0, 1:][np.diff(results[0]) != 0]
    assert len(changes) == 255
    assert set(changes) | set(changes - 1) | {-5000, 5000} <= set(sums)
