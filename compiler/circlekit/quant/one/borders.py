# SPDX-License-Identifier: Apache-2.0
"""Insert QUANTIZE and DEQUANTIZE where dtypes change.

Dtypes change at float operators, at operators with another dtype than the default, at inputs and at outputs.
A ``Task`` is the quantization of one graph; the functions change this graph.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from circlekit.errors import UnsupportedError
from circlekit.ir.dtypes import DType, f32, u8
from circlekit.ir.op import Op
from circlekit.ir.value import Value
from circlekit.ops.arithmetic.cast import Dequantize, Quantize
from circlekit.ops.movement.join import Concatenation
from circlekit.quant.one.activations import (
    Task,
    converted_parameters,
    is_activation,
    range_parameters,
    recorded_range,
    shared_scale_reason,
    single_scale,
)
from circlekit.quant.one.settings import DTYPES
from circlekit.quant.weights import indices_of, is_computed_float, present_operand


def isolate_float_ops(task: Task, outputs: Sequence[DType]) -> None:
    """Insert conversions around the operators that stay float.

    This must be the first step, while every activation is still float.  ``outputs``: the dtype that each
    output of the graph will have.
    """
    task.floats.update(v for op in task.float_ops for v in op.results if v.dtype is f32)
    for op in task.float_ops:
        for index, value in enumerate(op.inputs):
            if not is_computed_float(value) or value.is_variable:
                continue
            if value not in task.floats:
                # ``value`` is still float; ``quantize_ranges`` makes it integers, as this DEQUANTIZE expects
                dequantized = task.editor.converted(value, f32, None)
                task.floats.add(dequantized)
                op.set_input(index, dequantized)
        for value in op.results:
            if value.dtype is f32:
                _quantize_result(task, op, value, outputs)


def _quantize_result(task: Task, op: Op, value: Value, outputs: Sequence[DType]) -> None:
    """Insert a QUANTIZE after ``value``, a result of the float ``op``, for the quantized users of ``value``.

    ``outputs``: see ``isolate_float_ops``.  A graph output without quantized users stays float if ``outputs``
    says so, or if it has no recorded range.  Raise ModelError if quantized users read ``value`` and it has no
    recorded range.
    """
    users = [(user, i) for user, i in value.uses if user not in task.float_ops]
    is_integer_output = any(
        output is value and dtype is not f32
        for output, dtype in zip(task.graph.outputs, outputs, strict=True)
    )
    if not users and (not is_integer_output or recorded_range(value) is None):
        return
    dtype = task.settings.default.dtype
    converted = task.editor.converted(value, dtype, converted_parameters(value, dtype))
    task.reasons[converted] = f"range of %{value.name}, which {op.code} computes as float"
    for user, i in users:
        user.set_input(i, converted)
    if is_integer_output:
        task.editor.redirect_output(value, converted)


def insert_mixed_precision(task: Task) -> None:
    """Insert conversions before and after the operators whose dtype is not the default dtype."""
    default = task.settings.default.dtype
    for op in task.quantized_ops():
        dtype = task.setting(op).dtype
        if dtype is default:
            continue
        for index, value in enumerate(op.inputs):
            if value is not None and is_activation(task, value):
                parameters = converted_parameters(value, dtype)
                converted = task.editor.converted(value, dtype, parameters, before=op)
                op.set_input(index, converted)
                task.reasons[converted] = f"range of %{value.name}, in the dtype of %{op.output.name}"
        for value in reversed(op.results):  # each QUANTIZE goes directly after ``op``: they end up in order
            if is_activation(task, value):
                converted = task.editor.converted(value, default, converted_parameters(value, default))
                task.editor.redirect(value, converted)
                task.reasons[converted] = f"range of %{value.name}, in the default dtype"


def remove_redundant_conversions(task: Task) -> None:
    """Simplify chains of inserted conversions, and remove the conversions that change nothing.

    - If one QUANTIZE follows another, the second reads the operand of the first instead.
    - If a DEQUANTIZE follows the QUANTIZE of a float value, the users of the DEQUANTIZE read the float value
      instead.
    - If the operand and the result of a QUANTIZE have the same dtype, scale and zero point, the users of the
      QUANTIZE read the operand instead.
    """
    editor = task.editor
    changed = True
    while changed:
        changed = False
        for op in editor.inserted:
            source = present_operand(op, 0)
            earlier = source.producer if source.producer in editor.inserted else None
            if isinstance(op, Dequantize):
                if isinstance(earlier, Quantize) and earlier.input.dtype is f32:
                    editor.redirect(op.output, earlier.input)
            elif isinstance(earlier, Quantize):
                op.set_input(0, earlier.input)
                changed = True
            elif _same_parameters(source, op.output):
                editor.redirect(op.output, source)
    editor.remove_unused()


def requantize_copied_operands(task: Task) -> None:
    """Insert a QUANTIZE for each operand whose integers are copied to a result with another scale.

    Such an operand kept its own scale in ``propagate_backward``, or got another scale later.  ONE inserts no
    QUANTIZE for such an operand, and gets wrong results if the operand has other users.  ONE's kernel for
    uint8 CONCATENATION needs no QUANTIZE, because it requantizes its operands.
    """
    for op in task.quantized_ops():
        names = task.rule(op).backward
        if not names or (isinstance(op, Concatenation) and op.output.dtype is u8):
            continue
        for index in indices_of(op, names):
            value = present_operand(op, index)
            if value.dtype is not op.output.dtype or not is_activation(task, value):
                continue
            if not _same_parameters(value, op.output):
                # the conversion is not shared, because other conversions to this dtype have another scale
                task.editor.conversions.pop((value, value.dtype), None)
                like = op.output.quantization
                converted = task.editor.converted(value, value.dtype, like, before=op)
                task.editor.conversions.pop((value, value.dtype), None)
                op.set_input(index, converted)
                task.reasons[converted] = shared_scale_reason(op)


def _same_parameters(a: Value, b: Value) -> bool:
    """Return whether both values have the same dtype, scale and zero point, and only one scale."""
    p, q = single_scale(a), single_scale(b)
    if a.dtype is not b.dtype or p is None or q is None:
        return False
    return np.array_equal(p.scale, q.scale) and np.array_equal(p.zero_point, q.zero_point)


# -- inputs and outputs ------------------------------------------------------------------------


def port_dtypes(
    ports: Sequence[Value], wanted: Sequence[DType] | None, default: DType, side: str
) -> list[DType]:
    """Return the dtype that each of ``ports``, the inputs or the outputs of a graph, gets.

    ``wanted``: one dtype for all float ports, or one dtype for each port; None: ``default`` for all float
    ports.  Ports that are not float keep their dtype.  ``side``: ``input`` or ``output``, for messages.
    Raise UnsupportedError if the number of dtypes is wrong, or if a port cannot have its dtype.
    """
    given = list(wanted or [default])
    if len(given) not in (1, len(ports)):
        raise UnsupportedError(
            f"Invalid number of {side} dtype: expected 1 or the number of {side}s, {len(ports)}, "
            f"got {len(given)}"
        )
    if len(given) == 1:
        given = [given[0] if port.dtype is f32 else port.dtype for port in ports]
    for port, dtype in zip(ports, given, strict=True):
        if port.dtype is not f32 and dtype is not port.dtype:
            raise UnsupportedError(f"{side} %{port.name} must stay {port.dtype.short}, got {dtype.short}")
        if port.dtype is f32 and dtype not in (f32, *DTYPES.values()):
            raise UnsupportedError(
                f"{side} %{port.name}: expected uint8, int16 or float32, got {dtype.short}"
            )
    return given


def set_input_types(task: Task, dtypes: Sequence[DType]) -> None:
    """Give the graph's inputs their ``dtypes`` (``port_dtypes``).

    If the users of an input read another dtype, an inserted QUANTIZE or DEQUANTIZE converts the input.
    """
    for value, dtype in zip(task.graph.inputs, dtypes, strict=True):
        if value.dtype is dtype:
            continue
        found = recorded_range(value)
        users_dtype, parameters = value.dtype, value.quantization
        if found is not None:
            parameters = range_parameters(*found, users_dtype)
        if value.use_count or task.graph.is_output(value):
            task.editor.conversions.pop((value, users_dtype), None)  # always make a new conversion
            converted = task.editor.converted(value, users_dtype, parameters)
            task.editor.redirect(value, converted)
            task.reasons[converted] = f"recorded range of the input %{value.name}"
        if dtype is not f32 and found is not None:
            value.quantization = range_parameters(*found, dtype)
        value.dtype = dtype


def set_output_types(task: Task, dtypes: Sequence[DType]) -> None:
    """Give the graph's outputs their ``dtypes`` (``port_dtypes``) by an inserted QUANTIZE or DEQUANTIZE.

    Outputs without a scale stay as they are.
    """
    for value, dtype in zip(task.graph.outputs, dtypes, strict=True):
        if value.dtype is dtype or value.quantization is None or not value.quantization.scale.size:
            continue
        parameters = None if dtype is f32 else converted_parameters(value, dtype)
        converted = task.editor.converted(value, dtype, parameters)
        task.editor.redirect_output(value, converted)
        task.reasons[converted] = f"range of %{value.name}, in the dtype of the output"
