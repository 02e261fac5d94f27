# SPDX-License-Identifier: Apache-2.0
"""Fast FULLY_CONNECTED against the plain kernel, bit for bit, and against exact sums of integers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from circlekit.interp.fast import fully_connected, prepare
from circlekit.interp.fast.fully_connected import FastFullyConnected
from circlekit.ir.dtypes import DType, f32, i8, i16, i32, i64, u8
from circlekit.ir.enums import Activation, WeightsFormat
from circlekit.ir.value import Array, Quantization, Value
from circlekit.ops.constant_operands import constant_elements
from circlekit.ops.matmul.dense import FullyConnected
from circlekit.ops.numerics.output_stage import Kernels, following
from tests.ops.litert import const, var
from tests.ops.matmul.test_quantized_dense import FORMS, bias_of, result_of, weights
from tests.ops.quantized import draw, draw_zero, generator, per_tensor, quantized


def check_fast(op: FullyConnected, x: Array) -> None:
    """Assert twice that the prepared kernel gives the result of the plain kernel for the data ``x``."""
    kernel = prepare(op)
    assert isinstance(kernel, FastFullyConnected)
    stored, bias = constant_elements(op.weights), None if op.bias is None else constant_elements(op.bias)
    wanted = op.kernel(x, stored, bias)
    for _ in range(2):
        got = kernel(x, stored, bias)
        assert got.dtype == wanted.dtype
        np.testing.assert_array_equal(got, wanted)


@pytest.mark.parametrize("kept_bytes", [0, 1 << 20])
@pytest.mark.parametrize("kernels", Kernels)
@pytest.mark.parametrize(("data", "weight"), FORMS)
@pytest.mark.parametrize("per_channel", [False, True])
def test_integers(
    data: DType, weight: DType, per_channel: bool, kernels: Kernels, kept_bytes: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setattr(fully_connected, "KEPT_WEIGHT_BYTES", kept_bytes)
    rng = generator("fast", data.short, weight.short, per_channel)
    x = quantized(data, (2, 3, 40), 0.02, draw_zero(rng, data))
    zero = draw_zero(rng, weight) if weight is u8 or (weight is i8 and data is i8) else 0
    w = weights(rng, weight, 7, 40, 7 if per_channel else 1, zero)
    bias = bias_of(rng, x, w, i64 if data is i16 else i32) if per_channel else None
    with following(kernels):
        for keep in (False, True):
            shape = (2, 3, 7) if keep else (6, 7)
            result = result_of(rng, x, w, shape)
            op = FullyConnected(x, w, bias, results=[result], act=Activation.RELU, keep_num_dims=keep)
            check_fast(op, draw(rng, data, (2, 3, 40)))


@pytest.mark.parametrize("kept_bytes", [0, 1 << 20])
@pytest.mark.parametrize("asymmetric", [False, True])
@pytest.mark.parametrize("dtype", [np.int8, np.uint8])
def test_floats_by_integer_weights(
    dtype: Any, asymmetric: bool, kept_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fully_connected, "KEPT_WEIGHT_BYTES", kept_bytes)
    rng = generator("hybrid", asymmetric)
    w = const(rng.integers(-127, 128, (7, 40)).astype(dtype), dtype)
    w.quantization = per_tensor(0.01)
    x, bias = rng.normal(0, 1, (3, 40)).astype(np.float32), const(rng.normal(0, 1, 7), np.float32)
    check_fast(FullyConnected(var(x), w, bias, asymmetric_quantize_inputs=asymmetric), x)


@pytest.mark.parametrize("depth", [1000, 40000])
def test_long_sums_are_exact(depth: int) -> None:
    """40000 products of 255 and 127 add up to more than 2^24: float32 is not exact, float64 is."""
    rng = generator("long", depth)
    numbers = rng.integers(-127, 128, (3, depth)).astype(np.int8)
    numbers[0] = 127
    w = Value("", i8, (3, depth), numbers, per_tensor(1.0))
    x, bias = quantized(i8, (1, depth), 1.0, -128), const([1, 2, 3], np.int32)
    bias.quantization = per_tensor(1.0)
    data = np.full((1, depth), 127, np.int8)
    data[0, ::3] = 126
    sums = (data.astype(np.int64) + 128) @ numbers.T.astype(np.int64) + [1, 2, 3]
    # a result at a scale of 2^-15 shows the last bits of a sum: only sums within 2^15 of it are not clipped
    for unit, total in enumerate(sums[0]):
        bias.data = np.array([1, 2, 3], np.int32) - np.int32(total - 77)
        op = FullyConnected(x, w, bias, results=[quantized(i8, (1, 3), 1.0)])
        kernel = prepare(op)
        assert kernel is not None
        assert kernel(data, numbers, bias.data)[0, unit] == 77


def test_other_forms_have_no_fast_path() -> None:
    x, data = Value("x", f32, (4, 32)), quantized(u8, (4, 32), 0.1)
    w = Value("", i8, (16, 32), np.ones((16, 32), np.int8), per_tensor(0.1))
    assert prepare(FullyConnected(x, w, None)) is not None
    shuffled = Value("", u8, (16, 32), np.ones((16, 32), np.uint8), per_tensor(0.1, 128))
    results = [quantized(i16, (4, 16), 0.1), quantized(u8, (4, 32), 0.1)]
    others = [
        FullyConnected(x, Value("w", i8, (16, 32), None, per_tensor(0.1)), None),  # weights that are computed
        FullyConnected(x, w, Value("b", f32, (16,))),  # a bias that is computed
        FullyConnected(x, const(np.ones((16, 32)), np.float32), None),
        FullyConnected(data, shuffled, None, results=results, weights_format=WeightsFormat.SHUFFLED4x16INT8),
    ]
    scales = const(np.ones((16, 1)), np.float16)
    details = {"": "BlockwiseQuantization", "scales": scales, "block_size": 32}
    blocks = Quantization(np.zeros(0, np.float32), np.zeros(0, np.int64), 0, details=details)
    others.append(FullyConnected(x, Value("", i8, (16, 32), np.ones((16, 32), np.int8), blocks), None))
    assert [prepare(op) for op in others] == [None] * len(others)
