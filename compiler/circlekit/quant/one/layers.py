# SPDX-License-Identifier: Apache-2.0
"""Quantize weights, biases, and constants that get a scale for each element, by ONE's rules.

A layer is an operator whose ``quantization_rule`` names a bias.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from circlekit.errors import ShapeError, UnsupportedError
from circlekit.ir.dtypes import DType
from circlekit.ir.op import Op
from circlekit.ir.value import Array, Quantization, Value
from circlekit.quant.forms.constant_forms import LEAST_MULTIPLIER
from circlekit.quant.one.activations import Task, finite_floats, quantize_constant, single_scale
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
from circlekit.quant.parameters import along_axis
from circlekit.quant.weights import is_float, is_float_constant

Made = tuple[Array, DType, Quantization]
"""(data, dtype, quantization) of a new constant."""


def quantize_layers(task: Task) -> None:
    """Quantize the weights and biases of all operators, and the constants in ``OneRule.per_element``.

    Activations must be quantized already, because the scale of a bias follows from that of the input.
    Raise ModelError for constants that are not finite, UnsupportedError or ShapeError for a layer that cannot
    be quantized.
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
    """Return the index of the operand that the class of ``op`` declares as ``name``."""
    return next(spec.index for spec in op.operands if spec.name == name)


def bias_of(op: Op) -> Value | None:
    """Return the bias of ``op``; None if it has none, or if ``op`` is not a layer."""
    rule = layer_rule(op)
    return None if rule is None else _operand(op, str(rule.bias))


def _operand(op: Op, name: str) -> Value | None:
    """Return the operand ``name`` of ``op``; None if it is absent."""
    index = index_of(op, name)
    return op.inputs[index] if index < len(op.inputs) else None


def _quantize_elements(task: Task, op: Op, name: str, dtype: DType, per_channel: bool) -> None:
    """Quantize the operand ``name`` if it is a float constant: each element gets its own scale.

    The constant gets a single scale if ``per_channel`` is false, if its rank is 0, or if a channel (an index
    of the last axis) has several elements.
    """
    value = _operand(op, name)
    if not is_float_constant(value):
        return
    index, data = index_of(op, name), finite_floats(value)
    # ONE raises an error for several elements in a channel
    if not per_channel or data.ndim == 0 or data.size != data.shape[-1]:
        quantize_constant(task, op, index, dtype)
        return

    def make() -> Made:
        """Return the quantized constant."""
        integers, quantization = element_parameters(data, dtype)
        return integers, dtype, quantization

    constant = task.editor.replace_constant(op, index, ("element", dtype), make)
    task.reasons[constant] = "magnitude of each element"


# -- weights -----------------------------------------------------------------------------------


def weight_parameters(
    data: Array, axis: int | None, dtype: DType, smallest_scale: Array | float = 0.0
) -> Parameters:
    """Return the parameters for the weights ``data``, chosen to cover the range of the elements.

    The arrays in the result broadcast with ``data``.  ``axis``: the axis of the channels; None: one scale.
    ``smallest_scale``: a lower limit of the scales.  Raise ShapeError for weights without elements.
    """
    others = tuple(a for a in range(data.ndim) if a != axis)
    if not data.size:
        raise ShapeError("expected weights with elements, got none")
    low, high = (end(data, axis=others, keepdims=True) for end in (np.min, np.max))
    return parameters(low, high, dtype, smallest_scale)


def weight_integers(data: Array, chosen: Parameters, dtype: DType) -> Array:
    """Return the weights ``data`` as integers of ``dtype`` with the parameters ``chosen``."""
    return to_integers(np.clip(data, chosen.low, chosen.high), dtype, chosen.scale, chosen.low)


def _quantize_weights(
    task: Task, op: Op, name: str, dtype: DType, axis: int | None, smallest: Array | None
) -> None:
    """Quantize the operand ``name`` of ``op`` if it is a float constant.

    ``axis``: the axis of the channels; None: one scale.  ``smallest``: for each channel a lower limit of the
    scale; None: there is none.
    """
    value = _operand(op, name)
    if not is_float_constant(value):
        return
    data = finite_floats(value)
    floor: Array | float = 0.0  # the lower limit: one number, or one per channel along ``axis`` of ``data``
    if smallest is not None:
        floor = smallest.max() if axis is None else along_axis(smallest, axis, data.ndim)

    def make() -> Made:
        """Return the quantized weights."""
        recorded = _recorded(value, axis, dtype)
        if recorded is not None and np.all(recorded.scale >= np.float32(floor)):
            integers = to_integers(data, dtype, recorded.scale, recorded.low)
            old = value.quantization
            assert old is not None  # ``recorded`` was read from it
            return integers, dtype, replace(old, quantized_dimension=axis or 0)
        chosen = weight_parameters(data, axis, dtype, floor)
        return weight_integers(data, chosen, dtype), dtype, chosen.quantization(axis or 0)

    key = ("weights", dtype, axis, None if smallest is None else smallest.tobytes())
    constant = task.editor.replace_constant(op, index_of(op, name), key, make)
    part = "all weights" if axis is None else "each channel"
    assert constant.quantization is not None  # ``make`` returns it
    is_limited = (constant.quantization.scale <= np.float32(np.ravel(floor))).any()
    addition = "; larger scales where bias or multiplier would not fit" if is_limited else ""
    task.reasons[constant] = f"range of {part}{addition}"


