# SPDX-License-Identifier: Apache-2.0
"""Circle's own layers: attention, and layers with binary-coded quantized (BCQ) weights.

A row of BCQ weights is the sum of ``bits`` code rows of +1 and -1, each multiplied by a scale of its own.
The rows are divided into clusters.  The operand ``clusters`` [n, 2] has the numbers (bits, rows) of each
cluster.  A cluster is stored as ``bits`` planes: each plane has one code row for each of the ``rows``.  A
code row is packed into int32 words: a set bit means +1, and the lowest bit of the first word is column 0.
The scales have the order of the code rows.

Source: onert's AttentionLayer; luci and onert for operands, clusters and shapes of BCQ weights; nntrainer's
BCQTensor for the order of planes and rows; LUT-GEMM for the order of the bits, which ONE does not document.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from circlekit.errors import ShapeError, UnsupportedError, counted
from circlekit.ir.dtypes import f32, i32, i64
from circlekit.ir.enums import Activation, RoPEMode
from circlekit.ir.op import Op, attribute, operand, optional_operand
from circlekit.ir.value import Array, Shape, TensorType, Value, format_shape
from circlekit.ops.checks import require_bias, require_float, require_rank
from circlekit.ops.constant_operands import static_int_vector
from circlekit.ops.dimensions import dims_differ, element_count, normalized_axis, product
from circlekit.ops.fused_activation import apply_fused_activation
from circlekit.ops.movement.gather import require_in_range
from circlekit.ops.program.state import Stateful
from circlekit.ops.reduction.normalization import rotated

CACHE_BLOCK_POSITIONS = 32
"""onert reads a number of cache positions that is rounded up to a multiple of this."""


class Attention(Stateful, code="ATTENTION", options="AttentionOptions", formats=frozenset({"circle"})):
    """Multi-head attention for one token of a decoder, with rotary position embedding and key-value caches.

    Shapes, where ``head`` is the size of one head: ``input`` [1, 1, heads * head]; ``cos`` and ``sin``
    [1, 1, head], for the position of the token; the caches [1, positions, heads, head].  ``wq``, ``wk``,
    ``wv`` and ``wo`` are square matrices with a row per output element.  ``mask`` [1, 1, 1, positions] is
    added to the scores; -inf excludes a position.

    First, the query q and the key of the token are rotated as in GPT-NeoX.  Then the key and the value of the
    token are stored in the caches at ``position`` (an operand of one element).  The result is

        softmax(q * k_cache^T / sqrt(head) + mask) * v_cache * wo^T

    over the first ``position`` + 2 positions of the caches; all but the last product are computed per head.
    As in onert, this number of positions is rounded up to a multiple of 32, but is at most the length of each
    cache and of the mask.  A cache that is a variable is updated.  Other caches are not modified here; onert
    does modify them.
    """

    input = operand(f32)
    wq = operand(f32)
    wk = operand(f32)
    wv = operand(f32)
    wo = operand(f32)
    cos = operand(f32)
    sin = operand(f32)
    mask = operand(f32)
    k_cache = operand(f32)
    v_cache = operand(f32)
    position = operand(i32, i64)

    states = ("k_cache", "v_cache")

    def infer(self) -> TensorType:
        shape = require_rank(self.input, "input", 3)
        size = None if shape is None else shape[-1]
        for name in ("wq", "wk", "wv", "wo"):
            weights = require_rank(getattr(self, name), name, 2)
            if weights is not None and any(dims_differ(d, size) for d in weights):
                expected = f"expected [{size},{size}], as the input has {size} elements"
                raise ShapeError(f"{name}: {expected}, got {format_shape(weights)}")
        for name in self.states:
            cache = require_rank(getattr(self, name), name, 4)
            if cache is not None and dims_differ(product(cache[2:]), size):
                expected = f"expected heads * head = {size}, as the input has {size} elements"
                raise ShapeError(f"{name}: {expected}, got {format_shape(cache)}")
        return TensorType(self.input.dtype, shape)

    def macs(self) -> int:
        """Return the multiply-accumulates of the projections only; other products depend on the position."""
        return sum(element_count(w.shape) for w in (self.wq, self.wk, self.wv, self.wo))

    def step(
        self, input: Array, wq: Array, wk: Array, wv: Array, wo: Array, cos: Array, sin: Array, mask: Array,
        k_cache: Array, v_cache: Array, position: Array,
    ) -> tuple[Sequence[Array], Sequence[Array | None]]:  # fmt: skip
        """Return the result, and the new contents of ``k_cache`` and ``v_cache``."""
        require_float(self, input, wq, wk, wv, wo, cos, sin, mask, k_cache, v_cache)
        if input.shape[:2] != (1, 1):
            raise UnsupportedError(
                f"{self.code} has a kernel for one token [1, 1, model] only, got {format_shape(input.shape)}"
            )
        heads, head = k_cache.shape[2:]
        now, capacity = int(position.reshape(-1)[0]), min(k_cache.shape[1], v_cache.shape[1])
        if not 0 <= now < capacity:
            found = f"position {now} is outside of the caches"
            raise ShapeError(f"{self.code}: {found}, which have {counted(capacity, 'position')}")
        x, tables = input.reshape(-1), (sin.reshape(-1)[:head], cos.reshape(-1)[:head])
        query, key = (rotated((w @ x).reshape(heads, head), *tables, RoPEMode.GPT_NEOX) for w in (wq, wk))
        keys, values = k_cache.copy(), v_cache.copy()
        keys[0, now], values[0, now] = key, (wv @ x).reshape(heads, head)
        length = min(-(-(now + 2) // CACHE_BLOCK_POSITIONS) * CACHE_BLOCK_POSITIONS, capacity, mask.shape[-1])
        scores = np.einsum("hd,phd->hp", query, keys[0, :length]) / np.sqrt(np.float32(head))
        scores += mask.reshape(-1)[:length]
        weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
        weights /= weights.sum(axis=-1, keepdims=True)
        attended = np.einsum("hp,phd->hd", weights, values[0, :length])
        return [(wo @ attended.reshape(-1)).reshape(input.shape)], (keys, values)


CODES_PER_WORD = 32
"""The number of columns in one int32 word."""


def row_count(clusters: Value) -> int | None:
    """Return the number of rows of all clusters; None if ``clusters`` is not constant.

    Raise the errors of ``bits_and_rows``.
    """
    numbers = static_int_vector(clusters)
    return None if numbers is None else sum(bits_and_rows(numbers)[1])


def bits_and_rows(numbers: Sequence[int]) -> tuple[list[int], list[int]]:
    """Return two lists: the number of bits of each cluster, and its number of rows.

    ``numbers``: the elements of the operand: bits, rows, bits, rows, ...  Raise ShapeError if their
    number is odd or one is negative.
    """
    if len(numbers) % 2:
        raise ShapeError(f"clusters have {counted(len(numbers), 'number')}, expected pairs of bits and rows")
    if min(numbers, default=0) < 0:
        raise ShapeError(f"clusters: expected bits and rows of 0 or more, got {min(numbers)}")
    return list(numbers[::2]), list(numbers[1::2])


def decoded(
    scales: Array, binary: Array, clusters: Array, hidden: int, indices: Array | None = None
) -> Array:
    """Return BCQ weights as float32 [rows, hidden].

    ``scales``: one for each code row.  ``binary``: [code rows, words].  ``hidden``: the number of columns.
    ``indices``: a vector of the rows to decode, by default all.  Raise ShapeError if the sizes of the
    operands do not fit.
    """
    bits, rows = bits_and_rows(clusters.reshape(-1).tolist())
    codes = sum(b * r for b, r in zip(bits, rows, strict=True))
    if binary.ndim != 2 or binary.shape[0] != codes or scales.size != codes:
        sizes = f"{counted(scales.size, 'scale')} and codes of shape {list(binary.shape)}"
        raise ShapeError(f"expected {codes} scales and code rows, as the clusters say, got {sizes}")
    if not 0 < hidden <= binary.shape[1] * CODES_PER_WORD:
        expected = f"from 1 to {binary.shape[1] * CODES_PER_WORD}, the columns of the codes"
        raise ShapeError(f"hidden size: expected {expected}, got {hidden}")
    wanted = np.arange(sum(rows)) if indices is None else indices
    code_bytes = np.ascontiguousarray(binary, "<i4").view(np.uint8)
    out = np.zeros((wanted.size, hidden), np.float32)
    first_row = first_code = 0
    for b, r in zip(bits, rows, strict=True):
        in_cluster = (wanted >= first_row) & (wanted < first_row + r)
        for plane in range(b):
            code_rows = first_code + plane * r + wanted[in_cluster] - first_row
            is_plus = np.unpackbits(code_bytes[code_rows], axis=1, count=hidden, bitorder="little")
            out[in_cluster] += (is_plus * np.float32(2) - 1) * scales.reshape(-1)[code_rows, None]
        first_row, first_code = first_row + r, first_code + b * r
    return out


def hidden_size(declared: int, binary: Value) -> int | None:
    """Return ``declared``; if it is 0, the number of columns of ``binary``, or None if that is unknown."""
    words = None if binary.shape is None or len(binary.shape) != 2 else binary.shape[1]
    return declared or (None if words is None else words * CODES_PER_WORD)


class BcqFullyConnected(
    Op, code="BCQ_FULLY_CONNECTED", options="BCQFullyConnectedOptions", formats=frozenset({"circle"})
):
    """Binary-coded weights [rows, hidden] times ``input`` [hidden, n], plus the bias of each row."""

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
        rows = row_count(self.weights_clusters)
        require_bias(self.bias, rows)
        hidden = hidden_size(self.weights_hidden_size, self.weights_binary)
        if shape is not None and dims_differ(shape[0], hidden):
            raise ShapeError(f"input has {counted(shape[0], 'row')}, expected the hidden size {hidden}")
        return TensorType(self.input.dtype, (rows, None if shape is None else shape[1]))

    def kernel(
        self, input: Array, weights_scales: Array, weights_binary: Array, bias: Array | None, clusters: Array
    ) -> Array:
        hidden = self.weights_hidden_size or weights_binary.shape[-1] * CODES_PER_WORD
        weights = decoded(weights_scales, weights_binary, clusters, hidden)
        out = np.matmul(weights, input)
        if bias is not None:
            out += bias.reshape(-1, 1)
        return apply_fused_activation(out, self.act)

    def macs(self) -> int:
        return element_count(self.output.shape) * element_count(self.input.shape and self.input.shape[:1])


class BcqGather(Op, code="BCQ_GATHER", options="BCQGatherOptions", formats=frozenset({"circle"})):
    """Slices at ``indices`` along ``axis`` of a binary-coded table [rows, hidden], as float32."""

    input_scales = operand(f32)
    input_binary = operand(i32)
    indices = operand(i32)
    input_clusters = operand(i32)

    input_hidden_size: int = attribute(0)
    axis: int = attribute(0)

    def infer(self) -> TensorType:
        rows, indices = row_count(self.input_clusters), self.indices.shape
        if indices is None:
            return TensorType(self.input_scales.dtype, None)
        table: Shape = (rows, hidden_size(self.input_hidden_size, self.input_binary))
        axis = normalized_axis(self.axis, 2)
        return TensorType(self.input_scales.dtype, (*table[:axis], *indices, *table[axis + 1 :]))

    def kernel(
        self, input_scales: Array, input_binary: Array, indices: Array, input_clusters: Array
    ) -> Array:
        hidden = self.input_hidden_size or input_binary.shape[-1] * CODES_PER_WORD
        rows = sum(bits_and_rows(input_clusters.reshape(-1).tolist())[1])
        axis = normalized_axis(self.axis, 2)
        require_in_range(self, indices, (rows, hidden)[axis])
        if axis:
            table = decoded(input_scales, input_binary, input_clusters, hidden)
            return np.take(table, indices, axis=1)
        rows_found = decoded(input_scales, input_binary, input_clusters, hidden, indices.reshape(-1))
        return rows_found.reshape(*indices.shape, hidden)
