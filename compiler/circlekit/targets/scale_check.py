# SPDX-License-Identifier: Apache-2.0
"""Find tensors with which LiteRT refuses to load a model, because of their scales or zero points.

Source: ``InterpreterBuilder::ParseQuantization`` in TFLite's interpreter_builder.cc.
"""

from __future__ import annotations

from circlekit.errors import counted
from circlekit.ir.op import Op
from circlekit.ir.value import Value, format_shape

CUSTOM = "CustomQuantization"
"""The schema's name of the table for other kinds of quantization; LiteRT ignores its bytes."""


def scales_misfit(op: Op) -> str | None:
    """Return which scales of an operand or result do not fit its shape or zero points; None if all fit."""
    for value in (*op.inputs, *op.results):
        if value is not None and (fault := _fault(value)) is not None:
            return f"%{value.name} is quantized along {fault}"
    return None


def _fault(value: Value) -> str | None:
    """Return the axis, the numbers of scales and zero points, and the shape; None if they fit.

    There must be one zero point for each scale.  The axis must exist even if there is one scale, which does
    not depend on it.  For a scalar or an unknown rank, which are [] in the file, it must only not be
    negative.  An unknown dimension is 1 in the file.
    A blockwise or multi-axis quantization has its scales in another tensor; LiteRT does not read ``scale``.
    """
    quantization, shape = value.quantization, value.shape or ()
    if quantization is None or not quantization.scale.size:
        return None
    if quantization.details is not None and quantization.details.get("") != CUSTOM:
        return None
    axis = quantization.quantized_dimension
    count, zeros = quantization.scale.size, quantization.zero_point.size
    fits_shape = axis >= 0 and (not shape or (axis < len(shape) and count in (1, shape[axis] or 1)))
    if fits_shape and zeros == count:
        return None
    found = f"{counted(count, 'scale')} and {counted(zeros, 'zero point')}"
    return f"axis {axis} with {found}, its shape is {format_shape(value.shape)}"
