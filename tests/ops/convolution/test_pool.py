# SPDX-License-Identifier: Apache-2.0
"""Pools against LiteRT's reference kernels."""

from __future__ import annotations

import numpy as np
import pytest

from circlekit.errors import ShapeError
from circlekit.ir.dtypes import f32, i8, i16
from circlekit.ir.enums import Activation, Padding
from circlekit.ir.value import Array, Value
from circlekit.ops.convolution.pool import AveragePool2D, L2Pool2D, MaxPool2D
from tests.ops.litert import check, var

POOLS = [AveragePool2D, MaxPool2D, L2Pool2D]
Pool = AveragePool2D | MaxPool2D | L2Pool2D
ACTS = [Activation.NONE, Activation.RELU, Activation.RELU6, Activation.RELU_N1_TO_1]


def normal(seed: int, *shape: int) -> Array:
    return (np.random.default_rng(seed).normal(size=shape) * 3).astype(np.float32)


@pytest.mark.parametrize("kind", POOLS)
@pytest.mark.parametrize("seed", range(16))
def test_pool(kind: type[Pool], seed: int) -> None:
    rng = np.random.default_rng(seed)
    taps, strides = rng.integers(1, 5, 2), rng.integers(1, 4, 2)
    x = normal(seed, 1 + seed % 3, *(int(n) for n in rng.integers(5, 12, 2)), 5)
    op = kind(
        var(x),
        padding=(Padding.SAME, Padding.VALID)[seed % 2],
        filter_height=int(taps[0]), filter_width=int(taps[1]),
        stride_h=int(strides[0]), stride_w=int(strides[1]), act=ACTS[seed % 4],
    )  # fmt: skip
    check(op, x)


@pytest.mark.parametrize("kind", POOLS)
def test_whole_image(kind: type[Pool]) -> None:
    x = normal(0, 2, 30, 20, 4)
    check(kind(var(x), padding=Padding.VALID, filter_height=30, filter_width=20), x)


@pytest.mark.parametrize("kind", POOLS)
@pytest.mark.parametrize("taps", [(8, 3), (4, 6)])
def test_one_row_or_column_of_windows(kind: type[Pool], taps: tuple[int, int]) -> None:
    x = normal(0, 1, 8, 6, 4)
    (height, width), padding = taps, Padding.VALID
    op = kind(
        var(x), padding=padding, filter_height=height, filter_width=width, stride_h=height, stride_w=width
    )
    check(op, x)


@pytest.mark.parametrize("kind", POOLS)
def test_window_larger_than_the_image(kind: type[Pool]) -> None:
    x = normal(0, 1, 2, 3, 4)
    check(kind(var(x), filter_height=7, filter_width=6), x)
    (empty,) = check(kind(var(x), padding=Padding.VALID, filter_height=7, filter_width=2), x)
    assert empty.shape == (1, 0, 2, 4)


def test_maximum_of_negative_numbers_ignores_the_padding() -> None:
    x = -np.abs(normal(0, 1, 3, 3, 2)) - 1
    check(MaxPool2D(var(x), filter_height=3, filter_width=3), x)


def test_refusals() -> None:
    x = Value("", f32, (1, 4, 4, 2))
    with pytest.raises(ShapeError, match="filter: expected at least 1x1, got 0x1"):
        AveragePool2D(x, filter_height=0)
    with pytest.raises(ShapeError, match=r"expected input of rank 4, got shape \[4,4\]"):
        L2Pool2D(Value("", f32, (4, 4)))


def test_versions() -> None:
    for kind in (AveragePool2D, MaxPool2D):
        assert [kind(Value("", t, (1, 4, 4, 2))).required_version() for t in (f32, i8, i16)] == [1, 2, 3]


def test_max_pool_ignores_nan() -> None:
    x = normal(0, 1, 4, 4, 2)
    x[0, 0, 0], x[0, 1, 1, 0], x[0, 2:, 2:] = np.nan, -np.inf, np.nan
    for act in ACTS:
        op = MaxPool2D(var(x), filter_height=2, filter_width=2, stride_h=2, stride_w=2, act=act)
        check(op, x)
