# SPDX-License-Identifier: Apache-2.0
"""FULLY_CONNECTED and BATCH_MATMUL.  Source: TFLite fully_connected, batch_matmul.

In a QuantizationRule, ``weights`` is {operand that holds weights: axis of its output channels}.  With an
axis, each channel may have a scale; with None, the weights have one scale.  ``data``: the operand that the
weights multiply.  ``attributes``: {attribute: the value that it has in a quantized operator}.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from circlekit.errors import ShapeError, UnsupportedError, counted
from circlekit.ir.declaration import kept_rank
from circlekit.ir.dtypes import DType, f32, i8, i16, i32, u8
from circlekit.ir.enums import Activation, WeightsFormat
from circlekit.ir.op import Inferred, Op, attribute, operand, optional_operand
from circlekit.ir.quantization_rule import QuantizationRule
from circlekit.ir.value import Array, Shape, TensorType, Value, format_shape
from circlekit.ops.checks import require_bias, require_float, require_rank, require_same_float
from circlekit.ops.dimensions import Dim, broadcast_shapes, dims_differ, element_count, known_dims, product
from circlekit.ops.fused_activation import apply_fused_activation
from circlekit.ops.matmul.dense_quantized import (
    dynamically_quantized_matmul,
    quantized_dense,
    quantized_matmul,
    shuffled_dense,
)
from circlekit.ops.operand_dtypes import BIAS, REAL
from circlekit.ops.quantized_values import is_hybrid, is_per_channel

LOW_BIT_WEIGHTS = (DType.INT4, DType.UINT4, DType.INT2, DType.MXFP4, DType.MXINT8)
GGML_WEIGHTS = (DType.GGML_Q4_0, DType.GGML_Q4_1, DType.GGML_Q8_0, DType.GGML_Q8_1)
DATA_4_BIT = (DType.INT4, DType.UINT4)
"""The dtypes of 4 bits that inputs and biases of some circle models have; no kernel takes them."""


class FullyConnected(
    Op, code="FULLY_CONNECTED", variadic_results=True, fuses_activation=True, layout_operands=("input",)
):
    """``input`` times the transpose of ``weights`` [U,K] (units, depth), plus ``bias`` [U].

    The result has the shape [elements of input / K, U].  With ``keep_num_dims`` it has the shape of the
    input, with the last dimension K replaced by U.  For K = 0, all elements of the result are 0, without
    bias, activation and zero point, as in LiteRT.  With shuffled int8 weights there is a second result, the
    shuffled input.
    In most cases, LiteRT's reference kernel rescales integer sums in float64, and its optimized kernel in
    fixed point.  This kernel follows the reference kernel unless the optimized ones are chosen
    (``output_stage.following``).
    """

    quantization_rule = QuantizationRule(
        weights={"weights": 0},
        bias="bias",
        attributes={"asymmetric_quantize_inputs": True, "quantized_bias_type": f32},
    )

    input = operand(*REAL, *DATA_4_BIT)
    weights = operand(*REAL, *LOW_BIT_WEIGHTS, *GGML_WEIGHTS)
    bias = optional_operand(*BIAS, *DATA_4_BIT)

    act: Activation = attribute(Activation.NONE, "fused_activation_function")
    weights_format: WeightsFormat = attribute(WeightsFormat.DEFAULT)
    keep_num_dims: bool = attribute(False)
    asymmetric_quantize_inputs: bool = attribute(False, quantized_only=True)
    quantized_bias_type: DType = attribute(f32, quantized_only=True)
    quant_spec: Any = attribute(None)  # bytes in .tflite files, which no kernel reads

    def infer(self) -> Inferred:
        units, depth = require_rank(self.weights, "weights", 2) or (None, None)
        require_same_float(self)
        require_bias(self.bias, units)
        shape = self._result_shape(self.input.shape, units, depth)
        if self.weights_format is WeightsFormat.SHUFFLED4x16INT8 and self.input.dtype is u8:
            return TensorType(i16, shape), TensorType(u8, self.input.shape)
        # LiteRT has a kernel from uint8 to int16, so the declared dtype of the result decides
        is_wide = self.input.dtype is u8 and bool(self.results) and self.results[0].dtype is i16
        return TensorType(i16 if is_wide else self.input.dtype, shape)

    def permuted(self, perm: tuple[int, ...]) -> dict[str, Any] | None:
        """Return {} if ``keep_num_dims`` is true, the last axis stays and there is one result; else None.

        {} means that no attribute and no constant has to change.
        """
        stays = perm[-1] == kept_rank(perm) - 1
        return {} if self.keep_num_dims and stays and len(self.results) == 1 else None

    def _result_shape(self, shape: Shape | None, units: Dim, depth: Dim) -> Shape | None:
        """Return the shape of the result for an input of ``shape`` and weights [units, depth]."""
        if shape is None:
            return None if self.keep_num_dims else (None, units)
        if self.keep_num_dims:
            if not shape or dims_differ(shape[-1], depth):
                expected = "rank 1 or more" if depth is None else counted(depth, "column")
                raise ShapeError(f"input: expected {expected}, got shape {format_shape(shape)}")
            return (*shape[:-1], units)
        size = product(shape)
        if not depth or size is None:  # for depth 0, the leading dimensions give the rows
            return (product(shape[:-1]) if depth == 0 else None, units)
        if size % depth:
            raise ShapeError(f"input: expected a multiple of {depth} elements, got {size}")
        return (size // depth, units)

    def result_shape(self, shape: tuple[int, ...], units: int, depth: int) -> tuple[int, ...]:
        """Return the shape of the result for an input of ``shape`` and weights [units, depth].

        All dimensions are known.  Raise ShapeError if the input does not fit the weights.
        """
        return known_dims(self._result_shape(shape, units, depth) or ())

    def kernel(self, input: Array, weights: Array, bias: Array | None = None) -> Any:
        if weights.ndim != 2:
            raise ShapeError(f"expected weights of rank 2, got {weights.ndim}")
        shape = self.result_shape(input.shape, *weights.shape)
        if weights.shape[1] == 0:
            return np.zeros(shape, input.dtype)
        rows = input.reshape(-1, weights.shape[1])
        if self.weights_format is WeightsFormat.SHUFFLED4x16INT8:
            out, workspace = shuffled_dense(self, rows, weights, bias)
            return out.reshape(shape), workspace.reshape(input.shape)
        if self.weights_format is WeightsFormat.SHUFFLED16x1FLOAT32:
            units, depth = weights.shape
            if weights.dtype != np.float32 or units % BLOCK_ROWS:
                form = f"SHUFFLED16x1FLOAT32 weights of {weights.dtype}[{units},{depth}]"
                raise UnsupportedError(f"{self.code} with {form} has no kernel")
            # the inverse of ``shuffled_16x1``
            weights = weights.reshape(-1, depth, BLOCK_ROWS).swapaxes(1, 2).reshape(units, depth)
        if weights.dtype.kind != "f":
            return quantized_dense(self, rows, weights, bias).reshape(shape)
        require_float(self, input, weights, bias)
        out = rows @ weights.T
        if bias is not None:
            out += bias.reshape(-1)
        return apply_fused_activation(out, self.act).reshape(shape)

    def macs(self) -> int:
        return element_count(self.output.shape) * element_count(self.weights.shape and self.weights.shape[1:])

    def has_reference_kernel(self) -> bool:
        """Return False for weights in blocks: LiteRT's reference kernel reads all their scales as 0."""
        quantization = self.weights.quantization
        return (quantization is None or not quantization.is_blockwise) and super().has_reference_kernel()

    def required_version(self) -> int:
        data, weights = self.input.dtype, self.weights.dtype
        hybrid = is_hybrid(self.input, self.weights)
        rules = (  # the first rule that is true decides, as in TFLite
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


BLOCK_ROWS = 16
"""The number of weight rows in a block of SHUFFLED16x1FLOAT32, a format of ONE's runtime."""


def shuffled_16x1(weights: Array) -> Array:
    """Return weights [rows, columns] as SHUFFLED16x1FLOAT32: blocks of 16 rows, column by column.

    The number of rows must be a multiple of 16.
    """
    blocks = weights.reshape(len(weights) // BLOCK_ROWS, BLOCK_ROWS, weights.shape[1])
    return np.ascontiguousarray(blocks.swapaxes(1, 2)).reshape(weights.shape)


class BatchMatMul(Op, code="BATCH_MATMUL", versions={i16: 3, i8: 2}, layout_operands=("x", "y")):
    """Products of the matrices in the last two axes of x and y; the other axes, the batch, broadcast.

    ``adj_x`` and ``adj_y`` transpose the matrices first.  For float x and int8 y, the kernel quantizes the
    rows of x.  There it reproduces two faults of LiteRT:

    - If several batch dimensions of x exceed 1, it may apply the scales of wrong rows.
    - If several batch dimensions of y exceed 1, it may use the column sums of wrong matrices (only with
      ``asymmetric_quantize_inputs``).
    """

    quantization_rule = QuantizationRule(
        weights={"y": None}, data="x", attributes={"asymmetric_quantize_inputs": True}
    )

    x = operand(*REAL, i32, *DATA_4_BIT, DType.MXFP4, DType.MXINT8)
    y = operand(*REAL, i32, DType.INT4, DType.MXFP4, DType.MXINT8)

    adj_x: bool = attribute(False)
    adj_y: bool = attribute(False)
    asymmetric_quantize_inputs: bool = attribute(False, quantized_only=True)

    def infer(self) -> TensorType:
        require_same_float(self)
        x, y = _matrix_shape(self.x, "x", self.adj_x), _matrix_shape(self.y, "y", self.adj_y)
        if x is None or y is None:
            return TensorType(self._result_dtype(), None)
        if dims_differ(x[-1], y[-2]):
            raise _different_depths(x, y)
        batch = broadcast_shapes(x[:-2], y[:-2])
        assert batch is not None  # both ranks are known
        return TensorType(self._result_dtype(), (*batch, x[-2], y[-1]))

    def _result_dtype(self) -> DType:
        """Return the dtype of x, or int32 if x is int8 and the result is declared as int32."""
        has_int32_result = self.x.dtype is i8 and bool(self.results) and self.results[0].dtype is i32
        return i32 if has_int32_result else self.x.dtype

    def kernel(self, x: Array, y: Array) -> Array:
        left = x.swapaxes(-1, -2) if self.adj_x else x
        right = y.swapaxes(-1, -2) if self.adj_y else y
        if x.dtype.kind == "i":
            return quantized_matmul(self, left, right)
        if x.dtype == np.float32 and y.dtype == np.int8:
            return dynamically_quantized_matmul(self, left, right)
        require_float(self, x, y)
        if left.shape[-1] != right.shape[-2]:
            raise _different_depths(left.shape, right.shape)
        return np.asarray(np.matmul(left, right))

    def permuted(self, perm: tuple[int, ...]) -> dict[str, Any] | None:
        """Return {} (no attribute or constant has to change) if the last two axes stay, else None.

        Also return None if the dtypes of x and y differ: for float x and int8 y, the result depends on the
        order of the batch axes.
        """
        rank = kept_rank(perm)
        keeps_matrices = perm[-2:] == (rank - 2, rank - 1)
        return {} if keeps_matrices and self.x.dtype is self.y.dtype else None

    def dynamic_fault(self) -> str | None:
        """Return a sentence if LiteRT may compute float x times int8 y wrongly (see the class), else None."""
        for name, value in (("x", self.x), ("y", self.y)):
            if value.shape is None or sum(dim != 1 for dim in value.shape[:-2]) > 1:
                expected = f"expected at most one batch dimension other than 1, got {value.type}"
                return f"{name}: {expected}; with more, LiteRT may use scales or sums of the wrong matrices"
        return None

    def macs(self) -> int:
        x = self.x.shape or ()  # [] may stand for an unknown rank
        depth = [x[-2 if self.adj_x else -1]] if len(x) > 1 else None
        return element_count(self.output.shape) * element_count(depth)

    def required_version(self) -> int:
        if is_hybrid(self.x, self.y) and self.asymmetric_quantize_inputs:
            return 4
        return super().required_version()


def _different_depths(x: Shape, y: Shape) -> ShapeError:
    """Return the error for matrices of the shapes ``x`` and ``y``, which cannot be multiplied."""
    return ShapeError(f"y: expected {counted(x[-1], 'row')}, one per column of x, got {y[-2]}")


def _matrix_shape(value: Value, name: str, transposed: bool) -> Shape | None:
    """Return the shape of the operand ``name``, with its last two axes exchanged if ``transposed``.

    Return None for an unknown rank; raise ShapeError for a rank below 2.
    """
    shape = value.shape
    if shape is None:
        return None
    if len(shape) < 2:
        raise ShapeError(f"{name}: expected rank 2 or more, got shape {format_shape(shape)}")
    return (*shape[:-2], shape[-1], shape[-2]) if transposed else shape
