# SPDX-License-Identifier: Apache-2.0
"""Circle's operators on binary-coded weights.

A row of weights is a sum of rows of +1 and -1, each times a scale.  Rows go in clusters [n, 2] of (bits,
rows); the codes of a cluster are ``bits`` planes, one after the other, of ``rows`` rows, and a row is packed
in int32 words: a set bit is +1, the lowest bit of the first word is column 0.  The scales are in the order
of the codes.  Source: luci and onert for operands, clusters and shapes; nntrainer's BCQTensor for the order
of planes and rows; LUT-GEMM, the public kernel of the authors of the one that ONE's runtime calls, for the
order of the bits, of which no part of ONE itself speaks.
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

WORD = 32
"""Columns in one word of codes."""


def cluster_columns(clusters: Value) -> tuple[list[int], list[int]] | None:
    """Return the bits and the rows of each cluster; None if they are not constant."""
    numbers = static_int_vector(clusters)
    return None if numbers is None else bits_and_rows(numbers)


def bits_and_rows(numbers: Sequence[int]) -> tuple[list[int], list[int]]:
    """The two columns of clusters, given row by row."""
    if len(numbers) % 2:
        raise ShapeError(f"clusters have {len(numbers)} numbers, expected pairs of bits and rows")
    return list(numbers[::2]), list(numbers[1::2])


def decoded(scales: Array, binary: Array, clusters: Array, hidden: int, wanted: Array | None = None) -> Array:
    """float32 [rows, hidden]: the weights that ``binary`` [codes, words] stands for, or the rows ``wanted``.

    ShapeError if the numbers of codes, scales and clusters do not fit.
    """
    bits, rows = bits_and_rows(clusters.reshape(-1).tolist())
    codes = sum(b * r for b, r in zip(bits, rows, strict=True))
    if binary.ndim != 2 or binary.shape[0] != codes or scales.size != codes:
        found = f"{scales.size} scales and codes of shape {list(binary.shape)}"
        raise ShapeError(f"expected {codes} codes and scales from the clusters, got {found}")
    if not 0 < hidden <= binary.shape[1] * WORD:
        raise ShapeError(f"codes have {binary.shape[1] * WORD} columns, the hidden size is {hidden}")
    asked = np.arange(sum(rows)) if wanted is None else wanted
    octets = np.ascontiguousarray(binary, "<i4").view(np.uint8)
    out = np.zeros((asked.size, hidden), np.float32)
    first_row = first_code = 0
    for b, r in zip(bits, rows, strict=True):
        here = (asked >= first_row) & (asked < first_row + r)
        places = first_code + asked[here] - first_row
        for plane in range(b):  # a few bits at most
            at = places + plane * r
            signs = np.unpackbits(octets[at], axis=1, count=hidden, bitorder="little")
            out[here] += (signs * np.float32(2) - 1) * scales.reshape(-1)[at, None]
        first_row, first_code = first_row + r, first_code + b * r
    return out


def hidden_size(declared: int, binary: Value) -> int | None:
    """Columns of the weights: as declared, or else as many as the words of ``binary`` hold."""
    words = None if binary.shape is None or len(binary.shape) != 2 else binary.shape[1]
    return declared or (None if words is None else words * WORD)


class BcqFullyConnected(
    Op, code="BCQ_FULLY_CONNECTED", options="BCQFullyConnectedOptions", formats=frozenset({"circle"})
):
    """Binary-coded weights [rows, hidden] times ``input`` [hidden, n], plus a bias for each row."""

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
            raise ShapeError(f"input has {shape[0]} rows, the hidden size is {hidden}")
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
    """Slices along ``axis`` of a binary-coded table [rows, hidden]."""

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