def _recorded(value: Value, axis: int | None, dtype: DType) -> Parameters | None:
    """Return the parameters that ``--quantize_dequantize_weights`` stored with the weights ``value``.

    Return None if there are none, or if they are for another dtype or another number of channels.
    """
    old = value.quantization
    if old is None or old.min is None or old.max is None:
        return None
    count = 1 if axis is None else value.static_shape[axis]
    if not old.scale.size == old.min.size == old.max.size == old.zero_point.size == count:
        return None
    low, high = integer_limits(dtype)
    # the number of steps between min and max shows for which dtype the parameters are
    with np.errstate(divide="ignore", invalid="ignore"):  # a scale of 0
        steps = (old.max.astype(np.float64) - old.min) / old.scale
    if not np.allclose(steps, high - low, rtol=1e-4):
        return None
    rank = len(value.static_shape)
    shaped = [
        part if axis is None else along_axis(part, axis, rank) for part in (old.scale, old.min, old.max)
    ]
    return Parameters(shaped[0], old.zero_point, shaped[1], shaped[2])


# -- biases ------------------------------------------------------------------------------------


def _float_bias(op: Op) -> Value | None:
    """Return the bias of ``op`` if it is float32; None if there is none, or if it is quantized already."""
    value = bias_of(op)
    return value if is_float(value) else None


def _input_scale(op: Op) -> np.float32:
    """Return the scale of the input of the layer ``op``; raise UnsupportedError unless it has exactly one."""
    rule = layer_rule(op)
    form = None if rule is None else single_scale(_operand(op, rule.data))
    if form is None:
        raise UnsupportedError(f"%{op.output.name}: expected an input with exactly one scale")
    scale: np.float32 = form.scale[0]
    return scale


def _smallest_scale(task: Task, op: Op) -> Array | None:
    """Return for each channel the smallest scale of the weights for which the kernel's results are right.

    With a smaller scale, the integer of the bias overflows, or the multiplier of the sums of products is
    below LEAST_MULTIPLIER, and kernels may round it to 0.  The multiplier is input scale * weight scale /
    result scale.  Return None if there is no float bias, or if every scale that ONE uses is large enough.
    ONE does not check this and gets wrong results.
    """
    value = _float_bias(op)
    if value is None:
        return None
    data = finite_floats(value).reshape(-1)
    dtype = task.setting(op).dtype
    input_scale, result = float(_input_scale(op)), single_scale(op.output)
    needed = smallest_weight_scale(data, input_scale, dtype)
    if result is not None:
        needed = np.maximum(needed, LEAST_MULTIPLIER * float(result.scale[0]) / input_scale)
    return needed if np.any(needed > SMALLEST_SCALE[dtype]) else None


def quantize_bias(task: Task, op: Op, dtype: DType) -> None:
    """Quantize the float bias of ``op`` with the scale of the input times the scales of the weights.

    Do nothing if ``op`` has no float bias.  ``dtype``: the dtype of input and weights.
    Raise UnsupportedError if the input does not have exactly one scale, if the weights have none, or if the
    product of these scales is infinite.  Raise ShapeError if there are N > 1 scales, and the shape of the
    bias is not [1, ..., N].  Raise ModelError if an element is not finite.
    """
    value, rule = _float_bias(op), layer_rule(op)
    if value is None or rule is None:
        return
    data, input_scale = finite_floats(value), _input_scale(op)
    weights = _operand(op, next(iter(rule.weights)))
    assert weights is not None  # layers have weights
    if weights.quantization is None or not weights.quantization.scale.size:
        raise UnsupportedError(f"%{op.output.name}: expected weights with a scale")
    with np.errstate(over="ignore"):
        scale = input_scale * weights.quantization.scale
    if not np.isfinite(scale).all():
        raise UnsupportedError(
            f"%{op.output.name}: expected scales of input and weights with a finite product, "
            f"got {input_scale:.3g} and up to {weights.quantization.scale.max():.3g}"
        )
    if scale.size > 1 and (data.size != scale.size or data.shape[-1] != scale.size):
        raise ShapeError(
            f"the bias %{value.name}: expected the shape [1, ..., {scale.size}], got {list(data.shape)}"
        )

    def make() -> Made:
        """Return the quantized bias."""
        axis = max(data.ndim - 1, 0) if task.setting(op).per_channel else 0
        quantization = Quantization(scale, np.zeros(scale.size, np.int64), axis)
        return bias_integers(data, scale, dtype), BIAS_DTYPES[dtype], quantization

    key = ("bias", dtype, scale.tobytes())
    constant = task.editor.replace_constant(op, index_of(op, str(rule.bias)), key, make)
    task.reasons[constant] = f"scale of the input times that of %{weights.name}"
