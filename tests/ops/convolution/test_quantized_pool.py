# SPDX-License-Identifier: Apache-2.0
"""Pools of quantized data, bit for bit as LiteRT's reference kernels."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from circlekit.errors import UnsupportedError
from circlekit.ir.dtypes import DType, i8, i16, u8
from circlekit.ir.enums import Activation, Padding
from circlekit.ops.convolution.pool import AveragePool2D, L2Pool2D, MaxPool2D
from circlekit.ops.quantized_values import dtype_limits
from tests.ops.litert import check, kernel_results
from tests.ops.quantized import draw, draw_scale, draw_zero, generator, quantized

ACTS = [Activation.NONE, Activation.RELU, Activation.RELU6, Activation.RELU_N1_TO_1]


@pytest.mark.parametrize("kind", [AveragePool2D, MaxPool2D])
@pytest.mark.parametrize("dtype", [i8, u8, i16])
@pytest.mark.parametrize("index", range(12))
def test_pool(kind: type[AveragePool2D | MaxPool2D], dtype: DType, index: int) -> None:
    rng = generator(kind.code, dtype.short, index)
    shape = tuple(int(n) for n in rng.integers((1, 5, 5, 1), (3, 12, 12, 9)))
    names = ("filter_height", "filter_width", "stride_h", "stride_w")
    attributes: dict[str, Any] = {name: int(rng.integers(1, 5)) for name in names}
    attributes["padding"] = (Padding.SAME, Padding.VALID)[index % 2]
    scale, zero = draw_scale(rng), draw_zero(rng, dtype)
    data = quantized(dtype, shape, scale, zero)
    result = quantized(dtype, kind(data, **attributes).inferred()[0].shape or (), scale, zero)
    op = kind(data, act=ACTS[index // 2 % 4], results=[result], **attributes)
    check(op, draw(rng, dtype, shape))


@pytest.mark.parametrize("dtype", [i8, u8, i16])
@pytest.mark.parametrize("end", [0, -1])
def test_average_of_limits_and_of_halves(dtype: DType, end: int) -> None:
    """The upper windows have the means 3.5 and -3.5 (uint8: 3.5); the lower windows hold only a limit."""
    limits = dtype_limits(dtype)
    x = np.full((1, 4, 4, 1), limits[end], dtype.numpy)
    sign = -1 if limits[0] else 1
    x[:, :2] = np.array([[[3], [4], [3 * sign], [4 * sign]]], dtype.numpy)
    data, result = quantized(dtype, x.shape, 1.0), quantized(dtype, (1, 2, 2, 1), 1.0)
    op = AveragePool2D(
        data, filter_height=2, filter_width=2, stride_h=2, stride_w=2, padding=Padding.VALID, results=[result]
    )
    check(op, x)


def test_l2_pool_has_no_quantized_form() -> None:
    op = L2Pool2D(quantized(i8, (1, 2, 2, 1), 1.0), results=[quantized(i8, (1, 2, 2, 1), 1.0)])
    with pytest.raises(UnsupportedError, match="L2_POOL_2D on int8 has no kernel"):
        kernel_results(op, [np.zeros((1, 2, 2, 1), np.int8)])
