# SPDX-License-Identifier: Apache-2.0
"""What fast layers share: weights and output stage prepared once, and results written block by block."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from circlekit.errors import UnsupportedError
from circlekit.interp.fast.requantization import FastOutputStage, Results, repeats
from circlekit.ir.value import Array, Value
from circlekit.ops.checks import require_float
from circlekit.ops.constant_storage import constant_elements
from circlekit.ops.fused_activation import apply_fused_activation
from circlekit.ops.numerics.output_stage import OutputStage
from circlekit.ops.numerics.quantized_layers import greatest_magnitude, is_dynamically_quantized
from circlekit.ops.quantization import zero_point_of

KEPT_BYTES = 1 << 20
"""Weights that are prepared are kept up to this size, and prepared in every run if they are larger."""


class FastLayer:
    """A layer on floats or integers, with constant weights and bias.

    ``dtype``: the float type of its sums; ``result_dtype``: of its results; ``stage``: None for floats.
    """

    def __init__(
        self,
        op: Any,
        weights: Value,
        channel_axis: int,
        exact: Callable[[Array], Array],
        output_stage: Callable[[Array, Array | None], OutputStage],
    ) -> None:
        """``exact`` and ``output_stage``: what the plain kernel makes of integer weights, and of the bias.

        UnsupportedError for forms that have no fast kernel.
        """
        self.op, self.exact, self.zero_point = op, exact, 0
        elements = constant_elements(weights)
        self.bias = None if op.bias is None else constant_elements(op.bias).reshape(-1)
        self.stage: FastOutputStage | None = None
        self.kept: Array | None = None
        if elements.dtype.kind == "f":
            require_float(op, elements, self.bias)
            self.dtype = self.result_dtype = elements.dtype
            return
        if is_dynamically_quantized(op, op.input, weights):
            raise UnsupportedError(f"{op.code} with dynamic quantization has no fast kernel")
        self.zero_point = zero_point_of(op.input)
        prepared = exact(elements)
        self.kept = prepared if prepared.nbytes <= KEPT_BYTES else None
        self.dtype, self.result_dtype = prepared.dtype, op.output.dtype.numpy
        channels = np.abs(np.moveaxis(prepared, channel_axis, -1)).reshape(-1, elements.shape[channel_axis])
        bound = greatest_magnitude(op.input, self.zero_point) * float(channels.sum(axis=0).max(initial=0))
        self.stage = FastOutputStage(output_stage(elements, self.bias), bound)

    def weights(self, stored: Array) -> Array:
        """The weights as floats without zero points."""
        if self.stage is None:
            return stored
        return self.exact(stored) if self.kept is None else self.kept

    def centered(self, data: Array) -> Array:
        """Data as floats without zero point."""
        if self.stage is None:
            return data
        floats = data.astype(self.dtype)
        if self.zero_point:
            floats -= self.zero_point
        return floats

    def results(self, out: Array, row_group: int) -> Results | FloatResults:
        """A writer of the results ``out`` [R, C], of which each block is a multiple of ``row_group`` rows."""
        if self.stage is None:
            return FloatResults(out, self.bias, self.op.act, row_group)
        return Results(self.stage, out, row_group)

    def finished(self, sums: Array) -> Array:
        """The results of sums [.., R, C], which are written block by block."""
        out = np.empty(sums.shape, self.result_dtype)
        if out.size == 0:
            return out
        group, channels = sums.shape[-2:]
        rows, results = sums.reshape(-1, channels), self.results(out.reshape(-1, channels), group)
        step = group * max(1, BLOCK_ELEMENTS // (group * channels))
        for top in range(0, len(rows), step):
            results.write(rows[top : top + step], top)
        results.close()
        return out


BLOCK_ELEMENTS = 1 << 15
"""Sums that are finished at a time: their scratch stays in the cache."""


class FloatResults:
    """Writer of float results ``out`` [R, C] of sums: bias and activation."""

    def __init__(self, out: Array, bias: Array | None, act: Any, row_group: int) -> None:
        self.out, self.act = out, act
        channels = out.shape[1]
        count = repeats(row_group, channels)
        self.bias = np.zeros(1, out.dtype) if bias is None else np.tile(bias, count)
        self.shape = (-1, count * channels)

    def write(self, sums: Array, row: int) -> None:
        """Put the results of sums [r, C] into ``out`` from ``row`` on."""
        target = self.out[row : row + len(sums)].reshape(self.shape)
        np.add(sums.reshape(self.shape), self.bias, out=target)
        apply_fused_activation(target, self.act)

    def close(self) -> None:
        """Complete the results; nothing is left to do."""
