# SPDX-License-Identifier: Apache-2.0
"""Fuse Transposes of operands into FULLY_CONNECTED and BATCH_MATMUL; fuse the sum of two FULLY_CONNECTED.

In the pictures, O is the number of rows of weights, I their length.
"""

from __future__ import annotations

import math

import numpy as np

from circlekit.ir.value import Array, Value
from circlekit.ops.dimensions import known_dims, normalized_axis
from circlekit.rewrite.rewrite import Rewrite, Rules, condition


class FuseHorizontalFullyConnected(Rewrite):
    """fc(x, w1, b1) + fc(x, w2, b2)  ==  fc(x, w1 + w2, b1 + b2)."""

    name = "fuse_horizontal_fc_layers"

    before = """
        l = FullyConnected(x: f32, w1: const f32[O, I], b1?: const f32[*, O])
            {weights_format: DEFAULT, keep_num_dims: any = keep}
        r = FullyConnected(x, w2: const f32[O, I], b2?: const f32[*, O])
            {weights_format: DEFAULT, keep_num_dims: any = keep}
        z = Add(l, r)           {act: NONE|RELU|RELU6|RELU_N1_TO_1 = act}
    """
    after = "z = FullyConnected(x, w, b)  {like l, act: act}"

    def constants(self, w1: Array, w2: Array, b1: Array | None, b2: Array | None) -> dict[str, Array | None]:
        biases = [b.reshape(-1) for b in (b1, b2) if b is not None]
        return {"w": w1 + w2, "b": sum(biases[1:], biases[0]) if biases else None}


class _Rows(Rewrite):
    """fc(transpose(x), w)  ==  fc(x, w with permuted columns), if elements move only within a row.

    A row is I consecutive elements of the operand, which FULLY_CONNECTED multiplies by the weights.
    """

    spread = ("t",)

    before = """
        t = Transpose(x: f32, perm: const)
        z = FullyConnected(t, w: const f32[O, I], b?)   {weights_format: DEFAULT}
    """
    after = "z = FullyConnected(x, w2, b)  {like z}"

    @condition
    def permutes_within_rows(self, perm: Array, t: Value, I: int) -> str | None:
        if first_axis(perm, t, I) is None:
            order = [int(a) for a in perm]
            expected = f"expected a perm within rows of {I} elements"
            return f"%{t.name}: {expected}, got {order} for the result {t.type}"
        return None

    def constants(self, w: Array, perm: Array, t: Value, O: int, I: int) -> dict[str, Array]:
        first = first_axis(perm, t, I)
        # columns in the order of the axes of ``t``, permuted back to the order of ``x``
        order = [normalized_axis(int(a), len(perm)) for a in perm[first:]]
        rows = w.reshape(O, *known_dims(t.known_shape[first:]))
        return {"w2": rows.transpose(0, *(1 + np.argsort(order))).reshape(O, I)}


class _FlattenedRows(_Rows):
    """fc(reshape(transpose(x)), w)  ==  fc(x, w with permuted columns).

    No Reshape is needed: FULLY_CONNECTED itself divides an operand of any shape into rows of I elements, if
    ``keep_num_dims`` is false.
    """

    spread = ("r",)

    before = """
        t = Transpose(x: f32, perm: const)
        r = Reshape(t, shape?)                          {new_shape: any}
        z = FullyConnected(r, w: const f32[O, I], b?)   {weights_format: DEFAULT, keep_num_dims: any}
    """
    after = "z = FullyConnected(x, w2, b)  {like z, keep_num_dims: false}"


def first_axis(perm: Array, value: Value, size: int) -> int | None:
    """Return the axis of ``value`` at which its rows of ``size`` elements begin.

    A row spans this axis and all later ones: in a value of shape [2, 3, 4, 5], rows of 20 elements begin at
    axis 2.  ``value`` is the result of a Transpose by ``perm``.  Return None in these cases:

    - The rank or a dimension of the rows is unknown, or rows begin at no axis.
    - ``perm`` moves one of the axes that stand before the rows.
    """
    shape = value.shape
    if shape is None:
        return None
    for first in range(len(shape)):
        if first and normalized_axis(int(perm[first - 1]), len(shape)) != first - 1:
            return None
        dims = [d for d in shape[first:] if d is not None]
        if len(dims) == len(shape) - first and math.prod(dims) == size:
            return first
    return None


class FuseTransposeToFullyConnectedWeights(Rules):
    """fc(transpose(x), w)  ==  fc(x, w with permuted columns).

    Exporters write this, for example, where they flatten an image.
    """

    name = "fuse_transpose_to_fullyconnected_weights"
    rules = (_Rows, _FlattenedRows)


class _Transposed(Rewrite):
    """batch_matmul($old)  ==  batch_matmul(x, y) with $adj inverted, where t is $side transposed.

    The attributes adj_x and adj_y say whether the operator transposes the matrices of an operand.
    """

    before = """
        t = Transpose($side, perm: const)
        z = BatchMatMul($old)       {$adj: any = adj}
    """
    after = "z = BatchMatMul(x, y)  {like z, $adj: flipped}"

    @condition
    def only_the_matrices(self, t: Value, perm: Array) -> str | None:
        axes = [normalized_axis(a, perm.size) for a in perm.tolist()]
        batch = list(range(len(axes) - 2))
        if axes == [*batch, len(axes) - 1, len(axes) - 2]:
            return None
        return f"%{t.name}: expected a perm that swaps the last two axes alone, got {axes}"

    def constants(self, adj: bool) -> dict[str, bool]:
        return {"flipped": not adj}


class _RowsStay(Rewrite):
    """batch_matmul(x, transpose(y))  ==  batch_matmul(x, u) with adj_y.

    u is another Transpose of y.  It keeps the last axis last, so it copies whole rows.
    """

    before = """
        t = Transpose(y, perm: const)
        z = BatchMatMul(x, t)       {adj_y: false}
    """
    after = """
        u = Transpose(y, perm2)
        z = BatchMatMul(x, u)       {like z, adj_y: true}
    """

    @condition
    def turns_rows_into_columns(self, t: Value, perm: Array) -> str | None:
        axes = [normalized_axis(a, perm.size) for a in perm.tolist()]
        if axes[-2] == len(axes) - 1:
            return None
        return f"%{t.name}: expected a perm that moves the last axis to the last but one, got {axes}"

    @condition
    def left_operand_is_another(self, x: Value, t: Value) -> str | None:
        return f"%{t.name}: is also the left operand, which would keep its Transpose" if x is t else None

    def constants(self, perm: Array) -> dict[str, Array]:
        # the last two axes change places
        return {"perm2": np.concatenate([perm[:-2], perm[:-3:-1]])}


class FuseTransposeWithBatchMatMul(Rules):
    """A Transpose that swaps rows and columns of an operand becomes the adj attribute of that operand.

    A Transpose of the right operand may also permute other axes.  If it moves the last axis to the last but
    one, another Transpose replaces it.  The new one keeps the last axis last, so it copies whole rows.
    """

    name = "fuse_transpose_with_batch_matmul"
    rules = (
        _Transposed.member(side="x", old="t, y", adj="adj_x"),
        _Transposed.member(side="y", old="x, t", adj="adj_y"),
        _RowsStay,
    )
