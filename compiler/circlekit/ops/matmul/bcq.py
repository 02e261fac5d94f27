# SPDX-License-Identifier: Apache-2.0
"""Circle's operators with binary-coded quantized (BCQ) weights.

Each row of weights is a sum of ``bits`` code rows, which consist of +1 and -1, each multiplied by a scale.
The rows are divided into clusters; the operand ``clusters`` [n, 2] has (bits, rows) for each.  The codes of a
cluster are stored as ``bits`` planes of ``rows`` code rows.  A code row is packed into int32 words: a set bit
means +1, and the lowest bit of the first word is column 0.  The scales of the code rows have the same order.

Source: luci and onert for operands, clusters and shapes; nntrainer's BCQTensor for the order of planes and
rows; LUT-GEMM for the order of the bits, which ONE does not document.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from circlekit.errors import ShapeError
from circlekit.ir.dtypes import f32, i32
from circlekit.ir.enums import Activation
from circlekit.ir.op import Op, attribute, operand, optional_operand
from circlekit.ir.value import Array, Shape, TensorType, Value
from circlekit.ops.checks import require_bias, require_rank
from circlekit.ops.constant_operands import static_int_vector
from circlekit.ops.dimensions import dims_differ, element_count, normalized_axis
from circlekit.ops.fused_activation import apply_fused_activation
from circlekit.ops.movement.gather import require_in_range

CODES_PER_WORD = 32
"""Columns that are packed into one int32 word."""


def cluster_columns(clusters: Value) -> tuple[list[int], list[int]] | None:
    """Return the bits and the rows of each cluster; None if they are not constant."""
    numbers = static_int_vector(clusters)
    return None if numbers is None else bits_and_rows(numbers)


def bits_and_rows(numbers: Sequence[int]) -> tuple[list[int], list[int]]:
    """Return the bits and the rows of each cluster, given ``numbers`` [bits, rows, bits, rows, ...]."""
    if len(numbers) % 2:
        raise ShapeError(f"clusters have {len(numbers)} numbers, expected pairs of bits and rows")
    return list(numbers[::2]), list(numbers[1::2])


def decoded(
    scales: Array, binary: Array, clusters: Array, hidden: int, indices: Array | None = None
) -> Array:
    """Decode ``binary`` [codes, words]: return float32 weights [rows, hidden].

    ``indices``: the rows to decode, by default all.  ShapeError if the numbers of codes, scales and clusters
    do not agree.
    """
    bits, rows = bits_and_rows(clusters.reshape(-1).tolist())
    codes = sum(b * r for b, r in zip(bits, rows, strict=True))
    if binary.ndim != 2 or binary.shape[0] != codes or scales.size != codes:
        found = f"{scales.size} scales and codes of shape {list(binary.shape)}"
        raise ShapeError(f"expected {codes} codes and scales from the clusters, got {found}")
    if not 0 < hidden <= binary.shape[1] * CODES_PER_WORD:
        raise ShapeError(f"codes have {binary.shape[1] * CODES_PER_WORD} columns, expected at least {hidden}")
    chosen = np.arange(sum(rows)) if indices is None else indices
    code_bytes = np.ascontiguousarray(binary, "<i4").view(np.uint8)
    out = np.zeros((chosen.size, hidden), np.float32)
    first_row = first_code = 0
    for b, r in zip(bits, rows, strict=True):
        here = (chosen >= first_row) & (chosen < first_row + r)
        places = first_code + chosen[here] - first_row
        for plane in range(b):  # a few bits at most
            at = places + plane * r
            signs = np.unpackbits(code_bytes[at], axis=1, count=hidden, bitorder="little")
            out[here] += (signs * np.float32(2) - 1) * scales.reshape(-1)[at, None]
        first_row, first_code = first_row + r, first_code + b * r
    return out


def hidden_size(declared: int, binary: Value) -> int | None:
    """Return the columns of the weights: ``declared``, or if that is 0, the columns of ``binary``."""
    words = None if binary.shape is None or len(binary.shape) != 2 else binary.shape[1]
    return declared or (None if words is None else words * CODES_PER_WORD)


class BcqFullyConnected(
    Op, code="BCQ_FULLY_CONNECTED", options="BCQFullyConnectedOptions", formats=frozenset({"circle"})
):
    """Multiply binary-coded weights [rows, hidden] by ``input`` [hidden, n]; add a bias to each row."""

    input = operand(f32)
    weights_scales = operand(f32)
    weights_binary = operand(i32)
    bias = optional_operand(f32)
    weights_clusters = operand(i32)

    weights_hidden_size: int = attribute(0)
    act: Activation = attribute(Activation.NONE, field="fused_activation_function")

    fuses_activation = True

    def infer(self) -> TensorType:
        shape = require_rank(self.input, "input", 2)
        clusters = cluster_columns(self.weights_clusters)
        rows = None if clusters is None else sum(clusters[1])
        require_bias(self.bias, rows)
        hidden = hidden_size(self.weights_hidden_size, self.weights_binary)
        if shape is not None and dims_differ(shape[0], hidden):
            raise ShapeError(f"input has {shape[0]} rows, expected the hidden size {hidden}")
        return TensorType(self.input.dtype, (rows, None if shape is None else shape[1]))

    def kernel(
        self, input: Array, weights_scales: Array, weights_binary: Array, bias: Array | None, clusters: Array
    ) -> Array:
        hidden = hidden_size(self.weights_hidden_size, self.weights_binary) or 0
        weights = decoded(weights_scales, weights_binary, clusters, hidden)
        out = np.matmul(weights, input)
        if bias is not None:
            out += bias.reshape(-1, 1)
        return apply_fused_activation(out, self.act)

    def macs(self) -> int:
        return element_count(self.output.shape) * element_count(self.input.shape and self.input.shape[:1])


class BcqGather(Op, code="BCQ_GATHER", options="BCQGatherOptions", formats=frozenset({"circle"})):
    """Gather slices of a binary-coded table [rows, hidden] along ``axis``."""

    input_scales = operand(f32)
    input_binary = operand(i32)
    indices = operand(i32)
    input_clusters = operand(i32)

    input_hidden_size: int = attribute(0)
    axis: int = attribute(0)

    def infer(self) -> TensorType:
        clusters, indices = cluster_columns(self.input_clusters), self.indices.shape
        rows = None if clusters is None else sum(clusters[1])
        if indices is None:
            return TensorType(self.input_scales.dtype, None)
        table: Shape = (rows, hidden_size(self.input_hidden_size, self.input_binary))
        axis = normalized_axis(self.axis, 2)
        return TensorType(self.input_scales.dtype, (*table[:axis], *indices, *table[axis + 1 :]))

    def kernel(
        self, input_scales: Array, input_binary: Array, indices: Array, input_clusters: Array
    ) -> Array:
        hidden = hidden_size(self.input_hidden_size, self.input_binary) or 0
        rows = sum(bits_and_rows(input_clusters.reshape(-1).tolist())[1])
        axis = normalized_axis(self.axis, 2)
        require_in_range(self, indices, (rows, hidden)[axis])
        if axis:
            table = decoded(input_scales, input_binary, input_clusters, hidden)
            return np.take(table, indices, axis=1)
        found = decoded(input_scales, input_binary, input_clusters, hidden, indices.reshape(-1))
        return found.reshape(*indices.shape, hidden)
