# SPDX-License-Identifier: Apache-2.0
"""Weights of recurrent cells: float matrices, or 8-bit ones for float data (the hybrid form).

In the hybrid form each row of the data is quantized to 8 bits when it meets the weights.
Source: TFLite portable_tensor_utils.cc.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from circlekit.errors import ModelError
from circlekit.ir.dtypes import f32, i8
from circlekit.ir.op import Op
from circlekit.ir.value import Array, Value
from circlekit.ops.numerics.dynamic_quantization import exact, quantize_rows, quantized_product
from circlekit.ops.quantization import scale_of, zero_point_of


class Weight(NamedTuple):
    """An operand with its elements."""

    value: Value
    array: Array

    @property
    def scale(self) -> np.float32:
        return scale_of(self.value)

    @property
    def zero_point(self) -> int:
        return zero_point_of(self.value)

    @property
    def is_hybrid(self) -> bool:
        """Whether the elements have 8 bits."""
        return self.array.dtype.itemsize == 1

    def dequantized(self) -> Array:
        """Return the elements as float32; 8-bit elements are signed, as in LiteRT."""
        if not self.is_hybrid:
            return self.array
        return np.asarray(self.array.view(np.int8).astype(np.float32) * self.scale)


Weights = Mapping[str, Weight]
"""The operands that are present, by name."""


def named_weights(op: Op, arrays: Sequence[Array | None]) -> dict[str, Weight]:
    """Return the operands of ``op`` that are present, by name, with their ``arrays``."""
    items = zip(op.operands, op.inputs, arrays, strict=False)
    return {spec.name: Weight(v, a) for spec, v, a in items if v is not None and a is not None}


class StackedWeights:
    """Weights of one shape, multiplied with the same data by one matrix product.

    Each is a matrix [outputs, n], or a vector [n] that stands for a diagonal matrix.  ``asymmetric``: how
    the hybrid form quantizes the data.  ModelError for other ranks or different shapes.
    """

    def __init__(self, weights: Sequence[Weight], asymmetric: bool) -> None:
        shapes = {w.array.shape for w in weights}
        if len(shapes) != 1 or weights[0].array.ndim not in (1, 2):
            raise ModelError(f"expected recurrent weights of one shape and of rank 1 or 2, got {shapes}")
        self.count = len(weights)
        self.asymmetric = asymmetric
        self.is_diagonal = weights[0].array.ndim == 1
        self.scales: Array | None = None
        if self.is_diagonal:
            self.matrix = np.stack([w.dequantized() for w in weights])
        elif any(w.is_hybrid for w in weights):
            self.matrix = exact(np.concatenate([w.array.view(np.int8) for w in weights]))
            self.scales = np.concatenate([np.full(len(w.array), w.scale) for w in weights])
        else:
            self.matrix = np.concatenate([w.array for w in weights])

    def products(self, x: Array) -> Array:
        """Return [weights, rows, outputs]: ``x`` [rows, n] times each transposed matrix."""
        if self.is_diagonal:
            return np.asarray(x * self.matrix[:, None])
        if self.scales is None:
            products = x @ self.matrix.T
        else:
            products = quantized_product(quantize_rows(x, self.asymmetric), self.matrix, self.scales)
        return np.asarray(products.reshape(len(x), self.count, -1).swapaxes(0, 1))

    def sequence_products(self, x: Array) -> Array:
        """Return [weights, time, batch, outputs] for ``x`` [time, batch, n]."""
        products = self.products(x.reshape(-1, x.shape[-1]))
        return products.reshape(self.count, *x.shape[:2], -1)


def hybrid_version(data: Value, weights: Value | None, asymmetric: bool) -> int:
    """Return operator version 1 for float weights, 2 for int8 ones, 3 with asymmetric quantization."""
    if weights is None or weights.dtype is not i8 or data.dtype is not f32:
        return 1
    return 3 if asymmetric else 2
