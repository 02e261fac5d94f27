# SPDX-License-Identifier: Apache-2.0
"""Differences of arrays: which element is worst, what is tolerated, what never is."""

from __future__ import annotations

import math

import numpy as np
import pytest

from circlekit.equivalence.array_comparison import (
    TOLERANCE,
    Difference,
    Outcome,
    Similarity,
    allowed_difference,
    compare_arrays,
    similarity,
    worst_difference,
)
from circlekit.ir.value import Array


def worst(left: Array, right: Array, tolerance: float | None = None) -> Difference:
    found = worst_difference(left, right, tolerance)
    assert found is not None
    return found


def test_the_worst_element_is_named() -> None:
    left = np.array([[1, 2], [3, 400]], np.float32)
    right = left + np.array([[0, 0.5], [-0.25, 0]], np.float32)
    found = worst(left, right)
    assert (found.index, found.left, found.right) == ((0, 1), 2.0, 2.5)
    assert (found.absolute, found.relative) == (0.5, 0.25)
    assert not found.equal
    assert str(found).startswith("[0,1]: 2.0 and 2.5 differ by 0.5 (0.25 of the value)")


@pytest.mark.parametrize("dtype", sorted(TOLERANCE))
def test_floats_may_differ_by_a_fraction_of_the_largest(dtype: str) -> None:
    left = np.array([1000, 0, 1], dtype)
    step = TOLERANCE[dtype] * 1000
    assert worst(left, (left + np.array([0, 0.9 * step, 0])).astype(dtype)).equal
    assert not worst(left, (left + np.array([0, 1.1 * step, 0])).astype(dtype)).equal


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "int32", "int64", "uint64", "bool"])
def test_integers_and_booleans_must_be_equal(dtype: str) -> None:
    left = np.array([0, 1, 1], dtype)
    assert worst(left, left.copy()).equal
    found = worst(left, np.array([0, 1, 0], dtype))
    assert (found.index, found.absolute, found.equal) == ((2,), 1.0, False)


@pytest.mark.parametrize("dtype", [np.int64, np.uint64])
def test_the_ends_of_64_bits_do_not_wrap(dtype: type[np.integer]) -> None:
    limits = np.iinfo(dtype)
    left, right = np.array([limits.min], dtype), np.array([limits.max], dtype)
    assert worst(left, right).absolute == pytest.approx(2.0**64)
    big = np.array([2**62], dtype)
    assert worst(big, big + dtype(1)).absolute == 1


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_an_infinity_equals_the_number_to_which_an_operator_clamps_it(dtype: type[np.floating]) -> None:
    largest = np.finfo(dtype).max
    infinite, clamped = np.array([np.inf, -np.inf, 1], dtype), np.array([largest, -largest, 1], dtype)
    assert worst(infinite, clamped).equal
    assert worst(clamped, infinite).equal
    for wrong in (
        clamped * np.array([-1, 1, 1], dtype),
        clamped / dtype(2),
        np.array([np.nan, -largest, 1], dtype),
    ):
        assert worst(infinite, wrong).absolute > 1


def test_a_clamped_infinity_does_not_raise_the_tolerance() -> None:
    reference = np.array([np.finfo(np.float32).max, 2.0], np.float32)
    assert allowed_difference(reference) == 2 * TOLERANCE["float32"]


def test_nan_and_infinities_equal_only_themselves() -> None:
    odd = np.array([np.nan, np.inf, -np.inf, 1], np.float32)
    assert worst(odd, odd.copy()).equal
    for index, other in ((0, 1.0), (1, -np.inf), (1, np.nan), (2, 3.0), (3, np.nan), (3, np.inf)):
        changed = odd.copy()
        changed[index] = other
        found = worst(odd, changed)
        assert (found.index, found.equal, found.relative) == ((index,), False, np.inf)


def test_an_absolute_tolerance_takes_the_place_of_the_relative() -> None:
    left = np.array([1.0], np.float32)
    assert worst(left, left + np.float32(0.25), 0.25).equal
    assert not worst(left, left + np.float32(0.25), 0.125).equal


def test_zero_equals_only_numbers_next_to_zero() -> None:
    zero = np.zeros(1, np.float32)
    assert worst(zero, np.full(1, 1e-40, np.float32)).equal
    assert not worst(zero, np.full(1, 1e-30, np.float32)).equal


def test_empty_and_scalar() -> None:
    assert worst_difference(np.zeros((0, 3)), np.zeros((0, 3))) is None
    assert worst(np.array(1.0), np.array(2.0)).index == ()


