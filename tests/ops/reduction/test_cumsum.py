# SPDX-License-Identifier: Apache-2.0
"""Cumulative sums, against LiteRT."""

from __future__ import annotations

import numpy as np
import pytest

from circlekit.errors import ShapeError, UnsupportedError
from circlekit.ir.dtypes import f32, i8, i32
from circlekit.ir.value import Array, Value
from circlekit.ops.reduction.cumsum import Cumsum
from tests.ops.litert import check, ints, kernel_results, var
from tests.ops.quantized import quantized


def data(dtype: str, *shape: int) -> Array:
    rng = np.random.default_rng(11)
    return (rng.normal(0, 3, shape) if dtype == "f4" else rng.integers(-6, 7, shape)).astype(dtype)


@pytest.mark.parametrize("dtype", ["f4", "i4", "i8"])
@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("exclusive", [False, True])
@pytest.mark.parametrize("reverse", [False, True])
def test_cumsum(dtype: str, axis: int, exclusive: bool, reverse: bool) -> None:
    x = data(dtype, 3, 4, 5)
    check(Cumsum(var(x), ints(axis), exclusive=exclusive, reverse=reverse), x)


@pytest.mark.parametrize("axis", [-3, 2])
def test_a_wrong_axis_is_a_shape_error(axis: int) -> None:
    x = var(data("f4", 2, 3))
    with pytest.raises(ShapeError, match=f"axis {axis} is out of range for rank 2"):
        Cumsum(x, ints(axis))


def test_quantized_data_have_no_kernel() -> None:
    x = quantized(i8, (2, 3), 0.1, 3)
    with pytest.raises(UnsupportedError, match="CUMSUM on quantized i8"):
        kernel_results(Cumsum(x, ints(0)), [data("i1", 2, 3)])


def test_an_unknown_axis_keeps_the_shape() -> None:
    x, axis = Value("x", f32, (None, 3, 4)), Value("axis", i32, ())
    assert Cumsum(x, axis).output.shape == (None, 3, 4)
