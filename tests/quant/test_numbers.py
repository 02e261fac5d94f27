# SPDX-License-Identifier: Apache-2.0
"""The arithmetic of quantization against numpy: stored numbers, sums over scales, Hessians, statistics."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import ArrayLike

from circlekit.ir.dtypes import DType, f16, i8, i16, u8
from circlekit.ir.value import Array, Quantization
from circlekit.quant.apply import real_data, stored_data
from circlekit.quant.calibration.statistics import joined, observed
from circlekit.quant.one.formulas import with_integer_scale
from circlekit.quant.plan import TensorForm
from circlekit.quant.techniques.gptq import (
    best_scales,
    damped,
    factored,
    gptq,
    inverse_factor,
    refine,
    squared_errors,
)
from circlekit.quant.techniques.layer_rounding import per_scale

NUMBERS = np.random.default_rng(3).uniform(-1, 1, (3, 8)).astype(np.float32)

SCALES_OF_LAST_AXIS = tuple(2.0**-n for n in range(6, -2, -1))


@pytest.mark.parametrize(
    ("form", "steps"),
    [
        (TensorForm(i8, (1 / 64,), (3,)), np.full((3, 8), 1 / 64)),
        (TensorForm(u8, (1 / 64,), (128,)), np.full((3, 8), 1 / 64)),
        (TensorForm(i16, (2.0**-15,), (0,)), np.full((3, 8), 2.0**-15)),
        (TensorForm(i8, (1 / 64, 1 / 32, 1 / 16), (0, 1, 2)), [[2.0**-6] * 8, [2.0**-5] * 8, [2.0**-4] * 8]),
        (TensorForm(i8, SCALES_OF_LAST_AXIS, (0,) * 8, axis=1), [SCALES_OF_LAST_AXIS] * 3),
        (TensorForm(i8, (1 / 64, 1 / 32), (5, 6), axis=1), [(1 / 64, 1 / 32)] * 12),
        (TensorForm(DType.INT4, (1 / 4, 1 / 6) * 3, (), block=4), np.repeat([[1 / 4, 1 / 6]] * 3, 4, axis=1)),
    ],
    ids=["int8", "uint8", "int16", "channels", "last_axis", "two", "blocks"],
)  # fmt: skip
def test_stored_numbers_are_the_nearest_of_the_grid(form: TensorForm, steps: ArrayLike) -> None:
    widths = np.asarray(steps)
    numbers = NUMBERS.reshape(widths.shape)
    stored = stored_data(numbers, form)
    real = real_data(stored, form)
    assert real.dtype == np.float32
    assert (np.abs(real - numbers) <= 0.5001 * widths).all()
    np.testing.assert_allclose(real / widths, np.rint(real / widths), atol=1e-4)
    np.testing.assert_array_equal(stored_data(real, form), stored)


def test_float16_rounds_to_float16() -> None:
    stored = stored_data(np.array([1e6, 0.1], np.float32), TensorForm(f16))
    assert real_data(stored, TensorForm(f16)).tolist() == [np.inf, np.float16(0.1)]


@pytest.mark.parametrize("block", [0, 2, 8])
def test_sums_over_the_weights_that_share_a_scale(block: int) -> None:
    numbers = np.random.default_rng(1).normal(size=(2, 3, 8))
    size = block or 8
    found = per_scale(numbers, block)
    for index in np.ndindex(2, 3, 8):
        start = index[2] // size * size
        assert found[index] == pytest.approx(numbers[index[0], index[1], start : start + size].sum())


def test_a_factor_exists_for_every_hessian() -> None:
    """U^T U is the inverse of the damped Hessian.  A Hessian of rank 1 is damped even with damping 0."""
    rows = np.random.default_rng(2).normal(size=(2, 20, 5))
    hessian = rows.swapaxes(1, 2) @ rows
    factor = inverse_factor(hessian, 0.01)
    assert np.array_equal(factor, np.triu(factor))
    np.testing.assert_allclose(
        factor.swapaxes(1, 2) @ factor @ damped(hessian, 0.01),
        np.broadcast_to(np.eye(5), (2, 5, 5)),
        atol=1e-9,
    )
    singular = np.full((1, 3, 3), 1.0)
    factor = inverse_factor(singular, 0.0)
    assert np.isfinite(factor).all()
    back = np.linalg.inv(factor.swapaxes(1, 2) @ factor)
    np.testing.assert_allclose(back, singular, atol=1e-3)


def test_damping_is_a_part_of_the_mean_diagonal() -> None:
    hessian = np.stack([np.diag([1.0, 3.0]), np.zeros((2, 2))])
    added = damped(hessian, 0.5) - hessian
    np.testing.assert_allclose(added, np.stack([np.eye(2), np.zeros((2, 2))]), atol=1e-20)


def layers(depth: int = 5) -> tuple[Array, Array, Array, Array]:
    """Return integers [2,3,depth] that round weights, the weights, their Hessians, and one step for all."""
    random = np.random.default_rng(4)
    rows = random.normal(size=(2, 4 * depth, depth)) @ random.normal(size=(depth, depth))
    target, steps = random.normal(size=(2, 3, depth)), np.full((2, 3, depth), 0.4)
    return np.rint(target / steps), target, 1e-5 * rows.swapaxes(1, 2) @ rows, steps


def test_the_best_factor_of_the_scales_has_the_least_error() -> None:
    integers, target, hessian, steps = layers()
    integers[0, 0], target[0, 1] = 0, -integers[0, 1] * 0.4
    factors = best_scales(integers, target, hessian, steps)
    assert factors.shape == (2, 3)
    assert factors[0, :2].tolist() == [1, 1]  # all integers are 0; all weights have the opposite sign

    def errors(change: float) -> Array:
        return squared_errors(integers, target, hessian, steps * factors[..., None] * change)

    rest = np.ones((2, 3), bool)
    rest[0, :2] = False
    for change in (0.99, 1.01):
        assert (errors(1)[rest] < errors(change)[rest]).all()


@pytest.mark.parametrize("limits", [(-3, 3), (-100, 100)])
def test_refined_integers_cannot_be_bettered_one_by_one(limits: tuple[int, int]) -> None:
    first, target, hessian, steps = layers()
    refined = refine(np.clip(first, *limits), target, hessian, steps, limits, passes=50)
    least = squared_errors(refined, target, hessian, steps)
    for column in range(5):
        for change in (-1, 1):
            other = refined.copy()
            other[..., column] = np.clip(other[..., column] + change, *limits)
            assert (squared_errors(other, target, hessian, steps) >= least * (1 - 1e-9)).all()
    assert (np.abs(refined) <= limits[1]).all()
    once = refine(np.clip(first, *limits), target, hessian, steps, limits, passes=1)
    twice = refine(once, target, hessian, steps, limits, passes=1)
    np.testing.assert_array_equal(refine(np.clip(first, *limits), target, hessian, steps, limits), twice)


def test_columns_without_rows_are_not_refined() -> None:
    integers, target, hessian, steps = layers()
    hessian[:, 2] = hessian[:, :, 2] = 0
    refined = refine(integers + 1, target, hessian, steps, (-100, 100))
    np.testing.assert_array_equal(refined[..., 2], integers[..., 2] + 1)
    assert not np.array_equal(refined, integers + 1)


@pytest.mark.parametrize("columns", [1, 3, 5, 64])
def test_blocks_of_columns_do_not_change_the_result_of_gptq(
    columns: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, target, hessian, steps = layers(7)
    expected = gptq(target, factored(hessian), steps, (-7, 7))
    monkeypatch.setattr("circlekit.quant.techniques.gptq.BLOCK_COLUMNS", columns)
    np.testing.assert_array_equal(gptq(target, factored(hessian), steps, (-7, 7)), expected)


@pytest.mark.parametrize("axis", [None, 1])
@pytest.mark.parametrize("histogram", [False, True])
def test_joined_statistics_are_those_of_all_numbers(axis: int | None, histogram: bool) -> None:
    first, second = NUMBERS * 2, NUMBERS + 1
    assert joined(None, observed(first, axis)).count == first.size
    found = joined(observed(first, axis, histogram), observed(second, axis, histogram))
    whole = observed(np.concatenate([first, second]), axis, histogram)
    assert (found.low, found.high, found.count, found.ignored) == (whole.low, whole.high, 48, 0)
    mine, other = found.channels, whole.channels
    assert (mine is None) == (other is None) == (axis is None)
    if mine is not None and other is not None:
        np.testing.assert_array_equal(mine.minima, other.minima)
        np.testing.assert_allclose(mine.mean, other.mean)
    if histogram:
        assert found.histogram is not None
        assert whole.histogram is not None
        np.testing.assert_array_equal(found.histogram.counts, whole.histogram.counts)


def test_statistics_join_where_one_has_none() -> None:
    """An observation of no elements has no statistics of channels, and no histogram."""
    empty, some = observed(NUMBERS[:0], 1, True), observed(NUMBERS, 1, True)
    for found in (joined(empty, some), joined(some, empty)):
        assert (found.low, found.high, found.count) == (some.low, some.high, some.count)
        assert found.channels is some.channels
        assert found.histogram is some.histogram


def test_integer_scales_of_ones_quantizer_are_at_least_1() -> None:
    given = Quantization(np.array([0.2, 1.4, 2.5, 0.99], np.float32), np.zeros(4, np.int64), details={"a": 1})
    found = with_integer_scale(given)
    assert found.scale.tolist() == [1, 1, 3, 1]
    assert found.details == given.details