def test_complex_is_compared_by_magnitude() -> None:
    left = np.array([3 + 4j], np.complex64)
    assert worst(left, left + np.complex64(1e-6j)).equal
    assert worst(left, left + np.complex64(1j)).absolute == pytest.approx(1)


def test_the_relative_difference() -> None:
    assert worst(np.array([0.0]), np.array([1.0])).relative == np.inf
    assert worst(np.array([0.0]), np.array([0.0])).relative == 0.0
    assert worst(np.array([-4.0]), np.array([-5.0])).relative == 0.25
    assert worst(np.array([3 + 4j]), np.array([4 + 4j])).relative == 0.2
    assert worst(np.array([b"a"], object), np.array([b"b"], object)).relative == np.inf


def test_the_sentence() -> None:
    found = worst(np.array([[0.0, 8.0]]), np.array([[0.0, 6.0]]), 0.5)
    assert str(found) == "[0,1]: 8.0 and 6.0 differ by 2 (0.25 of the value), 0.5 is allowed"


@pytest.mark.parametrize(
    ("dtype", "fraction", "allowed"),
    [("float32", 0.5, 2.0), ("complex64", 0.5, 2.0), ("int32", 0.5, 0.0), ("float32", 0.0, 0.0),
     ("float64", None, 4e-9), ("int32", None, 0.0)],
)  # fmt: skip
def test_the_allowed_difference(dtype: str, fraction: float | None, allowed: float) -> None:
    assert allowed_difference(np.array([1, -4], dtype), fraction) == pytest.approx(allowed)


def test_similarity() -> None:
    """Cosine, PSNR and largest magnitude; the peak of the PSNR is the range of ``a``, 4 - 3 = 1."""
    a = np.array([3.0, 4.0], np.float32)
    assert similarity(a, a) == Similarity(1.0, math.inf, 4.0)
    assert similarity(a, np.array([4.0, -3.0], np.float32)) == Similarity(0.0, 20 * math.log10(0.2), 4.0)
    of_zeros = similarity(a, np.zeros(2, np.float32))
    assert of_zeros is not None
    assert of_zeros.cosine is None
    assert of_zeros.psnr == pytest.approx(-10 * math.log10(12.5))
    assert similarity(a, np.zeros(3, np.float32)) is None
    assert similarity(a, np.full(2, 1e200)) == Similarity(None, -math.inf, 4.0)
    widest = np.array([-1.7e308, 1.7e308])
    assert similarity(widest, -widest / 2) == Similarity(None, -math.inf, 1.7e308)
    with_nan = np.array([3.0, np.nan, 4.0])
    assert similarity(with_nan, with_nan + 0.5) == similarity(np.array([3.0, 4.0]), np.array([3.5, 4.5]))


def test_outcomes_of_arrays() -> None:
    one = np.ones(2, np.float32)
    assert str(compare_arrays("a", one, one)) == "a: all elements are equal"
    assert str(compare_arrays("a", one, np.ones(3, np.float32))) == "a: shapes [2] and [3] differ"
    short, long = np.array(["ab"]), np.array(["ab"], "U9")  # the dtype has the length of the longest string
    assert str(compare_arrays("a", short, long)) == "a: all elements are equal"
    assert str(compare_arrays("a", short, long.astype("S"))) == "a: dtypes <U2 and |S9 differ"
    assert str(Outcome("a")) == "a: empty"
    assert Outcome("a").equal
    assert not Outcome("a", reason="missing").equal


def test_only_real_arrays_of_one_shape_with_elements_have_a_similarity() -> None:
    real, complex_ = np.ones(2, np.float32), np.ones(2, np.complex64)
    assert similarity(real, real) is not None
    for left, right in ((real, complex_), (complex_, real), (real, real[:1]), (real[:0], real[:0])):
        assert similarity(left, right) is None


def test_similarity_leaves_out_elements_that_are_not_finite() -> None:
    exact = similarity(np.array([1.0, 3.0]), np.array([1.0, 2.0]))
    for bad in (np.nan, np.inf, -np.inf):
        holed = np.array([1.0, bad, 3.0]), np.array([1.0, 7.0, 2.0])
        assert similarity(*holed) == exact
        assert similarity(np.array([1.0, 7.0, 3.0]), np.array([1.0, bad, 2.0])) == exact


@pytest.mark.parametrize(
    ("left", "right", "cosine"), [(0.5, 0.25, 1), (0.5, -0.25, -1), (0.0, 1.0, None), (1e200, 1e200, None)]
)
def test_the_cosine_of_short_and_long_vectors(left: float, right: float, cosine: float | None) -> None:
    found = similarity(np.array([left]), np.array([right]))
    assert found is not None
    assert found.cosine == cosine
