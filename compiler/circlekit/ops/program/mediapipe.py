# SPDX-License-Identifier: Apache-2.0
"""MediaPipe's custom operator Convolution2DTransposeBias, a TRANSPOSE_CONV with a bias.

Source: mediapipe/util/tflite/operations/transpose_conv_bias.cc.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

import numpy as np

from circlekit.errors import ModelError, ShapeError
from circlekit.ir.enums import Padding
from circlekit.ir.op import Op
from circlekit.ir.value import Array
from circlekit.ops.convolution.correlation import Geometry, correlate_transposed

PADDINGS = {1: Padding.SAME, 2: Padding.VALID}
"""TfLitePadding by its number in C."""


class TransposedWindows(NamedTuple):
    """Padding and strides of the operator; ``strides``: along the height and the width."""

    padding: Padding
    strides: tuple[int, int]

    def result_shape(self, data: tuple[int, ...], filter: tuple[int, ...]) -> tuple[int, ...]:
        """Return the shape of the result for the shapes of the data [N,H,W,I] and the filter [O,KH,KW,I].

        Along each spatial axis, VALID padding gives stride * (size - 1) + taps elements.  SAME padding gives
        taps - (size - 1) % stride - 1 fewer, if that is positive, as in MediaPipe.
        """
        image = []
        for size, taps, stride in zip(data[1:3], filter[1:3], self.strides, strict=True):
            omitted = max(0, taps - (size - 1) % stride - 1) if self.padding is Padding.SAME else 0
            image.append(stride * (size - 1) + taps - omitted)
        return (data[0], *image, filter[0])


def transposed_windows(op: Op) -> TransposedWindows:
    """Return padding and strides from the custom options: a TfLiteTransposeConvParams as it is in memory.

    These are the integers padding, stride_width and stride_height; MediaPipe ignores what follows them.
    Raise ModelError if the options are too short, or if a number is invalid.
    """
    stored = bytes(op.extra.get("custom_options", b""))
    if len(stored) < 12:
        raise ModelError(f"{op.code}: expected at least 12 bytes of custom options, got {len(stored)}")
    padding, stride_w, stride_h = struct.unpack("<3i", stored[:12])
    if padding not in PADDINGS or min(stride_w, stride_h) < 1:
        numbers = f"padding {padding} and strides {stride_h} and {stride_w}"
        raise ModelError(f"{op.code}: expected padding 1 or 2 and strides of at least 1, got {numbers}")
    return TransposedWindows(PADDINGS[padding], (stride_h, stride_w))


def convolution_2d_transpose_bias(op: Op, x: Array, filter: Array, bias: Array) -> Array:
    """Return the transposed convolution of ``x`` [N,H,W,I] with ``filter`` [O,KH,KW,I], plus ``bias`` [O].

    Raise ShapeError for other shapes, and if ``x`` has no elements; ModelError for invalid custom options.
    """
    fits = x.ndim == filter.ndim == 4 and x.shape[3] == filter.shape[3] and bias.shape == filter.shape[:1]
    if not fits or 0 in x.shape:
        expected = "data [N,H,W,I] with elements, a filter [O,KH,KW,I] and a bias [O]"
        raise ShapeError(f"{op.code}: expected {expected}, got {x.shape}, {filter.shape} and {bias.shape}")
    windows = transposed_windows(op)
    size, taps = x.shape[1:3], filter.shape[1:3]
    image = windows.result_shape(x.shape, filter.shape)[1:3]
    geometry = Geometry.transposed(size, image, taps, windows.strides, (1, 1), windows.padding)
    return np.asarray(correlate_transposed(x, filter, geometry) + bias)
