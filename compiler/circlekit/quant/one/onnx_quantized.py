# SPDX-License-Identifier: Apache-2.0
"""Quantize a model in which ONNX's QuantizeLinear and DequantizeLinear are custom operators.

    x -> ONNXQuantizeLinear(scale, zero) -> ONNXDequantizeLinear(scale, zero)   becomes  x, quantized
    integers -> ONNXDequantizeLinear(scale, zero)                               becomes  a quantized constant

Operators that stay float (``rules.stays_float``), such as other custom operators, keep their float operands
and results.  A QUANTIZE or DEQUANTIZE is inserted where another operator has integers.  Other tensors without
the ONNX operators are treated as follows:

- A constant gets parameters that cover its elements.
- A bias gets the scale of its layer's input times that of the weights.
- Weights of a layer, and operands in ``OneRule.per_element`` (such as PRELU's alpha), stay float.  If their
  operator reads quantized data, this is an error.
- A result gets the parameters of an operand of its producer if ``_follow_operands`` says so; otherwise it
  stays float.

Two of ONE's rules replace parameters that come from the ONNX operators.  An operand of a CONCATENATION, for
example, may get the parameters of the result (``propagate_backward``).  The result of a product may get the
dtype of its operand (``_convert_result``).
Source: the behavior of luci's QuantizeOnnxFakeQuantModel and the passes that it runs.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from circlekit.errors import ModelError, UnsupportedError
from circlekit.ir.dtypes import DType, f32, i8, i16, u8
from circlekit.ir.graph import Graph, Model
from circlekit.ir.location import working_on
from circlekit.ir.op import Op, OpaqueOp
from circlekit.ir.shape_inference import check_shapes
from circlekit.ir.value import Array, Quantization, Value
from circlekit.ops.arithmetic.binary import Mul
from circlekit.ops.arithmetic.unary import Neg
from circlekit.ops.constant_operands import packed
from circlekit.ops.matmul.dense import BatchMatMul, FullyConnected
from circlekit.ops.movement.join import Concatenation
from circlekit.ops.movement.shape import Squeeze
from circlekit.ops.program.flexbuffer import options_of
from circlekit.quant.one.activations import (
    Task,
    propagate_backward,
    quantize_constants,
    range_parameters,
    set_fixed_and_integer_scales,
    single_scale,
)
from circlekit.quant.one.formulas import BIAS_DTYPES, integer_limits
from circlekit.quant.one.graph_editor import GraphEditor
from circlekit.quant.one.layers import quantize_bias
from circlekit.quant.one.rules import layer_rule, rule_of, stays_float
from circlekit.quant.one.settings import CHANNEL, LayerSetting, Settings
from circlekit.quant.one.with_minmax import remove_ranges, touch_ops
from circlekit.quant.weights import indices_of, is_float, present_operand

QUANTIZE, DEQUANTIZE = "ONNXQuantizeLinear", "ONNXDequantizeLinear"
"""The names of the two custom operators."""

INT4, UINT4 = DType.INT4, DType.UINT4
DEFAULT = LayerSetting(i16, CHANNEL)
"""The dtype and granularity of constants without a DequantizeLinear, as in ONE."""


def quantize_onnx_model(model: Model) -> None:
    """Quantize ``model`` in place with the parameters of the ONNX operators, and remove these operators.

    The docstring of this module says which tensors may get other parameters.
    Raise UnsupportedError for ONNX operators in another place than the module's docstring shows, or with
    scales, zero points or dtypes that are not supported.
    Raise ModelError if the model has no such operators, or if the two operators of a pair have different
    parameters.  Also raise ModelError if an operator would read floats and integers that do not fit each
    other, because one of its operands stays float.  Raise the errors of ``quantize_constants`` and
    ``quantize_bias``.
    """
    if not any(_is_custom(op, name) for op in model.ops() for name in (QUANTIZE, DEQUANTIZE)):
        raise ModelError(
            f"expected a model with the custom operators {QUANTIZE} and {DEQUANTIZE}, found none; a float "
            "model is quantized by record-minmax and --quantize_with_minmax"
        )
    for graph in model.graphs:
        with working_on(graph, model):
            _quantize_graph(GraphEditor(model, graph))
    try:
        check_shapes(model)
    except ModelError as error:
        note = f"tensors without {QUANTIZE} and {DEQUANTIZE} stay float; constants become int16"
        raise error.note(note) from None


def _quantize_graph(editor: GraphEditor) -> None:
    """Quantize one graph; raise the errors of ``quantize_onnx_model``, but not those of ``check_shapes``."""
    float_operands, float_results = _float_tensors(editor.graph)
    _read_activations(editor)
    _read_constants(editor)
    if lone := next((op for op in editor.graph if _is_custom(op, QUANTIZE)), None):
        expected = f"expected that only {DEQUANTIZE} reads it, and that it is not an output"
        raise UnsupportedError(f"%{lone.output.name}: {expected}")
    editor.finish()
    _quantize_rest(editor)
    _keep_float(editor, float_operands, float_results)
    editor.finish()
    touch_ops(editor.graph)
    remove_ranges(editor.graph)


def _is_custom(op: Op | None, name: str) -> bool:
    """Return whether ``op`` is the custom operator ``name``."""
    return isinstance(op, OpaqueOp) and op.custom_code == name


# -- operators that stay float -----------------------------------------------------------------


def _float_tensors(graph: Graph) -> tuple[list[tuple[Op, int]], list[Value]]:
    """Return the float32 operands, as (operator, index), and results of the operators that stay float.

    Operators that call graphs are left out: their operands must be like the inputs of these graphs.
    """
    ops = [
        op
        for op in graph
        if stays_float(op)
        and not op.called_graphs()
        and not any(_is_custom(op, name) for name in (QUANTIZE, DEQUANTIZE))
    ]
    operands = [(op, index) for op in ops for index, value in enumerate(op.inputs) if is_float(value)]
    return operands, [value for op in ops for value in op.results if value.dtype is f32]


def _keep_float(editor: GraphEditor, operands: Iterable[tuple[Op, int]], results: Iterable[Value]) -> None:
    """Make these tensors, which ``_float_tensors`` returned, float again: insert conversions."""
    for value in results:
        if value.dtype is not f32:
            editor.redirect(value, editor.converted(value, value.dtype, value.quantization))
            value.dtype, value.quantization = f32, None
    for op, index in operands:
        value = present_operand(op, index)
        if value.dtype is not f32:
            op.set_input(index, editor.converted(value, f32, None))


# -- the ONNX operators ------------------------------------------------------------------------


def _parameters(op: Op) -> tuple[Array, Array, DType]:
    """Return (scales as float32, zero points as int64, dtype of the zero points) of an ONNX operator.

    Raise UnsupportedError unless there are as many scales as zero points, at least one, all of them plain
    constants, and the scales are float32.
    """
    if len(op.inputs) < 3 or any(v is None or not v.is_plain for v in op.inputs[1:3]):
        raise UnsupportedError(f"%{op.output.name}: expected constant scale and zero point")
    scale, zero_point = present_operand(op, 1), present_operand(op, 2)
    if scale.dtype is not f32 or not 0 < scale.array().size == zero_point.array().size:
        expected = "expected as many float32 scales as zero points, at least one"
        raise UnsupportedError(f"%{op.output.name}: {expected}")
    return scale.array().reshape(-1), zero_point.array().reshape(-1).astype(np.int64), zero_point.dtype


def _read_activations(editor: GraphEditor) -> None:
    """Quantize the operand of each pair of QuantizeLinear and DequantizeLinear, and remove the pair."""
    for op in editor.graph.ops:
        quantize = op.inputs[0].producer if _is_custom(op, DEQUANTIZE) and op.inputs[0] is not None else None
        if quantize is None or not _is_custom(quantize, QUANTIZE):
            continue
        value = quantize.inputs[0]
        scale, zero_point, dtype = _parameters(op)
        other_scale, other_zero_point, other_dtype = _parameters(quantize)
        if dtype not in (i16, u8, i8) or scale.size != 1:
            expected = "expected one scale, and a zero point of int16, uint8 or int8"
            raise UnsupportedError(f"%{op.output.name}: {expected}, got {scale.size} and {dtype.short}")
        same_numbers = np.array_equal(other_scale, scale) and np.array_equal(other_zero_point, zero_point)
        if not same_numbers or other_dtype is not dtype:
            raise ModelError(
                f"%{op.output.name}: expected the scale, zero point and dtype of %{quantize.output.name}"
            )
        if value is None or value.is_const:
            raise UnsupportedError(f"%{quantize.output.name}: expected a computed value as operand")
        quantization = Quantization(scale, zero_point)
        # another pair of operators may have quantized ``value`` already
        if value.dtype is not f32 and (value.dtype, value.quantization) != (dtype, quantization):
            raise UnsupportedError(f"%{value.name} has two different scales, zero points or dtypes")
        value.dtype, value.quantization = dtype, quantization
        editor.redirect(op.output, value)
        editor.graph.remove(op)
        if not quantize.output.use_count and not editor.graph.is_output(quantize.output):
            editor.graph.remove(quantize)


def _read_constants(editor: GraphEditor) -> None:
    """Quantize the constant operand of each remaining DequantizeLinear, and remove that operator."""
    graph = editor.graph
    for op in graph.ops:
        if not _is_custom(op, DEQUANTIZE):
            continue
        value = op.inputs[0]
        if value is None or not value.is_plain:
            raise UnsupportedError(f"%{op.output.name}: expected a constant or {QUANTIZE} as operand")
        scale, zero_point, dtype = _parameters(op)
        if not dtype.is_integer or dtype is not value.dtype:
            expected = f"expected integers with the dtype of the zero point, {dtype.short}"
            raise UnsupportedError(f"%{value.name}: {expected}, got {value.dtype.short}")
        constant = _constant(value, scale, zero_point, _axis_of_scales(op, value) if scale.size > 1 else 0)
        if value.use_count == 1 and not graph.is_output(value):
            graph.table = [constant if v is value else v for v in graph.table]
        else:  # ``value`` stays in the graph, with its name
            constant.name = graph.unique_name(value.name)
        editor.redirect(op.output, constant)
        graph.remove(op)


def _axis_of_scales(op: Op, value: Value) -> int:
    """Return the quantized dimension of ``value``, from 0 on.

    ONNX's attribute ``axis`` may be negative: then it counts from the end.
    Raise UnsupportedError if ``value`` has no such axis.
    """
    axis, rank = int(options_of(op).get("axis", 0)), len(value.static_shape)
    if not -rank <= axis < rank:
        raise UnsupportedError(f"%{value.name}: expected an axis from {-rank} to {rank - 1}, got {axis}")
    return axis % rank


def _constant(value: Value, scale: Array, zero_point: Array, axis: int) -> Value:
    """Return a constant with the integers of ``value`` and these parameters.

    ``axis``: the axis of the channels.  If all uint8 integers and zero points are at most 15, the constant
    gets 4 bits: int4 if all zero points are 8, otherwise uint4.  For int4, 8 is subtracted from the integers
    and zero points.  (ONE subtracts 8 only from the integers, which is wrong.)
    Raise UnsupportedError if the number of scales does not fit the axis.
    """
    data, dtype = value.array(), value.dtype
    if dtype is u8 and data.size and data.max() <= 15 and zero_point.max() <= 15:
        if np.all(zero_point == 8):
            data, dtype, zero_point = packed(data.astype(np.int16) - 8, INT4), INT4, zero_point - 8
        else:
            data, dtype = packed(data, UINT4), UINT4
    quantization = Quantization(scale, zero_point, axis)
    if (why := quantization.misfit(value.shape)) is not None:
        raise UnsupportedError(f"%{value.name}: {why}")
    return Value(value.name, dtype, value.shape, data, quantization)


# -- other tensors -----------------------------------------------------------------------------


def _quantize_rest(editor: GraphEditor) -> None:
    """Quantize the constants, results and biases for which there are no ONNX operators."""
    floats = {op: "ONE leaves it float" for op in editor.graph if stays_float(op)}
    task = Task(editor.graph, Settings(DEFAULT), {}, editor, floats)
    quantize_constants(task)
    for op in editor.graph.ops:
        _follow_operands(op)
    propagate_backward(task)
    set_fixed_and_integer_scales(task)
    for op in task.quantized_ops():
        _convert_result(editor, op)
        _check_weights(op)
        layer = layer_rule(op)
        if layer is None:
            continue
        dtype = getattr(op, layer.data).dtype
        if dtype in BIAS_DTYPES:
            quantize_bias(task, op, dtype)


def _check_weights(op: Op) -> None:
    """Raise ModelError if ``op`` has quantized data and float weights.

    As weights count the weights of layers and the operands in ``OneRule.per_element``.
    """
    layer = layer_rule(op)
    names = [*rule_of(op).per_element, *([] if layer is None else layer.weights)]
    data = None if not names else op.inputs[0] if layer is None else getattr(op, layer.data)
    if data is None or data.dtype is f32:
        return
    for index in indices_of(op, names):
        value = present_operand(op, index)
        if value.dtype is f32:
            expected = f"expected integers with {DEQUANTIZE} beside the {data.dtype.short} %{data.name}"
            raise ModelError(f"%{value.name}: {expected}, got f32")


def _follow_operands(op: Op) -> None:
    """Give the float results of some operators the dtype and parameters of an operand.

    The operators are CONCATENATION, SQUEEZE, NEG, and those whose rule names an operand in ``forward``
    (RESHAPE, TRANSPOSE, GATHER, SPLIT and others).
    A CONCATENATION takes the operand with the largest scale.  The operands of a CONCATENATION or a NEG must
    be int16; otherwise the result stays float.
    """
    if stays_float(op) or not op.results or op.output.dtype is not f32:
        return
    source: Value | None = None
    if isinstance(op, Concatenation):
        source = _widest(op)
    elif isinstance(op, Squeeze | Neg) or rule_of(op).forward is not None:
        name = rule_of(op).forward or "input"
        source = getattr(op, name)
        if isinstance(op, Neg) and source is not None and source.dtype is not i16:
            source = None  # -x does not fit unless the range is symmetric
    form = single_scale(source)
    if form is None:
        return
    for value in op.results:
        if value.dtype is f32 and source is not None:
            value.dtype, value.quantization = source.dtype, form


def _widest(op: Concatenation) -> Value | None:
    """Return the operand with the largest scale; None unless all operands are int16 with one scale."""
    scales = []
    for value in op.values:
        form = single_scale(value)
        if value.dtype is not i16 or form is None:
            return None
        scales.append(float(form.scale[0]))
    return op.values[int(np.argmax(scales))] if scales else None


def _convert_result(editor: GraphEditor, op: Op) -> None:
    """Insert a QUANTIZE after a product of int16 with a uint8 result, or of uint8 with an int16 result.

    A product is a MUL, BATCH_MATMUL or FULLY_CONNECTED; only the dtype of its first operand is examined.  The
    result gets this dtype and keeps its range.  The QUANTIZE converts the result to its former dtype.
    """
    if not isinstance(op, Mul | BatchMatMul | FullyConnected):
        return
    operand, result, old = present_operand(op, 0), op.output, op.output.quantization
    if old is None or {operand.dtype, result.dtype} != {u8, i16}:
        return
    low, high = (
        (np.float32(old.scale[0] * (end - old.zero_point[0]))) for end in integer_limits(result.dtype)
    )
    editor.redirect(result, editor.converted(result, result.dtype, old))
    result.dtype, result.quantization = operand.dtype, range_parameters(low, high, operand.dtype)
