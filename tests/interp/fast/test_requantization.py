# SPDX-License-Identifier: Apache-2.0
"""Output stages in float64 against the plain ones: next to steps, at the ends, and with large biases.

A step is a sum at which the integer result changes.
"""

from __future__ import annotations

import numpy as np
import pytest

from circlekit.interp.fast.requantization import EXACT_SUM, ChannelVector, FastOutputStage, repeats
from circlekit.ir.value import Array
from circlekit.ops.numerics.output_stage import Arithmetic, OutputStage
from tests.ops.quantized import generator

FIXED, WIDE = Arithmetic.FIXED_POINT, Arithmetic.WIDE_FIXED_POINT


def compare(stage: OutputStage, sums: Array, bound: float) -> FastOutputStage:
    """Return the fast stage; assert that it gives the results of ``stage`` for integer sums [R, C].

    ``bound``: the largest magnitude of a sum.  The fast stage gets the sums as floats that hold them exactly.
    """
    fast = FastOutputStage(stage, bound)
    got = np.empty(sums.shape, stage.dtype)
    fast.write(sums.astype(np.float32 if bound < 1 << 24 else np.float64), got)
    np.testing.assert_array_equal(got, stage(sums))
    return fast


def next_to_steps(stage: OutputStage, bound: int) -> Array:
    """Return sums [R, 1] next to the steps (all, or 600 of many), and the sums 0, +-1 and +-``bound``."""
    low, high = (limit - stage.zero_point for limit in stage.limits)
    count = min(high - low + 3, 600)  # the steps, and one beyond each end
    steps = np.linspace(low - 1, high + 1, count).round() - 0.5
    bias = 0 if stage.bias is None else int(stage.bias[0])
    around = (steps / float(stage.scale)).round()[:, None] - bias + np.arange(-3, 4)
    sums = np.concatenate([around.reshape(-1), np.array([0, 1, -1, bound, -bound])])
    return np.asarray(sums[np.abs(sums) <= bound][:, None], np.int64)


@pytest.mark.parametrize("index", range(150))
def test_next_to_steps(index: int) -> None:
    """Scales that are powers of two make many ties."""
    rng = generator("steps", index)
    dtype = np.dtype((np.int8, np.uint8, np.int16)[index % 3])
    least, greatest = np.iinfo(dtype).min, np.iinfo(dtype).max
    wide = dtype.itemsize == 2 and index % 2 == 0
    zero_point = 0 if wide else int(rng.choice([least, greatest, 0, int(rng.integers(least, greatest))]))
    limits = (least, greatest) if index % 5 else (max(least, zero_point), greatest)
    scale = 2.0 ** rng.uniform(-14, 1)
    scale = 2.0 ** np.round(np.log2(scale)) * (1.0, 1.5)[index % 2] if index % 4 else scale
    bound = int(2.0 ** rng.uniform(10, 34 if wide else 27))
    bias = np.array([int(rng.integers(-bound, bound))]) if index % 2 else None
    rounds_up = bool(rng.integers(2)) and not wide
    stage = OutputStage(bias, np.array(scale), zero_point, limits, dtype, WIDE if wide else FIXED, rounds_up)
    compare(stage, next_to_steps(stage, bound), float(bound))


def test_a_bias_that_float32_does_not_hold() -> None:
    """The sums are float32, with the bias they are float64."""
    stage = OutputStage(
        np.array([(1 << 28) + 4321]),
        np.array(2.0**-14),
        0,
        (-(1 << 15), (1 << 15) - 1),
        np.dtype(np.int16),
        WIDE,
    )
    assert compare(stage, np.arange(-(1 << 15), 1 << 15)[:, None], 2.0**15).is_exact


@pytest.mark.parametrize("columns", [1, 7, 24])
@pytest.mark.parametrize("channels", [1, 3, 40])
def test_each_channel_has_its_bias_scale_and_rounding(columns: int, channels: int) -> None:
    rng = generator("channels", columns, channels)
    rounds_up = rng.integers(2, size=channels).astype(bool)
    stage = OutputStage(
        rng.integers(-3000, 3000, channels),
        2.0 ** -rng.integers(5, 9, channels).astype(float),
        -7, (-128, 127), np.dtype(np.int8), FIXED, rounds_up,
    )  # fmt: skip
    sums = rng.integers(-20000, 20000, (6, columns, channels))
    fast = FastOutputStage(stage, 20000.0)
    assert fast.is_exact
    got = np.empty(sums.shape, np.int8)
    fast.write(sums.astype(np.float32), got)
    np.testing.assert_array_equal(got, stage(sums))


def test_where_float64_is_exact() -> None:
    def is_exact(scale: float, bound: float, arithmetic: Arithmetic = FIXED) -> bool:
        dtype = np.dtype(np.int16 if arithmetic is WIDE else np.int8)
        limits = (np.iinfo(dtype).min, np.iinfo(dtype).max)
        return FastOutputStage(
            OutputStage(None, np.array(scale), 0, limits, dtype, arithmetic), bound
        ).is_exact

    assert is_exact(2.0**-10, 2.0**30), "large sums are clipped"
    assert is_exact(2.0**-20, 2.0**20), "no sum is large"
    assert not is_exact(2.0**-20, 2.0**22), "large sums are not clipped"
    assert not is_exact(0.5, 2.0**31), "sums that int32 does not hold"
    assert not is_exact(2.0, 2.0**29 * 1.5), "sums that int32 does not hold after the shift"
    assert is_exact(2.0**-10, 2.0**35, WIDE)
    assert not is_exact(2.0**-10, 2.0**37, WIDE)
    assert not is_exact(2.0**-3, 2.0**35, WIDE), "products that int32 does not hold"
    assert not is_exact(0.5, 100.0, Arithmetic.DOUBLE)


@pytest.mark.parametrize("zero_point", [-128, -1, 0, 127])
def test_large_sums_are_clipped_if_they_lie_beyond_the_farther_limit(zero_point: int) -> None:
    # EXACT_SUM is the first large sum; its result, before the zero point is added, is ``result``
    farther = max(127 - zero_point, zero_point + 128)
    for result, is_exact in ((farther, False), (farther + 3, True)):
        stage = OutputStage(
            None, np.array(result / EXACT_SUM), zero_point, (-128, 127), np.dtype(np.int8), FIXED
        )
        assert FastOutputStage(stage, 4 * EXACT_SUM).is_exact is is_exact


def test_repeats() -> None:
    """A vector is repeated up to 2048 elements; the number of repeats divides the number of columns."""
    assert repeats(24, 2048) == 1
    assert repeats(24, 1024) == 2
    assert repeats(25, 1024) == 1, "no divisor"
    assert repeats(24, 1) == 24
    assert ChannelVector(np.array([1.0, 2.0])).of(3, 2).tolist() == [1.0, 2.0] * 3
    assert ChannelVector(np.array(5.0)).of(2, 2).tolist() == [5.0] * 4
