# SPDX-License-Identifier: Apache-2.0
"""Matrix products."""

from __future__ import annotations

from typing import Any

import numpy as np

from circlekit.errors import ShapeError, UnsupportedError
from circlekit.ir.dtypes import DType, bf16, f16, f32, f64, i8, i16, i32, i64, u8
from circlekit.ir.enums import Activation, WeightsFormat
from circlekit.ir.op import Op, attribute, operand, optional_operand
from circlekit.ir.value import Array, Shape, TensorType, Value, format_shape
from circlekit.ops.common import (
    Dim,
    broadcast_shapes,
    dims_differ,
    element_count,
    fused,
    is_hybrid,
    is_per_channel,
    need_bias,
    need_float,
    need_rank,
    need_same_float,
    product,
    version_by_dtype,
)

DATA = (f32, i8, u8, i16, f16, bf16, f64)
PACKED = (DType.INT4, DType.UINT4, DType.INT2, DType.MXFP4, DType.MXINT8)
GGML = (DType.GGML_Q4_0, DType.GGML_Q4_1, DType.GGML_Q8_0, DType.GGML_Q8_1)
BIAS = (f32, i32, i64, f16, bf16, f64)


class FullyConnected(Op, code="FULLY_CONNECTED"):
    """input times the transpose of weights [U,K], plus bias.

    The result is [size of input / K, U]; with ``keep_num_dims`` the last axis of input is K and becomes U.
    Source: TFLite fully_connected.
    """

    input = operand(*DATA)
    weights = operand(*DATA, *PACKED, *GGML)
    bias = optional_operand(*BIAS)

    act: Activation = attribute(Activation.NONE, "fused_activation_function")
    fuses_activation = True
    weights_format: WeightsFormat = attribute(WeightsFormat.DEFAULT)
    keep_num_dims: bool = attribute(False)
    asymmetric_quantize_inputs: bool = attribute(False, quantized_only=True)
    quantized_bias_type: DType = attribute(f32, quantized_only=True)
    quant_spec: Any = attribute(None)

    def infer(self) -> TensorType:
        units, depth = need_rank(self.weights, "weights", 2) or (None, None)
        need_same_float(self)
        need_bias(self.bias, units)
        return TensorType(self._result_dtype(), self._result_shape(self.input.shape, units, depth))

    def _result_dtype(self) -> DType:
        shuffled = self.weights_format is WeightsFormat.SHUFFLED4x16INT8
        return i16 if shuffled and self.input.dtype is u8 else self.input.dtype

    def _result_shape(self, shape: Shape | None, units: Dim, depth: Dim) -> Shape | None:
        if shape is None:
            return None if self.keep_num_dims else (None, units)
        if self.keep_num_dims:
            if not shape or dims_differ(shape[-1], depth):
                raise ShapeError(f"input has shape {format_shape(shape)}, its last dimension must be {depth}")
            return (*shape[:-1], units)
        size = product(shape)
        if not depth or size is None:
            return (product(shape[:-1]) if depth == 0 else None, units)
        if size % depth:
            raise ShapeError(f"input has {size} elements, no multiple of the {depth} columns of weights")
        return (size // depth, units)

    def kernel(self, input: Array, weights: Array, bias: Array | None = None) -> Array:
        need_float(self, input, weights, bias)
        if self.weights_format is not WeightsFormat.DEFAULT:
            raise UnsupportedError(f"{self.code} with {self.weights_format!r} weights has no kernel yet")
        shape = self._result_shape(input.shape, *weights.shape)
        out = np.matmul(input.reshape(-1, weights.shape[1]), weights.T)
        if bias is not None:
            out += bias.reshape(-1)
        return fused(out, self.act).reshape(shape)

    def macs(self) -> int:
        return element_count(self.output.shape) * element_count(self.weights.shape and self.weights.shape[1:])

    def required_version(self) -> int:
        data, weights = self.input.dtype, self.weights.dtype
        hybrid = is_hybrid(self.input, self.weights)
        rules = (
            (14, weights is DType.INT2),
            (13, (data, weights) == (i16, DType.INT4)),
            (12, hybrid and weights is i8 and is_per_channel(self.weights)),
            (11, (data, weights) == (i16, i8) and self.quantized_bias_type is not f32),
            (8, "sparsity" in self.weights.extra),
            (7, (data, weights) == (i16, i16)),
            (6, len(self.inputs) == 2),
            (5, self.keep_num_dims),
            (4, (data, weights) == (i8, i8)),
            (10, (data, weights) == (i8, DType.INT4)),
            (9, hybrid and weights is i8 and self.asymmetric_quantize_inputs),
            (3, hybrid and weights is i8),
            (2, self.weights_format is WeightsFormat.SHUFFLED4x16INT8),
        )
        return next((version for version, holds in rules if holds), 1)


class BatchMatMul(Op, code="BATCH_MATMUL"):
    """x times y over the last two axes, each transposed first by its ``adj``; the other axes broadcast.

    Source: TFLite batch_matmul.
    """

    x = operand(*DATA, i32)
    y = operand(*DATA, i32, DType.INT4, DType.MXFP4, DType.MXINT8)

    adj_x: bool = attribute(False)
    adj_y: bool = attribute(False)
    asymmetric_quantize_inputs: bool = attribute(False, quantized_only=True)

    def infer(self) -> TensorType:
        need_same_float(self)
        x, y = _matrices(self.x, "x", self.adj_x), _matrices(self.y, "y", self.adj_y)
        if x is None or y is None:
            return TensorType(self.x.dtype, None)
        if dims_differ(x[-1], y[-2]):
            raise ShapeError(f"x has {x[-1]} columns, y has {y[-2]} rows; they must be as many")
        batch = broadcast_shapes(x[:-2], y[:-2])
        assert batch is not None  # both ranks are known
        return TensorType(self.x.dtype, (*batch, x[-2], y[-1]))

    def kernel(self, x: Array, y: Array) -> Array:
        need_float(self, x, y)
        left = x.swapaxes(-1, -2) if self.adj_x else x
        right = y.swapaxes(-1, -2) if self.adj_y else y
        out: Array = np.matmul(left, right)
        return out

    def macs(self) -> int:
        x = _matrices(self.x, "x", self.adj_x)
        return element_count(self.output.shape) * element_count(x and x[-1:])

    def required_version(self) -> int:
        if is_hybrid(self.x, self.y) and self.asymmetric_quantize_inputs:
            return 4
        return version_by_dtype(self.x, {i16: 3, i8: 2})


def _matrices(value: Value, name: str, transposed: bool) -> Shape | None:
    """The shape of operand ``name``, its last two axes exchanged if ``transposed``."""
    shape = value.shape
    if shape is None:
        return None
    if len(shape) < 2:
        raise ShapeError(f"{name} has shape {format_shape(shape)}, a rank of at least 2 is wanted")
    return (*shape[:-2], shape[-1], shape[-2]) if transposed else shape
