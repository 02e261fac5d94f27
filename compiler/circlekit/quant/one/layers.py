# SPDX-License-Identifier: Apache-2.0
"""Quantize weights, biases and constants with a scale per element, by ONE's rules."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from circlekit.errors import ShapeError, UnsupportedError
from circlekit.ir.dtypes import DType, f32
from circlekit.ir.op import Op
from circlekit.ir.value import Array, Quantization, Value
from circlekit.quant.choose import LEAST_MULTIPLIER
from circlekit.quant.one.activations import Task, finite_floats, quantize_constant
from circlekit.quant.one.formulas import (
    BIAS_DTYPES,
    SMALLEST_SCALE,
    Parameters,
    bias_integers,
    element_parameters,
    integer_limits,
    parameters,
    smallest_weight_scale,
    to_integers,
)
from circlekit.quant.one.rules import layer_rule

Made = tuple[Array, DType, Quantization]
"""Data, dtype and quantization of a new constant."""


def quantize_layers(task: Task) -> None:
    """Quantize weights, biases and constants with a scale per element of all operators.

    The inputs of layers are quantized already: the scale of a bias follows from theirs.  Raise ModelError for
    weights that are not finite, UnsupportedError or ShapeError for a layer that cannot be quantized.
    """
    for op in task.quantized_ops():
        setting = task.setting(op)
        for name in task.rule(op).per_element:
            _quantize_elements(task, op, name, setting.dtype, setting.per_channel)
        rule = layer_rule(op)
        if rule is None:
            continue
        smallest = _smallest_scale(task, op)
        for name, axis in rule.weights.items():
            axis_of_scales = axis if setting.per_channel else None
            _quantize_weights(task, op, name, setting.dtype, axis_of_scales, smallest)
        quantize_bias(task, op, setting.dtype)


def index_of(op: Op, name: str) -> int:
    """Return the index of the operand ``name``, which the class of ``op`` declares."""
    return next(spec.index for spec in op.operands if spec.name == name)


def bias_of(op: Op) -> Value | None:
    """Return the bias of a layer; None if it has none, or if ``op`` is no layer."""
    rule = layer_rule(op)
    return None if rule is None or rule.bias is None else _operand(op, rule.bias)


def _operand(op: Op, name: str) -> Value | None:
    """Return the operand ``name``; None if it is absent."""
    index = index_of(op, name)
    return op.inputs[index] if index < len(op.inputs) else None


def _quantize_elements(task: Task, op: Op, name: str, dtype: DType, per_channel: bool) -> None:
    """Quantize a constant operand with a scale per element; with one scale unless ``per_channel``."""
    value = _operand(op, name)
    if value is None or not value.is_const or value.dtype is not f32:
        return
    index, data = index_of(op, name), finite_floats(value)
    # ONE refuses several elements per channel; here all of them share one scale
    if not per_channel or data.ndim == 0 or data.size != data.shape[-1]:
        quantize_constant(task, op, index, dtype)
        return

    def make() -> Made:
        integers, quantization = element_parameters(data, dtype)
        return integers, dtype, quantization

    constant = task.editor.replace_constant(op, index, ("element", dtype), make)
    task.reasons[constant] = "magnitude of each element"


# -- weights -----------------------------------------------------------------------------------


def weight_parameters(
    data: Array, axis: int | None, dtype: DType, smallest_scale: Array | float = 0.0
) -> Parameters:
    """Return the parameters of weights for the range of their elements, in shapes that broadcast with them.

    ``axis``: the axis of the channels; None: one scale for all.  ``smallest_scale``: a lower limit of the
    scales.  Raise ShapeError for weights without elements.
    """
    others = tuple(a for a in range(data.ndim) if a != axis)
    if not data.size:
        raise ShapeError("expected weights with elements, got none")
    low, high = (end(data, axis=others, keepdims=True) for end in (np.min, np.max))
    return parameters(low, high, dtype, smallest_scale)


def weight_integers(data: Array, made: Parameters, dtype: DType) -> Array:
    """Return weights as integers of ``dtype``; elements are first clipped to the range of ``made``."""
    return to_integers(np.clip(data, made.low, made.high), dtype, made.scale, made.low)


def _quantize_weights(
    task: Task, op: Op, name: str, dtype: DType, axis: int | None, smallest: Array | None
) -> None:
    """Quantize constant weights; ``axis``: of the channels, None for one scale.

    ``smallest``: lower limits of the scales, one per channel.
    """
    value = _operand(op, name)
    if value is None or not value.is_const or value.dtype is not f32:
        return
    data = finite_floats(value)
    floor: Array | float = 0.0
    if smallest is not None:
        floor = smallest.max() if axis is None else along_axis(smallest, axis, data.ndim)

    def make() -> Made:
        recorded = _recorded(value, axis, dtype)
        if recorded is not None and np.all(recorded.scale >= np.float32(floor)):
            integers = to_integers(data, dtype, recorded.scale, recorded.low)
            old = value.quantization
            assert old is not None  # the parameters were read from it
            return integers, dtype, replace(old, quantized_dimension=axis or 0)
        made = weight_parameters(data, axis, dtype, floor)
        return weight_integers(data, made, dtype), dtype, made.quantization(axis or 0)

    key = ("weights", dtype, axis, None if smallest is None else smallest.tobytes())
    constant = task.editor.replace_constant(op, index_of(op, name), key, make)
    part = "all weights" if axis is None else "each channel"
    assert constant.quantization is not None  # it is that of ``make``
    is_raised = (constant.quantization.scale <= np.float32(np.ravel(floor))).any()
    raised = "; scales were raised where the bias would overflow" if is_raised else ""
    task.reasons[constant] = f"range of {part}{raised}"


def along_axis(per_channel: Array, axis: int, rank: int) -> Array:
    """Return one number per channel, shaped to broadcast with weights of ``rank``."""
    return per_channel.reshape([-1 if a == axis else 1 for a in range(rank)])


def _recorded(value: Value, axis: int | None, dtype: DType) -> Parameters | None:
    """Return the parameters that --quantize_dequantize_weights stored with the weights ``value``.

    None if there are none, or if they are for another dtype or other channels.
    """
    old = value.quantization
    if old is None or old.min is None or old.max is None:
        return None
    count = 1 if axis is None else value.static_shape[axis]
    if not old.scale.size == old.min.size == old.max.size == old.zero_point.size == count:
        return None
    low, high = integer_limits(dtype)
    steps = (old.max.astype(np.float64) - old.min) / old.scale
    if not np.allclose(steps, high - low, rtol=1e-4):
        return None
    rank = len(value.static_shape)
    shaped = [
        part if axis is None else along_axis(part, axis, rank) for part in (old.scale, old.min, old.max)
    ]
    return Parameters(shaped[0], old.zero_point, shaped[1], shaped[2])


# -- biases ------------------------------------------------------------------------------------


def _bias(op: Op) -> Value | None:
    """Return the float32 bias of a layer; None if it has none, or if it is quantized already."""
    value = bias_of(op)
    return value if value is not None and value.dtype is f32 else None


def _input_scale(op: Op) -> np.float32:
    """Return the scale of the input of a layer; raise UnsupportedError if it has not one scale."""
    rule = layer_rule(op)
    value = None if rule is None else _operand(op, rule.data)
    if value is None or value.quantization is None or value.quantization.scale.size != 1:
        raise UnsupportedError(f"%{op.output.name}: expected an input with one scale")
    scale: np.float32 = value.quantization.scale[0]
    return scale


def _smallest_scale(task: Task, op: Op) -> Array | None:
    """Return the smallest scale of the weights, per channel, with which the bias does not overflow.

    With a bias of 2^30 steps and more, kernels also take the multiplier of the sums for 0 unless the scale is
    large.  None if the bias fits with every scale.  ONE has no such limits: there results are wrong.
    """
    value = _bias(op)
    if value is None:
        return None
    data = finite_floats(value).reshape(-1)
    dtype = task.setting(op).dtype
    input_scale, result = float(_input_scale(op)), op.output.quantization
    needed = smallest_weight_scale(data, input_scale, dtype)
    if result is not None and result.scale.size == 1:
        needed = np.maximum(needed, LEAST_MULTIPLIER * float(result.scale[0]) / input_scale)
    return needed if np.any(needed > SMALLEST_SCALE[dtype]) else None


def quantize_bias(task: Task, op: Op, dtype: DType) -> None:
    """Quantize the float bias of a layer with the scale of its input times that of its weights.

    ``dtype``: that of the layer's setting.  Raise UnsupportedError if input or weights have no scale,
    ShapeError if the bias has not one element per scale.
    """
    value, rule = _bias(op), layer_rule(op)
    if value is None or rule is None or rule.bias is None:
        return
    data, input_scale = finite_floats(value), _input_scale(op)
    weights = _operand(op, next(iter(rule.weights)))
    assert weights is not None  # layers have weights
    if weights.quantization is None or not weights.quantization.scale.size:
        raise UnsupportedError(f"%{op.output.name}: expected weights with a scale")
    scale = input_scale * weights.quantization.scale
    if scale.size > 1 and (data.size != scale.size or data.shape[-1] != scale.size):
        raise ShapeError(
            f"the bias %{value.name} has shape {list(data.shape)}, expected [1, ..., {scale.size}]"
        )

    def make() -> Made:
        axis = max(data.ndim - 1, 0) if task.setting(op).per_channel else 0
        quantization = Quantization(scale, np.zeros(scale.size, np.int64), axis)
        return bias_integers(data, scale, dtype), BIAS_DTYPES[dtype], quantization

    key = ("bias", dtype, scale.tobytes())
    constant = task.editor.replace_constant(op, index_of(op, rule.bias), key, make)
    task.reasons[constant] = f"scale of the input times that of %{weights.name}"
