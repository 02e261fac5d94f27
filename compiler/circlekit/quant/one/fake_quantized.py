# SPDX-License-Identifier: Apache-2.0
"""Turn a quantized model into a float model with the same rounding.

This is the option ``--fake_quantize`` of ONE's circle-quantizer.
"""

from __future__ import annotations

import numpy as np

from circlekit.ir.dtypes import DType, f32, i8, i16, u8
from circlekit.ir.graph import Model
from circlekit.ir.op import Op
from circlekit.ir.shape_inference import check_shapes
from circlekit.ir.value import Array, Quantization, Value
from circlekit.ops.arithmetic.cast import Dequantize, Quantize, quantization_arrays
from circlekit.ops.constant_operands import constant_elements
from circlekit.ops.quantized_values import is_quantized
from circlekit.quant.one.graph_editor import GraphEditor
from circlekit.quant.one.rules import rule_of
from circlekit.quant.one.with_minmax import touch_ops

ACTIVATION_DTYPES = (u8, i16, i8)
"""The dtypes of quantized activations."""


def fake_quantize(model: Model) -> None:
    """Let the operators of ``model`` compute in float32, in place; activations are rounded as before.

    Each activation is rounded by a QUANTIZE and a DEQUANTIZE that are inserted after it.  After a QUANTIZE
    of ``model`` only a DEQUANTIZE is inserted; after operators that only move elements, neither.  A
    DEQUANTIZE of ``model`` is removed if its operand is float now.  An operand that is a constant becomes the
    floats for which its integers stand; a constant that is an output of the graph stays quantized.

    Names are those of ONE.  A rounded activation is named ``NAME_FQ_Quantize_FQ_Dequantize``, or
    ``NAME_FQ_Dequantize`` after a QUANTIZE of ``model``; a constant is named ``NAME_DQ``.  So an output
    that is rounded, or comes from a removed DEQUANTIZE, gets a new name.  Results of operators that only move
    elements keep their names.  Raise the errors of ``check_shapes``.
    """
    for graph in model.graphs:
        editor = GraphEditor(model, graph)
        ops = graph.ops
        for op in ops:
            for index, value in enumerate(op.inputs):
                if value is not None and value.is_const and is_quantized(value):
                    _dequantize_constant(editor, op, index, value)
        for value in graph.inputs:
            _fake_quantize(editor, value)
        for op in ops:
            _fake_quantize_results(editor, op)
        for op in ops:
            if isinstance(op, Dequantize) and op.input.dtype is f32:
                editor.redirect(op.output, op.input)
                graph.remove(op)
        editor.finish()
        _name_constants(editor)
        touch_ops(graph)
    check_shapes(model)


def _dequantize_constant(editor: GraphEditor, op: Op, index: int, value: Value) -> None:
    """Replace ``value``, the quantized constant operand ``index`` of ``op``, by its floats."""

    def make() -> tuple[Array, DType, Quantization | None]:
        """Return data, dtype and quantization of the new constant."""
        elements = constant_elements(value)
        scale, zero_point = quantization_arrays(value, elements.ndim)
        floats = (elements.astype(np.float64) - zero_point) * scale
        return floats.astype(np.float32), f32, None

    editor.replace_constant(op, index, "floats", make)


def _name_constants(editor: GraphEditor) -> None:
    """Give ONE's names to the constants that the editor made."""
    for old, made in editor.constants.items():
        for value in made.values():
            value.name = editor.graph.unique_name(f"{old.name}_DQ")


def _fake_quantize_results(editor: GraphEditor, op: Op) -> None:
    """Make the quantized results of ``op`` float32; round them by QUANTIZE and DEQUANTIZE where ONE does.

    The result of a QUANTIZE stays quantized; only a DEQUANTIZE is inserted after it.
    ONE does not round the results of operators whose rule has ``keeps_values``: these only move elements.
    """
    if isinstance(op, Quantize):
        if op.output.dtype in ACTIVATION_DTYPES and is_quantized(op.output):
            _insert_dequantize(editor, op.output)
        return
    if isinstance(op, Dequantize):
        return
    for value in op.results:
        if rule_of(op).keeps_values and value.dtype in ACTIVATION_DTYPES and is_quantized(value):
            value.dtype = f32  # as in ONE, scale and zero point stay, without effect on floats
        else:
            _fake_quantize(editor, value)


def _fake_quantize(editor: GraphEditor, value: Value) -> None:
    """If ``value`` is quantized, make it float32 and insert a QUANTIZE and a DEQUANTIZE after it."""
    if value.dtype not in ACTIVATION_DTYPES or not is_quantized(value):
        return
    name = editor.graph.unique_name(f"{value.name}_FQ_Quantize")
    quantized = Value.of_type(value, name)
    op = editor.graph.insert_after(value.producer, Quantize(value, results=[quantized]))
    editor.redirect(value, quantized)
    assert op.output is quantized
    value.dtype, value.quantization = f32, None
    _insert_dequantize(editor, quantized)


def _insert_dequantize(editor: GraphEditor, value: Value) -> None:
    """Insert a DEQUANTIZE after ``value``, and let the users of ``value`` read the floats."""
    name = editor.graph.unique_name(f"{value.name}_FQ_Dequantize")
    floats = Value(name, f32, value.shape)
    editor.graph.insert_after(value.producer, Dequantize(value, results=[floats]))
    editor.redirect(value, floats)
