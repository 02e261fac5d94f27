# SPDX-License-Identifier: Apache-2.0
"""Operator versions of layers by the dtypes of data and weights, as TFLite's op_version.cc assigns them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from circlekit.ir.dtypes import DType, f32, i8, i16, i32, u8
from circlekit.ir.enums import WeightsFormat
from circlekit.ir.op import Op
from circlekit.ir.value import Quantization, Value
from circlekit.ops.convolution.conv import Conv2D, DepthwiseConv2D, TransposeConv
from circlekit.ops.matmul.dense import BatchMatMul, FullyConnected
from circlekit.ops.recurrent.lstm import Lstm, UnidirectionalSequenceLstm
from circlekit.ops.recurrent.rnn import Rnn
from circlekit.ops.recurrent.svdf import Svdf

INT4, INT2 = DType.INT4, DType.INT2

PAIRS = [(f32, f32), (u8, u8), (f32, i8), (i8, i8), (i8, INT4), (i16, i8), (i16, i16)]


def value(dtype: DType, *shape: int, scales: int = 0) -> Value:
    quantization = Quantization(np.ones(scales, np.float32), np.zeros(scales, np.int64)) if scales else None
    return Value("", dtype, shape, None, quantization)


def conv_2d(data: DType, weights: DType, groups: int = 1, scales: int = 0, **attributes: Any) -> Op:
    return Conv2D(
        value(data, 1, 3, 3, 2 * groups), value(weights, 4, 3, 3, 2, scales=scales), None, **attributes
    )


def depthwise(data: DType, weights: DType, scales: int = 0, **attributes: Any) -> Op:
    return DepthwiseConv2D(value(data, 1, 3, 3, 4), value(weights, 1, 3, 3, 4, scales=scales), **attributes)


def transposed(data: DType, weights: DType, **attributes: Any) -> Op:
    return TransposeConv(value(i32, 4), value(weights, 4, 3, 3, 2), value(data, 1, 3, 3, 2), **attributes)


def dense(data: DType, weights: DType, scales: int = 0, **attributes: Any) -> Op:
    return FullyConnected(value(data, 2, 6), value(weights, 4, 6, scales=scales), None, **attributes)


def matmul(data: DType, weights: DType, **attributes: Any) -> Op:
    return BatchMatMul(value(data, 2, 6), value(weights, 6, 4), **attributes)


def svdf(data: DType, weights: DType, **attributes: Any) -> Op:
    state = value(data, 2, 12)
    return Svdf(
        value(data, 2, 5), value(weights, 4, 5), value(weights, 4, 3), None, state, rank=1, **attributes
    )


@pytest.mark.parametrize(
    ("layer", "versions"),
    [
        (conv_2d, [1, 1, 2, 3, 7, 1, 4]),
        (depthwise, [1, 1, 4, 3, 7, 5, 5]),
        (transposed, [1, 1, 2, 2, 1, 2, 1]),
        (dense, [1, 1, 3, 4, 10, 1, 7]),
        (matmul, [1, 1, 1, 2, 2, 3, 3]),
        (svdf, [1, 1, 2, 3, 3, 1, 1]),
    ],
)
def test_versions_by_dtypes(layer: Callable[..., Op], versions: list[int]) -> None:
    assert [layer(*pair).required_version() for pair in PAIRS] == versions


@pytest.mark.parametrize(
    ("op", "version"),
    [
        (conv_2d(f32, f32, groups=2), 6),
        (conv_2d(f32, i8, scales=4), 5),
        (conv_2d(f32, f32, scales=4), 1),
        (conv_2d(i16, i8, quantized_bias_type=i32), 8),
        (conv_2d(i8, i8, quantized_bias_type=i32), 3),
        (depthwise(f32, i8, scales=4), 6),
        (depthwise(f32, f32, dilation_w=2), 2),
        (depthwise(f32, f32, dilation_h=2), 2),
        (depthwise(i8, i8, dilation_h=2), 3),
        (transposed(i16, i8, quantized_bias_type=i32), 5),
        (dense(f32, INT2), 14),
        (dense(i16, INT4), 13),
        (dense(f32, i8, scales=4), 12),
        (dense(f32, f32, scales=4), 1),
        (dense(i16, i8, quantized_bias_type=i32), 11),
        (dense(i8, i8, quantized_bias_type=i32), 4),
        (dense(f32, i8, asymmetric_quantize_inputs=True), 9),
        (dense(f32, f32, asymmetric_quantize_inputs=True), 1),
        (dense(f32, f32, keep_num_dims=True), 5),
        (dense(u8, u8, weights_format=WeightsFormat.SHUFFLED4x16INT8), 2),
        (matmul(f32, i8, asymmetric_quantize_inputs=True), 4),
        (matmul(i8, i8, asymmetric_quantize_inputs=True), 2),
        (svdf(f32, i8, asymmetric_quantize_inputs=True), 4),
        (svdf(i8, i8, asymmetric_quantize_inputs=True), 3),
    ],
    ids=lambda x: getattr(x, "code", None),
)
def test_versions_by_attributes(op: Op, version: int) -> None:
    assert op.required_version() == version


@pytest.mark.parametrize(
    ("kind", "index", "version"), [(Rnn, 1, 2), (UnidirectionalSequenceLstm, 2, 2), (Lstm, 2, 3)]
)
def test_one_operand_decides_whether_a_recurrent_layer_has_integer_weights(
    kind: type[Op], index: int, version: int
) -> None:
    for changed in range(1, len(kind.operands)):
        values = [value(f32, 2, 2) for _ in kind.operands]
        values[changed].dtype = i8
        op = kind(*values, results=[value(f32, 2, 2)])
        assert op.required_version() == (version if changed == index else 1), changed
