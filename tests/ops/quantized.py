# SPDX-License-Identifier: Apache-2.0
"""Quantized values for tests, and random integers, zero points and scales."""

from __future__ import annotations

import zlib

import numpy as np

from circlekit.ir.dtypes import DType
from circlekit.ir.value import Array, Quantization, Shape, Value
from circlekit.ops.quantized_values import dtype_limits

per_tensor = Quantization.per_tensor


def generator(*name: object) -> np.random.Generator:
    """A generator seeded by ``name``."""
    return np.random.default_rng(zlib.crc32(repr(name).encode()))


def quantized(dtype: DType, shape: Shape, scale: float, zero: int = 0, data: Array | None = None) -> Value:
    """A value quantized per tensor: an input, a result, or, with ``data``, a constant."""
    return Value("", dtype, shape, data, per_tensor(scale, zero))


def draw(rng: np.random.Generator, dtype: DType, shape: tuple[int, ...]) -> Array:
    """Integers over the whole range of ``dtype``; the first two are its smallest and its largest."""
    low, high = dtype_limits(dtype)
    array = rng.integers(low, high + 1, shape).astype(dtype.numpy)
    array.reshape(-1)[:2] = np.array([low, high])[: array.size]
    return array


def draw_zero(rng: np.random.Generator, dtype: DType) -> int:
    """A zero point: any for 8 bits, 0 for other dtypes."""
    limits = {DType.INT8: (-128, 128), DType.UINT8: (0, 256)}.get(dtype, (0, 1))
    return int(rng.integers(*limits))


def draw_scale(rng: np.random.Generator, low: float = 0.002, high: float = 3.0) -> float:
    """A scale, evenly spread in its logarithm."""
    return float(np.exp(rng.uniform(np.log(low), np.log(high))))
