# SPDX-License-Identifier: Apache-2.0
"""``Div.integer_fault`` says for which scales and integers LiteRT's quotients are wrong."""

from __future__ import annotations

import numpy as np
import pytest

from circlekit.ir.dtypes import DType, i8, i16, u8
from circlekit.ir.value import Array
from circlekit.ops.arithmetic.division import Div
from tests.ops.litert import kernel_results
from tests.ops.quantized import draw, generator, quantized


def ends(dtype: DType, zero: int) -> Array:
    """Return the integers of ``dtype`` nearest to ``zero`` and farthest from it, without ``zero`` itself."""
    low, high = dtype.limits
    numbers = {low, high, *range(max(low, zero - 2), min(high, zero + 2) + 1)} - {zero}
    return np.array(sorted(numbers)).astype(dtype.numpy)


@pytest.mark.parametrize("dtype", [i8, u8, i16])
@pytest.mark.parametrize("constants", [(), (0,), (1,), (0, 1)], ids=str)
@pytest.mark.parametrize("index", range(40))
def test_a_fault_is_told_where_quotients_are_wrong(
    dtype: DType, constants: tuple[int, ...], index: int
) -> None:
    """A quotient is wrong if it is more than one step from the real quotient.

    There must be a fault if and only if a quotient is wrong for some integers that the operands may have.
    """
    rng = generator(dtype.short, constants, index)
    low, high = dtype.limits
    zeros = [0, 0] if dtype is i16 else [int(z) for z in rng.integers(low, high + 1, 2)]
    if index < 4 and dtype is not i16:
        zeros = [(low, high)[index // 2], (low, high)[index % 2]]
    middle = 0 if dtype is i16 else (low + high + 1) // 2
    scale = float(np.exp2(rng.uniform(-dtype.bits - 2, 3)))
    arrays = [ends(dtype, zero) for zero in zeros]
    for side in constants:
        drawn = draw(rng, dtype, (5,))[2:]
        arrays[side] = np.where(drawn == zeros[side], arrays[side][0], drawn)
    x, y = arrays[0][:, None], arrays[1]
    values = [
        quantized(dtype, a.shape, s, zero, a if side in constants else None)
        for side, (a, s, zero) in enumerate(zip((x, y), (scale, 1.0), zeros, strict=True))
    ]
    result = quantized(dtype, (len(x), len(y)), 1.0, middle)
    op = Div(*values, results=[result])
    (got,) = kernel_results(op, [a for side, a in enumerate((x, y)) if side not in constants])
    real = np.rint(scale * (x.astype(int) - zeros[0]) / (y.astype(int) - zeros[1]))
    is_wrong = np.abs(got - np.clip(real + middle, low, high)).max() > 1
    assert (op.integer_fault() is not None) == is_wrong
    for value in values:  # constants are floats before they are quantized
        if value.data is not None:
            quantization = value.quantization
            assert quantization is not None
            steps = value.data.astype(np.float32) - np.float32(quantization.zero_point[0])
            value.data = steps * quantization.scale[0]
    assert (op.integer_fault() is not None) == is_wrong


@pytest.mark.parametrize("zero_point", [0, 1])
def test_a_dividend_one_below_its_zero_point_is_a_fault(zero_point: int) -> None:
    """For a dividend n < 0, LiteRT counts the bits of ~n.  For n = -1, ~n is 0, and the shift is undefined.

    uint8 has n = -1 for the zero point 1, and no n < 0 for the zero point 0.
    """
    values = [quantized(u8, (2, 1), 32.0, zero_point), quantized(u8, (2,), 1.0, 0)]
    op = Div(*values, results=[quantized(u8, (2, 2), 1.0, 128)])
    assert (op.integer_fault() is None) == (zero_point == 0)
    x, y = (ends(u8, zero) for zero in (zero_point, 0))
    (got,) = kernel_results(op, [x[:, None], y])
    real = np.rint(32 * (x[:, None].astype(int) - zero_point) / y)
    assert (np.abs(got - np.clip(real + 128, 0, 255)).max() > 1) == (zero_point == 1)


@pytest.mark.parametrize("absent", range(3))
def test_without_scales_there_is_no_fault(absent: int) -> None:
    values = [quantized(i8, (2,), scale, 0) for scale in (1e-6, 1.0, 1.0)]
    op = Div(*values[:2], results=[values[2]])
    assert op.integer_fault() is not None
    values[absent].quantization = None
    assert op.integer_fault() is None
