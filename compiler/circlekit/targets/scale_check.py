# SPDX-License-Identifier: Apache-2.0
"""Find tensors with which LiteRT refuses to load a model, because their scales do not fit their shape.

Source: ``InterpreterBuilder::ParseQuantization`` in TFLite's interpreter_builder.cc.
"""

from __future__ import annotations

from circlekit.errors import counted
from circlekit.ir.op import Op
from circlekit.ir.value import Value, format_shape

CUSTOM = "CustomQuantization"
"""The schema's name of the table for other kinds of quantization; LiteRT ignores its bytes."""


def scales_misfit(op: Op) -> str | None:
    """Return which scales of an operand or result do not fit its shape; None if all fit."""
    for value in (*op.inputs, *op.results):
        if value is not None and (fault := _fault(value)) is not None:
            return f"%{value.name} is quantized along {fault}"
    return None


def _fault(value: Value) -> str | None:
    """Return the axis, the number of scales and the shape, if they do not fit; None if they do.

    The axis must exist even if there is one scale, which does not depend on it.  For a scalar or an unknown
    rank, which are [] in the file, it must only not be negative.  An unknown dimension is 1 in the file.
    A blockwise or multi-axis quantization has its scales in another tensor, and LiteRT does not read ``scale``.
    """
    quantization, shape = value.quantization, value.shape or ()
    if quantization is None or not quantization.scale.size:
        return None
    if quantization.details is not None and quantization.details.get("") != CUSTOM:
        return None
    axis, count = quantization.quantized_dimension, quantization.scale.size
    if axis >= 0 and (not shape or (axis < len(shape) and count in (1, shape[axis] or 1))):
        return None
    return f"axis {axis} with {counted(count, 'scale')}, its shape is {format_shape(value.shape)}"
