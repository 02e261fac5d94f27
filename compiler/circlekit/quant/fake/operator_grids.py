# SPDX-License-Identifier: Apache-2.0
"""The grid to which one operator rounds: equally spaced numbers that integers stand for."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from circlekit.ir.dtypes import DType, i8, i16
from circlekit.ir.op import Op
from circlekit.ir.value import Quantization, Value
from circlekit.ops.arithmetic.cast import Dequantize, FakeQuant, Quantize
from circlekit.ops.quantized_values import is_quantized
from circlekit.quant.parameters import LARGEST_SCALE, SMALLEST_SCALE
from circlekit.quant.plan import TensorForm


class Grid(NamedTuple):
    """Equally spaced numbers.

    ``form``: dtype, scale and zero point.  The lowest integer of the dtype stands for the smallest number of
    the grid.  ``last``: the integer that stands for the largest number; larger integers of the dtype, if
    there are any, are not in the grid.
    """

    form: TensorForm
    last: int

    @property
    def highest(self) -> float:
        """The largest number of a grid with one scale: the real number for which ``last`` stands."""
        return self.form.scale[0] * (self.last - self.form.zero_point[0])


def grids_of_user(op: Op) -> list[Grid | None]:
    """Return the grids to which ``op`` rounds its operand; an empty list if it is no rounding operator.

    A FAKE_QUANT rounds, and so does a QUANTIZE whose result a DEQUANTIZE reads.
    None stands for a grid that is invalid or has more than 16 bits.
    """
    if isinstance(op, FakeQuant):
        return [grid_of(op)]
    users = op.output.users if isinstance(op, Quantize) else ()
    return [stored_grid(user.input) for user in users if isinstance(user, Dequantize)]


def stored_grid(value: Value) -> Grid | None:
    """Return the grid of the integers of ``value``, as an int8 or int16 form.

    Return None if the integers have no scale or more than 16 bits.  Also return None if the scales or zero
    points are invalid or do not fit the shape.
    """
    quantization = value.quantization
    if quantization is None or not is_quantized(value) or not 0 < value.dtype.bits <= 16:
        return None
    if not _is_valid(quantization, value):
        return None
    dtype = i8 if value.dtype.bits <= 8 else i16
    smallest, largest = value.dtype.limits
    shift = dtype.limits[0] - smallest  # the smallest integers of both dtypes stand for the same number
    reason = f"the form of %{value.name} in the model"
    scales = tuple(quantization.scale.tolist())
    zero_point = quantization.zero_point if quantization.zero_point.size else np.int64(0)
    zero_points = tuple(np.broadcast_to(zero_point + shift, quantization.scale.shape).tolist())
    axis = quantization.quantized_dimension
    form = TensorForm(dtype, scales, zero_points, axis, reason=reason, rounds=True)
    return Grid(form, largest + shift)


def _is_valid(quantization: Quantization, value: Value) -> bool:
    """Return whether the ``quantization`` of ``value`` has scales and zero points that a form may have."""
    scale, zero_point, axis = quantization.scale, quantization.zero_point, quantization.quantized_dimension
    low, high = value.dtype.limits
    if not ((scale >= SMALLEST_SCALE) & (scale <= LARGEST_SCALE)).all():  # False for NaN
        return False
    if zero_point.size not in (0, 1, scale.size) or ((zero_point < low) | (zero_point > high)).any():
        return False
    shape = value.shape or ()
    return scale.size == 1 or (axis in range(len(shape)) and shape[axis] == scale.size)


def grid_of(op: FakeQuant) -> Grid | None:
    """Return the grid of the FAKE_QUANT ``op`` as an int8 or int16 form.

    Return None if the range or the number of bits is invalid, or if the step is too small or too large.
    Source: ``FakeQuantWithMinMaxVars``, function ``Nudge``, which moves the range so that 0 is in the grid.
    """
    low, high = np.float32(op.min), np.float32(op.max)
    if not (np.isfinite(low) and np.isfinite(high) and low < high and 2 <= op.num_bits <= 16):
        return None
    first, last = int(op.narrow_range), 2**op.num_bits - 1
    with np.errstate(all="ignore"):
        step, zero = op.grid()
    if not SMALLEST_SCALE <= step <= LARGEST_SCALE:
        return None
    dtype: DType = i8 if op.num_bits <= 8 else i16
    shift = dtype.limits[0] - first  # the smallest number of the grid becomes the smallest integer
    reason = f"the range [{low:.4g}, {high:.4g}] of FAKE_QUANT %{op.output.name}"
    form = TensorForm(dtype, (float(step),), (int(zero) + shift,), reason=reason, rounds=True)
    return Grid(form, last + shift)
