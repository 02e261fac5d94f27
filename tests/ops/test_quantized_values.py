# SPDX-License-Identifier: Apache-2.0
"""Quantization parameters as kernels read them."""

from __future__ import annotations

import numpy as np
import pytest

from circlekit.errors import ModelError
from circlekit.ir.dtypes import DType, f32, i8, i16, i32, u8
from circlekit.ir.value import Quantization, Value
from circlekit.ops.arithmetic.activation import Tanh
from circlekit.ops.arithmetic.unary import Exp, Neg
from circlekit.ops.movement.shape import Reshape
from circlekit.ops.quantized_values import (
    dtype_limits,
    followed_operand,
    have_same_quantization,
    is_hybrid,
    is_per_channel,
    is_quantized,
    is_quantized_8_or_16_bits,
    per_tensor_quantization,
    quantization_of,
    scale_of,
    zero_point_of,
)


def value(dtype: DType, scales: list[float] | None, zeros: list[int] | None = None) -> Value:
    quantization = None
    if scales is not None:
        quantization = Quantization(np.array(scales, np.float32), np.array(zeros or [], np.int64))
    return Value("x", dtype, (2,), None, quantization)


PLAIN, PER_TENSOR, PER_CHANNEL = value(i8, None), value(i8, [0.5], [3]), value(i8, [0.5, 0.25], [3, 4])


def test_kinds() -> None:
    assert [is_quantized(v) for v in (PLAIN, PER_TENSOR, value(i8, []), value(f32, [0.5]))] == [
        False, True, False, False,
    ]  # fmt: skip
    narrow = [is_quantized_8_or_16_bits(value(t, [0.5])) for t in (i8, u8, i16, i32)]
    assert narrow == [True, True, True, False]
    assert [is_per_channel(v) for v in (PLAIN, PER_TENSOR, PER_CHANNEL)] == [False, False, True]
    floats = value(f32, None)
    assert [is_hybrid(a, b) for a, b in ((floats, PLAIN), (PLAIN, PLAIN), (floats, floats))] == [
        True, False, False,
    ]  # fmt: skip


def test_parameters() -> None:
    assert float(scale_of(PER_TENSOR)) == 0.5
    assert quantization_of(PER_CHANNEL) is PER_CHANNEL.quantization
    with pytest.raises(ModelError, match=r"%x: expected one scale for the whole tensor, got 2"):
        scale_of(PER_CHANNEL)
    assert [zero_point_of(v) for v in (PER_TENSOR, PER_CHANNEL, value(i8, [0.5]), PLAIN)] == [3, 3, 0, 0]
    assert zero_point_of(value(f32, [0.5], [3])) == 0
    with pytest.raises(ModelError, match="%x: expected a scale, got i8 without scales"):
        quantization_of(PLAIN)
    assert per_tensor_quantization(PER_TENSOR) is PER_TENSOR.quantization
    assert per_tensor_quantization(PER_CHANNEL) is per_tensor_quantization(PLAIN) is None


def test_same_quantization() -> None:
    assert have_same_quantization(PER_TENSOR, value(i8, [0.5], [3]))
    assert have_same_quantization(value(i32, [0.5]), value(i32, [0.25]))  # kernels ignore scales of int32
    assert have_same_quantization(value(i8, [0.5, 0.25], [3]), value(i8, [0.5, 0.25], [3, 3]))
    assert not have_same_quantization(PER_CHANNEL, value(i8, [0.5, 0.25], [3, 5]))
    for other in (value(i8, [0.5], [4]), value(i8, [0.25], [3]), PLAIN):
        assert not have_same_quantization(PER_TENSOR, other)
        assert not have_same_quantization(other, PER_TENSOR)


def test_dtype_limits() -> None:
    types = (i8, u8, i16, DType.INT4, DType.INT2, DType.UINT4)
    assert [dtype_limits(t) for t in types] == [
        (-128, 127), (0, 255), (-32768, 32767), (-8, 7), (-2, 1), (0, 15),
    ]  # fmt: skip
    for dtype in (f32, DType.STRING):
        with pytest.raises(ModelError, match=f"quantized data, got {dtype.short}"):
            dtype_limits(dtype)


def test_operands_that_results_follow() -> None:
    x, size = value(i8, [0.5]), Value.constant("", np.array([2], np.int32))
    assert followed_operand(Reshape(x, size)) is x
    assert followed_operand(Tanh(x)) is None  # its results have a fixed scale
    assert followed_operand(Exp(x)) is None
    without_rule = Neg(value(f32, None))
    assert without_rule.quantization_rule is None
    assert followed_operand(without_rule) is None
