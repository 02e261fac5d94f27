# SPDX-License-Identifier: Apache-2.0
"""Quantized convolutions: integer data, or float data that is quantized on the way (hybrid).

``product`` computes the convolution at the heart: (data, filter, ends) to its result.
Source: TFLite conv.cc, depthwise_conv.cc, transpose_conv.cc and their reference kernels; ONE's interpreter
for int16 weights and uint8 weights with a scale per channel.  The integer forms of LiteRT's optimized kernels
differ in the last unit where a rounding is a tie.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from circlekit.ir.dtypes import f32
from circlekit.ir.tape import NOW, Tape
from circlekit.ir.value import Array, Value
from circlekit.ops.convolution.strips import Ends
from circlekit.ops.fused_activation import apply_fused_activation
from circlekit.ops.numerics.dynamic_quantization import quantize_rows
from circlekit.ops.numerics.quantized_layers import (
    MOST,
    channel_scales,
    exact_floats,
    fixed_point_end,
    has_wide_sums,
    moved_bias,
    need_form,
    reach,
    sums_of,
    weight_zeros,
)
from circlekit.ops.numerics.requantize import Chosen
from circlekit.ops.once import once, room
from circlekit.ops.quantization import zero_point_of

Product = Callable[[Tape, Array, Array, Ends | None], Array]


def quantized_convolution(
    tape: Tape,
    op: Any,
    weights: Value,
    arrays: tuple[Array, Array, Array | None],
    axis: int,
    product: Product,
    asymmetric: bool = True,
    everywhere: bool = True,
    optimized: Chosen = True,
) -> Array | None:
    """The result of convolution ``op`` on ``arrays``: its data, filter and bias; None where it is not bound.

    ``axis``: that of the filter's output channels.  ``asymmetric``: how hybrid data is quantized.
    ``everywhere``: every result has all taps.  Data is then taken as it is stored, and filled up with its
    zero point: what that makes too much is the same for all results of a channel, and a part of the bias.
    ``optimized``: LiteRT has an optimized kernel for it that rounds differently, for these channels.
    """
    data, filter, bias = arrays
    if need_form(op, op.input, weights):
        return None if tape is not NOW else _hybrid(op, weights, arrays, axis, product, asymmetric)
    if not tape.fixed(filter, bias):
        return None
    channels, zero = filter.shape[axis], zero_point_of(op.input)
    zeros = weight_zeros(weights, channels)
    sums = sums_of(filter, zeros, axis)
    bound = float((MOST[op.input.dtype] if everywhere else reach(op.input)) * sums.magnitudes)
    moved = moved_bias(bias, zero if everywhere else 0, sums)
    wide = has_wide_sums(op, op.input, bias)
    end = fixed_point_end(op, op.input, weights, moved, bound, channels, op.act, wide, optimized)
    stored = (0, zero) if everywhere else (zero, 0)
    return product(tape, data, filter, Ends(exact_floats(bound), *stored, end, data.dtype, zeros))


LEAST = 1 << 15
"""Bytes to work in, however little the model leaves."""


def _hybrid(
    op: Any,
    weights: Value,
    arrays: tuple[Array, Array, Array | None],
    axis: int,
    product: Product,
    asymmetric: bool,
) -> Array:
    """Each image is quantized in 8 bits by itself; sums of its products are scaled back to floats.

    LiteRT's symmetric kernel on x86 is wrong for weights of -128, which its converter never makes.
    """
    data, filter, bias = arrays
    assert op.input.dtype is f32
    rows = quantize_rows(data.reshape(data.shape[0], -1), asymmetric)
    stored, no_zeros = filter.view(np.int8), np.zeros((), np.float32)
    most = once(op, "most", lambda: sums_of(stored, no_zeros, axis).magnitudes, weights)
    numbers = (rows.data - rows.offset).reshape(data.shape).astype(exact_floats(255.0 * most), copy=False)
    tape = Tape()
    tape.scratch = max(room(), LEAST)
    out = product(tape, numbers, stored, None).astype(np.float32, copy=False)
    out *= channel_scales(weights, filter.shape[axis])
    out *= rows.scale.reshape(-1, 1, 1, 1)
    if bias is not None:
        out += bias.reshape(-1)
    return apply_fused_activation(out, op.act)
