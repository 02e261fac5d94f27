# SPDX-License-Identifier: Apache-2.0
"""The output stage of a quantized layer: converts exact sums of products to the integers of the result.

The term is from gemmlowp.  LiteRT has four ways to compute it, which round differently (see ``Arithmetic``).
Its optimized kernels round some results in another way than its reference kernels (see ``Kernels``).
Source: TFLite kernels/internal/common.h (MultiplyByQuantizedMultiplier) and the reference kernels.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from circlekit.ir.value import Array
from circlekit.ops.numerics.fixed_point import (
    Ints,
    QuantizedMultiplier,
    multiply_by_quantized_multiplier,
    multiply_by_quantized_multiplier_half_up,
    multiply_by_quantized_multiplier_int64,
    quantize_multiplier,
    round_half_away,
    wrap_int32,
)


class Kernels(Enum):
    """A set of LiteRT's kernels: reference (``BUILTIN_REF``), or optimized for x86 without delegates.

    The optimized kernels differ from the reference kernels as follows.  "In groups of n" means that only
    whole groups of n channels or numbers differ.  The channels or numbers left at the end are computed as by
    the reference kernels, unless the line says otherwise.

    On 8-bit data:

    - CONV_2D with one group, TRANSPOSE_CONV of uint8: a half is rounded up, not away from zero.
    - TRANSPOSE_CONV and DEPTHWISE_CONV_2D of int8: a half is rounded up, in groups of 8 channels.
    - FULLY_CONNECTED: a half is rounded up, and fixed point takes the place of float64.
    - MEAN over height and width with ``keep_dims``: a half is rounded up, in groups of 16 channels; the zero
      point of the input is rescaled and rounded separately.
    - ADD: in groups of 8 or 16 numbers, a rescaled operand is rounded once, not twice (``optimized_add``).
    - SUM of uint8: rescaled in float32, not in fixed point.
    - SOFTMAX and LOG_SOFTMAX: computed in float32, not in fixed point.
    - RESIZE_BILINEAR of uint8: the weights along height and width are multiplied first, and the four terms
      are added row by row.
    - REDUCE_PROD over axes of size 1: integers are copied, even if the scales differ.
    - QUANTIZE from 8 bits to 8 bits: a half is rounded up, in groups of 16 numbers.
    - QUANTIZE from float32 with one scale, also to int16: in groups of 8 numbers, x is multiplied by
      1 / scale, and a half is rounded to even; the rest is divided by the scale in float64, and a half is
      rounded away from zero.
    - DEQUANTIZE with one scale: in groups of 8 numbers, the result is scale * x - scale * zero_point, each
      product rounded.

    On float data and 8-bit weights (hybrid layers), the integer sum is multiplied by the scale w of the
    weights and the scale x of the data.  In two operators the order differs, and so may the last bit:

    - CONV_2D with one group and different scales per channel: sum * (w * x), not (sum * w) * x.
    - DEPTHWISE_CONV_2D: (sum * w) * x in groups of 4 channels and (sum * x) * w in the rest, not
      sum * (w * x).

    A FULLY_CONNECTED with int4 weights quantizes float data without zero points, if its depth is even and at
    least 32, and there are 4 or more units.

    On int16 data:

    - CONV_2D and TRANSPOSE_CONV with int32 sums: as on int8 data.
    - REDUCE_PROD: as on 8-bit data.
    - FULLY_CONNECTED: as on 8-bit data, except in the cases that ``dense_output_stage`` lists.
    - ADD without broadcasting, unless it only shifts the operands: as on int8 data.
    - LOGISTIC with the input scale 2^-12, TANH with 2^-12 or 2^-11: computed in fixed point, without a table.

    The last results (up to 15) of a uint8 TRANSPOSE_CONV are computed as by the reference kernels.  This
    difference, of 1 at most, is not reproduced.
    """

    REFERENCE = "reference"
    OPTIMIZED = "optimized"


_KERNELS: ContextVar[Kernels] = ContextVar("kernels", default=Kernels.REFERENCE)


@contextmanager
def following(kernels: Kernels) -> Iterator[None]:
    """Return a context in which operators give the results of ``kernels``, one of LiteRT's two sets."""
    token = _KERNELS.set(kernels)
    try:
        yield
    finally:
        _KERNELS.reset(token)


