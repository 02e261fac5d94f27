# SPDX-License-Identifier: Apache-2.0
"""Circle's operators on binary-coded weights: declarations and shapes, no kernels.

Weights are sums of vectors of +1 and -1, packed in int32 words, each vector times a scale; rows go in
clusters [n, 2] of (bits, rows).  Source: luci's shape inference; no public kernel tells the bits' order.
"""

from __future__ import annotations

from circlekit.errors import ShapeError
from circlekit.ir.dtypes import i32
from circlekit.ir.enums import Activation
from circlekit.ir.op import Op, attribute, operand, optional_operand
from circlekit.ir.value import Shape, TensorType, Value
from circlekit.ops.common import need_rank, normalized_axis, static_int_vector


def cluster_columns(clusters: Value) -> tuple[list[int], list[int]] | None:
    """Bits and rows of each cluster; None where they are no constant."""
    numbers = static_int_vector(clusters)
    if numbers is None:
        return None
    if len(numbers) % 2:
        raise ShapeError(f"clusters have {len(numbers)} numbers, pairs of bits and rows are wanted")
    return numbers[::2], numbers[1::2]


class BcqFullyConnected(
    Op, code="BCQ_FULLY_CONNECTED", options="BCQFullyConnectedOptions", formats=frozenset({"circle"})
):
    """Binary-coded weights [rows, hidden] times ``input`` [hidden, n], plus a bias for each row."""

    input = operand()
    weights_scales = operand()
    weights_binary = operand(i32)
    bias = optional_operand()
    weights_clusters = operand(i32)

    weights_hidden_size: int = attribute(0)
    act: Activation = attribute(Activation.NONE, field="fused_activation_function")

    fuses_activation = True

    def infer(self) -> TensorType:
        shape = need_rank(self.input, "input", 2)
        clusters = cluster_columns(self.weights_clusters)
        rows = None if clusters is None else sum(clusters[1])
        return TensorType(self.input.dtype, (rows, None if shape is None else shape[1]))


class BcqGather(Op, code="BCQ_GATHER", options="BCQGatherOptions", formats=frozenset({"circle"})):
    """Slices of a binary-coded table along ``axis``."""

    input_scales = operand()
    input_binary = operand(i32)
    indices = operand(i32)
    input_clusters = operand(i32)

    input_hidden_size: int = attribute(0)
    axis: int = attribute(0)

    def infer(self) -> TensorType:
        binary = need_rank(self.input_binary, "input_binary", 2)
        clusters, indices = cluster_columns(self.input_clusters), self.indices.shape
        rows: int | None = None
        words: int | None = None
        if binary is not None:
            words = None if binary[1] is None else binary[1] * 32
            bits = 0 if clusters is None else sum(clusters[0])
            rows = None if binary[0] is None or bits < 1 else binary[0] // bits
        if indices is None:
            return TensorType(self.input_scales.dtype, None)
        table: Shape = (rows, words)
        axis = normalized_axis(self.axis, 2)
        return TensorType(self.input_scales.dtype, (*table[:axis], *indices, *table[axis + 1 :]))
