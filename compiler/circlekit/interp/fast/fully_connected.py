# SPDX-License-Identifier: Apache-2.0
"""The fast path of FULLY_CONNECTED with constant integer weights: they are prepared once."""

from __future__ import annotations

import numpy as np

from circlekit.errors import UnsupportedError
from circlekit.interp.fast.convolution import KEPT_WEIGHT_BYTES
from circlekit.ir.enums import WeightsFormat
from circlekit.ir.value import Array
from circlekit.ops.matmul.dense import FullyConnected
from circlekit.ops.matmul.dense_quantized import (
    block_scales,
    dense_output_stage,
    dense_zero_points,
    exact_dense_weights,
    hybrid_dense,
    integer_dense,
)
from circlekit.ops.numerics.quantized_layers import is_dynamically_quantized


class FastFullyConnected:
    """FULLY_CONNECTED on integers, or on floats with integer weights (hybrid); weights and bias are constant.

    The plain kernel converts the weights to floats in every run, and looks at all of them to choose a dtype
    in which the sums of products are exact.  Here the dtype, the output stage and the converted weights are
    kept; converted weights larger than KEPT_WEIGHT_BYTES are not kept, but converted again in every run.
    """

    def __init__(self, op: FullyConnected, weights: Array, bias: Array | None) -> None:
        """Prepare ``op`` for ``weights``: integers, as the kernel gets them.

        Raise UnsupportedError if the weights are shuffled, have no elements or a rank other than 2, or have a
        scale for each block.
        """
        self.op = op
        if op.weights_format is not WeightsFormat.DEFAULT or weights.ndim != 2 or not weights.size:
            raise UnsupportedError(f"{op.code} with weights of {op.weights.type} has no fast kernel")
        self.is_hybrid = is_dynamically_quantized(op, op.input, op.weights)
        if self.is_hybrid and block_scales(op) is not None:
            raise UnsupportedError(f"{op.code} with scales of blocks has no fast kernel")
        self.stage = None if self.is_hybrid else dense_output_stage(op, bias, len(weights))
        exact = exact_dense_weights(op, weights)
        self.dtype = exact.dtype
        # no zero point is subtracted from the weights, so ``exact`` only has to change their dtype
        self.is_centered = self.is_hybrid or not dense_zero_points(op, len(weights)).any()
        self.prepared = exact if exact.nbytes <= KEPT_WEIGHT_BYTES else None

    def __call__(self, input: Array, weights: Array, bias: Array | None = None) -> Array:
        shape = self.op.result_shape(input.shape, *weights.shape)
        rows, exact = input.reshape(-1, weights.shape[1]), self.exact(weights)
        if self.stage is None:
            out = hybrid_dense(self.op, rows, exact, bias)
        else:
            out = integer_dense(self.op, rows, exact, self.stage)
        return out.reshape(shape)

    def exact(self, weights: Array) -> Array:
        """Return the kept weights; if they were too large to keep, convert ``weights`` again."""
        if self.prepared is not None:
            return self.prepared
        if not self.is_centered:
            return exact_dense_weights(self.op, weights)
        return (weights.view(np.int8) if self.is_hybrid else weights).astype(self.dtype)
