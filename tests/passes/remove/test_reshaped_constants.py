# SPDX-License-Identifier: Apache-2.0
"""Constants of elementwise operators that are reshaped together with the data."""

from __future__ import annotations

import numpy as np
import pytest

from circlekit.ir.dtypes import f32
from circlekit.ir.value import Array, Quantization, Value
from circlekit.passes.remove import remove_reshape_around_elementwise as module


@pytest.mark.parametrize(
    ("array", "old", "new", "expected"),
    [
        (np.ones((2, 3)), (2, 3), (6,), np.ones(1)),
        (np.arange(3), (2, 3), (2, 3), np.arange(3)),
        (np.arange(3), (2, 3), (6,), np.array([0, 1, 2, 0, 1, 2])),
        (np.arange(3), (2, 3), (2, 1, 3), np.arange(3)),
        (np.array([[1], [2]]), (2, 3), (2, 3), np.array([[1], [2]])),
        (np.array([[1], [2]]), (2, 6), (2, 2, 3), np.array([[[1]], [[2]]])),
        (np.array([0.0, -0.0]), (2,), (2,), np.array([0.0, -0.0])),
        (np.array([np.nan, np.nan]), (2,), (2,), np.array([np.nan])),
        (np.arange(1), (1, 1), (1, 1, 1), np.arange(1)),
    ],
)
def test_the_replacement_is_the_smallest_constant(
    array: Array, old: tuple[int, ...], new: tuple[int, ...], expected: Array
) -> None:
    found = module._replacement(array, old, new)
    assert (found.shape, found.dtype) == (expected.shape, array.dtype)
    np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(np.signbit(found), np.signbit(expected))


def refusal(constant: Array, old: tuple[int | None, ...], new: tuple[int | None, ...]) -> str | None:
    value = Value.constant("k", constant.astype(np.float32))
    return module._unfit(value, Value("old", f32, old), Value("new", f32, new))


CANNOT = "%k: shape {} cannot be reshaped for {}"
UNKNOWN = "%k: is used with an unknown shape, or with more than {} elements"


@pytest.mark.parametrize(
    ("constant", "old", "new", "expected"),
    [
        (np.arange(3), (2, 3), (6,), CANNOT.format("[3]", "[6]")),
        (np.arange(3), (2, 3), (2, 1, 3), None),
        (np.arange(6), (6,), (2, 3), None),
        (np.ones(1), (None, 1), (None,), None),
        (np.ones(2), (None, 2), (2, 2), UNKNOWN),
        (np.ones(2), (2, 2), (None, 2), UNKNOWN),
        (np.ones(4), (2, 4), (8,), None),
        (np.ones(5), (2, 5), (10,), UNKNOWN),
        (np.arange(8), (8,), (2, 1, 2, 2), None),
        (np.arange(8), (8,), (2, 1, 2, 1, 2), CANNOT.format("[8]", "[2,1,2,1,2]")),
        (np.arange(8).reshape(2, 2, 1, 1, 2), (2, 2, 1, 1, 2), (2, 1, 2, 1, 2), None),
    ],
)
def test_constants_that_can_be_reshaped(
    constant: Array,
    old: tuple[int | None, ...],
    new: tuple[int | None, ...],
    expected: str | None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "MAX_RESHAPED_ELEMENTS", 8)
    assert refusal(constant, old, new) == (expected and expected.format(8))


def test_constants_per_channel_cannot_be_reshaped() -> None:
    grid = Quantization(np.array([1, 2], np.float32), np.zeros(2, np.int64), 0)
    value = Value.constant("k", np.arange(2, dtype=np.int8), grid)
    pair = (Value("old", f32, (2,)), Value("new", f32, (1, 2)))
    assert module._unfit(value, *pair) == "%k: is quantized along an axis"
    assert module._unfit(None, *pair) is None
    assert module._unfit(Value("x", f32, (2,)), *pair) is None


def test_limits() -> None:
    assert (module.MAX_BROADCAST_RANK, module.MAX_RESHAPED_ELEMENTS) == (4, 1048576)
