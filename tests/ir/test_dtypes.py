# SPDX-License-Identifier: Apache-2.0
"""Element types: names, bits and numpy dtypes."""

from __future__ import annotations

import math

import numpy as np
import pytest

from circlekit.ir.dtypes import BY_SHORT, DType

BITS_WITHOUT_NUMPY = {"bf16": 16, "i4": 4, "u4": 4, "i2": 2, "f8e4m3fn": 8, "f8e5m2": 8}
"""Bits of types that numpy lacks; strings, resources and block formats have no fixed number: 0."""


def test_short_names_are_unique() -> None:
    assert [BY_SHORT[dtype.short] for dtype in DType] == [*DType]


@pytest.mark.parametrize("dtype", DType, ids=lambda d: d.short)
def test_bits_and_numpy_dtype(dtype: DType) -> None:
    if dtype.numpy is None:
        assert dtype.bits == BITS_WITHOUT_NUMPY.get(dtype.short, 0)
    else:
        assert dtype.bits == 8 * dtype.numpy.itemsize
        assert DType.of(dtype.numpy) is dtype
        assert dtype.is_integer is (dtype.numpy.kind in "iu")
        assert dtype.is_float is (dtype.numpy.kind == "f")


INTEGERS = [dtype for dtype in DType if dtype.is_integer]


@pytest.mark.parametrize("dtype", INTEGERS, ids=lambda d: d.short)
def test_limits_as_floats_are_the_nearest_inside_of_the_range(dtype: DType) -> None:
    lowest, highest = dtype.limits
    low, high = dtype.float_limits
    assert int(low) == lowest
    assert int(high) <= highest < math.nextafter(high, math.inf)


@pytest.mark.parametrize("dtype", [d for d in INTEGERS if d.numpy is not None], ids=lambda d: d.short)
def test_limits_are_those_of_numpy(dtype: DType) -> None:
    info = np.iinfo(str(dtype.numpy))
    assert dtype.limits == (info.min, info.max)


def test_limits_of_packed_integers() -> None:
    limits = [dtype.limits for dtype in (DType.INT4, DType.UINT4, DType.INT2)]
    assert limits == [(-8, 7), (0, 15), (-2, 1)]


def test_kinds_of_types_without_numpy_dtype() -> None:
    assert DType.INT4.is_integer
    assert DType.BFLOAT16.is_float
    assert not DType.BFLOAT16.is_integer
    assert not DType.FLOAT8_E4M3FN.is_float  # floats of 8 bits do not count
    assert not DType.STRING.is_float


def test_the_repr_is_the_short_name() -> None:
    assert repr(DType.INT8) == "i8"


def test_a_numpy_dtype_without_an_element_type_is_an_error() -> None:
    with pytest.raises(KeyError):
        DType.of(np.dtype(object))