def follows_optimized_kernels() -> bool:
    """Return whether operators now give the results of LiteRT's optimized kernels."""
    return _KERNELS.get() is Kernels.OPTIMIZED


def in_full_group(channels: int, size: int = 8) -> NDArray[np.bool_]:
    """Return bool[channels]: whether each channel is in a whole group of ``size``, counted from the first."""
    return np.arange(channels) < channels // size * size


INT32_END = 2.0**31  # the largest int32 + 1


class Arithmetic(Enum):
    """The ways to multiply (sum + bias) by the scale.

    FIXED_POINT: int32 sums and a 31-bit mantissa; rounded after the product and after the shift.
    WIDE_FIXED_POINT: int64 sums and a 15-bit mantissa; rounded once (most kernels of int16 data).
    DOUBLE: int32 sums and float64; rounded, a half away from zero (the reference kernel of FULLY_CONNECTED).
    WIDE_DOUBLE: as DOUBLE, but with int64 sums.
    """

    FIXED_POINT = "fixed point"
    WIDE_FIXED_POINT = "wide fixed point"
    DOUBLE = "double"
    WIDE_DOUBLE = "wide double"


@dataclass(eq=False)
class OutputStage:
    """Computes clip((sums + bias) * scale + zero_point, limits) as ``dtype``; channels are the last axis.

    ``bias``: integers [C] in units of the sums.  ``scale``: the scale of the sums divided by that of the
    result, as float64, a scalar or [C].  ``limits``: the lowest and the highest result.  ``rounds_up``: bool
    or bool[C].  If true, FIXED_POINT rounds a half up after its shift, as LiteRT's optimized kernels do; else
    it rounds a half away from zero.
    """

    bias: Ints | None
    scale: Array
    zero_point: int
    limits: tuple[int, int]
    dtype: np.dtype[Any]
    arithmetic: Arithmetic
    rounds_up: bool | NDArray[np.bool_] = False

    @cached_property
    def multiplier(self) -> QuantizedMultiplier:
        """The scale as a fixed-point number."""
        return quantize_multiplier(self.scale)

    def __call__(self, sums: Array) -> Array:
        """Return the results [..., C] for ``sums`` [..., C], whole numbers of a float or integer dtype."""
        wide = sums.astype(np.int64)
        if self.bias is not None:
            wide += self.bias
        if self.arithmetic in (Arithmetic.FIXED_POINT, Arithmetic.DOUBLE):
            wide = wrap_int32(wide)  # int32 sums overflow silently
        return np.asarray(np.clip(self._scaled(wide) + self.zero_point, *self.limits), self.dtype)

    def _scaled(self, sums: Ints) -> Array:
        if self.arithmetic in (Arithmetic.DOUBLE, Arithmetic.WIDE_DOUBLE):
            # on x86 a number outside of int32 becomes -2^31, so the result is the lower limit; but -2^31 plus
            # a negative zero point wraps around to a large positive number, so the result is the upper limit
            rounded = round_half_away(sums * self.scale)
            overflow = INT32_END if self.zero_point < 0 else -INT32_END
            return np.where(np.abs(rounded) >= INT32_END, overflow, rounded)
        if self.arithmetic is Arithmetic.WIDE_FIXED_POINT:
            return multiply_by_quantized_multiplier_int64(sums, self.multiplier)
        scaled = multiply_by_quantized_multiplier(sums, self.multiplier)
        if np.any(self.rounds_up):
            half_up = multiply_by_quantized_multiplier_half_up(sums, self.multiplier)
            scaled = np.where(self.rounds_up, half_up, scaled)
        return scaled
