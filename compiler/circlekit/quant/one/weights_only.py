# SPDX-License-Identifier: Apache-2.0
"""Turn only weights into integers (--quantize_weights) or rounded floats (--quantize_dequantize_weights)."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from circlekit.errors import UnsupportedError
from circlekit.ir.dtypes import DType, f32, i8, i16
from circlekit.ir.graph import Model
from circlekit.ir.location import working_on
from circlekit.ir.op import Op
from circlekit.ir.value import Array, Value
from circlekit.ops.constant_operands import packed
from circlekit.ops.convolution.conv import TransposeConv
from circlekit.quant.one.activations import finite_floats
from circlekit.quant.one.formulas import to_floats
from circlekit.quant.one.graph_editor import GraphEditor
from circlekit.quant.one.layers import Made, index_of, weight_integers, weight_parameters
from circlekit.quant.one.rules import layer_rule, stays_float
from circlekit.quant.one.settings import Settings, settings_of
from circlekit.quant.one.with_minmax import uncalled_graphs
from circlekit.quant.weights import is_float_constant

INT4 = DType.INT4

WEIGHT_DTYPES = {"int4": INT4, "int8": i8, "int16": i16}
"""{ONE's name: dtype} of the dtypes that ``--quantize_weights`` takes."""


def quantize_dequantize_weights(model: Model, settings: Settings) -> None:
    """Round the weights of layers, in place, to the real numbers that quantized weights can have.

    Each weight is quantized to an integer, and the real number that this integer stands for is stored.  The
    weights stay float32; their scales and ranges are stored with them.  All other float values lose their
    quantization, such as recorded ranges.
    Raise ModelError for weights that are not finite, UnsupportedError or ShapeError for weights that cannot
    be quantized, and the errors of ``settings_of``.
    """
    own = settings_of(uncalled_graphs(model), settings)
    for graph in model.graphs:
        for value in graph.values():
            if value.dtype is f32:
                value.quantization = None

    def rounding(op: Op, value: Value, axis: int) -> tuple[object, Callable[[], Made]]:
        """Return (key, make) for the rounded weights; see ``Replacement``."""
        setting = own.get(op, settings.default)
        axis_of_scales = axis if setting.per_channel else None

        def make() -> Made:
            """Return the rounded weights."""
            data, dtype = finite_floats(value), setting.dtype
            parameters = weight_parameters(data, axis_of_scales, dtype)
            integers = weight_integers(data, parameters, dtype)
            rounded = to_floats(integers, dtype, parameters.scale, parameters.low)
            return rounded, f32, parameters.quantization(axis_of_scales or 0, keeps_range=True)

        return (setting.dtype, axis_of_scales), make

    _replace_weights(model, rounding)


def quantize_weights(model: Model, dtype: DType) -> None:
    """Quantize the weights of layers to integers in place, with a scale for each channel.

    All other values stay float.  ``dtype``: one of the values of WEIGHT_DTYPES.  As in ONE, TRANSPOSE_CONV
    keeps float weights: ONE's interpreter has no kernel of it for float inputs with integer weights.
    Raise ModelError for weights that are not finite, UnsupportedError or ShapeError for weights that cannot
    be quantized.
    """

    def conversion(op: Op, value: Value, axis: int) -> tuple[object, Callable[[], Made]] | None:
        """Return (key, make) for the integer weights; see ``Replacement``."""
        if isinstance(op, TransposeConv):
            return None

        def make() -> Made:
            """Return the integer weights."""
            data = finite_floats(value)
            parameters = weight_parameters(data, axis, dtype)
            integers = weight_integers(data, parameters, dtype)
            stored: Array = packed(integers, dtype) if dtype is INT4 else integers  # two int4 in a byte
            return stored, dtype, parameters.quantization(axis)

        return (dtype, axis), make

    _replace_weights(model, conversion)


Replacement = Callable[[Op, Value, int], tuple[object, Callable[[], Made]] | None]
"""A function of (operator, weights, axis of the channels) that says what replaces the weights.

It returns None if the weights shall stay as they are.  Otherwise it returns (key, make), the arguments of
``GraphEditor.replace_constant``: ``make`` returns (data, dtype, quantization) of the new constant.  Layers
that share weights and have the same key share the new constant, too; ``make`` is called once for them.
"""


def _replace_weights(model: Model, replacement: Replacement) -> None:
    """Replace the constant float weights of all layers by what ``replacement`` returns for them."""
    for graph in model.graphs:
        with working_on(graph, model):
            _replace_weights_of_graph(GraphEditor(model, graph), replacement)


def _replace_weights_of_graph(editor: GraphEditor, replacement: Replacement) -> None:
    """Do what ``_replace_weights`` does, for one graph."""
    for op, name, axis in _weights(editor.graph.ops):
        index = index_of(op, name)
        value = op.inputs[index]
        if not is_float_constant(value):
            continue
        key_and_make = replacement(op, value, axis)
        if key_and_make is not None:
            editor.replace_constant(op, index, *key_and_make)
    editor.finish()


def _weights(ops: tuple[Op, ...]) -> Iterator[tuple[Op, str, int]]:
    """Yield (layer, name of the weights operand, axis of the channels) for every layer in ``ops``.

    A layer is an operator whose ``quantization_rule`` names a bias.  Left out are layers that stay float in
    every quantized model (``stays_float``).
    Raise UnsupportedError if the rule of a layer gives no axis for the channels of the weights.
    """
    for op in ops:
        rule = None if stays_float(op) else layer_rule(op)
        weights = {} if rule is None else rule.weights
        for name, axis in weights.items():
            if axis is None:
                message = f"expected an axis of channels for the weights of {op.code}, got none"
                raise UnsupportedError(f"%{op.output.name}: {message}")
            yield op, name, axis
