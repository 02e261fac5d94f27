# SPDX-License-Identifier: Apache-2.0
"""What fast convolutions share: prepared weights and output stage, and padded images."""

from __future__ import annotations

import numpy as np

from circlekit.errors import UnsupportedError
from circlekit.interp.fast.requantization import FastOutputStage, Results
from circlekit.ir.value import Array
from circlekit.ops.checks import require_float
from circlekit.ops.constant_storage import constant_elements
from circlekit.ops.convolution.convolution_layer import ConvolutionLayer
from circlekit.ops.convolution.correlation import Geometry
from circlekit.ops.fused_activation import apply_fused_activation
from circlekit.ops.numerics.quantized_layers import (
    greatest_magnitude,
    is_dynamically_quantized,
    weight_zero_points,
)
from circlekit.ops.quantization import zero_point_of

KEPT_BYTES = 1 << 20
"""Integer weights are kept as floats up to this size; larger ones are converted in every run."""


class FastLayer:
    """A convolution on floats or integers, with constant filter and bias.

    ``dtype``: the float type of its sums.
    """

    def __init__(self, op: ConvolutionLayer, depth: int) -> None:
        """``depth``: channels of the input.  UnsupportedError for forms that have no fast kernel."""
        self.op, self.zero_point = op, 0
        filter = constant_elements(op.filter)
        self.bias = None if op.bias is None else constant_elements(op.bias).reshape(-1)
        self.stage: FastOutputStage | None = None
        if filter.dtype.kind == "f":
            require_float(op, filter, self.bias)
            self.dtype = self.result_dtype = filter.dtype
            return
        if is_dynamically_quantized(op, op.input, op.filter):
            raise UnsupportedError(f"{op.code} with dynamic quantization has no fast kernel")
        self.zero_point = zero_point_of(op.input)
        self.weight_zero_points = weight_zero_points(op.filter, filter.shape[op.channel_axis])
        exact = op.exact_filter(filter)
        self.kept = exact if exact.nbytes <= KEPT_BYTES else None
        self.dtype, self.result_dtype = exact.dtype, op.input.dtype.numpy
        columns = np.abs(np.moveaxis(exact, op.channel_axis, -1)).reshape(-1, filter.shape[op.channel_axis])
        bound = greatest_magnitude(op.input, self.zero_point) * float(columns.sum(axis=0).max(initial=0))
        self.stage = FastOutputStage(op.output_stage(depth, filter, self.bias), bound)

    def weights(self, filter: Array) -> Array:
        """The filter as floats without zero points."""
        if self.stage is None:
            return filter
        return self.op.exact_filter(filter) if self.kept is None else self.kept

    def padded(self, image: Array, geometry: Geometry) -> Array:
        """An image [H, W, C] as floats without zero point, with the padding that its windows read."""
        taps, strides, dilations, before, windows, _ = geometry
        size = [(windows[a] - 1) * strides[a] + (taps[a] - 1) * dilations[a] + 1 for a in (0, 1)]
        part = image[: size[0] - before[0], : size[1] - before[1]]
        if self.stage is None and part.shape[:2] == tuple(size) and part.flags.c_contiguous:
            return part
        out = np.zeros((*size, image.shape[2]), self.dtype)
        middle = out[before[0] :, before[1] :][: part.shape[0], : part.shape[1]]
        middle[...] = part
        if self.zero_point:
            middle -= self.zero_point
        return out

    def results(self, out: Array, rows: int) -> Results | FloatResults:
        """A place for the results ``out`` [R, C], written at most ``rows`` rows at a time."""
        return FloatResults(self, out) if self.stage is None else Results(self.stage, out, rows)


class FloatResults:
    """Results ``out`` [R, C] of sums, with bias and activation."""

    def __init__(self, layer: FastLayer, out: Array) -> None:
        self.bias, self.act, self.out = layer.bias, layer.op.act, out

    def write(self, sums: Array, row: int) -> None:
        target = self.out[row : row + len(sums)]
        if self.bias is None:
            target[...] = sums
        else:
            np.add(sums, self.bias, out=target)
        apply_fused_activation(target, self.act)

    def close(self) -> None:
        """Nothing is left to do."""
