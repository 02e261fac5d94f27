# SPDX-License-Identifier: Apache-2.0
"""Parameters of layers: multiply them by a number; find where data movement takes the layer's channels."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from circlekit.ir.dtypes import f32
from circlekit.ir.enums import Activation, WeightsFormat
from circlekit.ir.resources.scratch_files import copied_to_file
from circlekit.ir.value import Array, Value
from circlekit.ops.arithmetic.binary import Mul
from circlekit.ops.convolution.conv import Conv2D, DepthwiseConv2D, TransposeConv
from circlekit.ops.matmul.dense import FullyConnected
from circlekit.ops.movement.gather import Gather
from circlekit.ops.reduction.normalization import RmsNorm
from circlekit.passes.support.axis_indices import moved_operand, results_for

Layer = Conv2D | DepthwiseConv2D | TransposeConv | FullyConnected | RmsNorm | Mul
"""The operators whose parameters can be multiplied."""

MAX_CHANNEL_NUMBERS = 1 << 22
"""If the result of a layer has more elements, ``moved_channels`` does not follow its channels."""


def parameters_of(layer: Layer | Gather) -> list[Value]:
    """Return the constants in which the result is linear: weights, perhaps a bias, a factor or a table."""
    if isinstance(layer, Mul):
        return [layer.rhs if layer.rhs.is_const else layer.lhs]
    if isinstance(layer, RmsNorm | Gather):
        return [layer.gamma if isinstance(layer, RmsNorm) else layer.params]
    weights = layer.weights if isinstance(layer, FullyConnected) else layer.filter
    return [weights] if layer.bias is None else [weights, layer.bias]


def layer_refusal(layer: Layer | Gather) -> str | None:
    """Return why the parameters of ``layer`` cannot be changed; None if they can."""
    items = layer.attribute_items()
    act, weights_format = items.get("act"), items.get("weights_format", WeightsFormat.DEFAULT)
    if act not in (None, Activation.NONE):
        return f"%{layer.output.name}: act is {act.name}, expected NONE"
    if weights_format is not WeightsFormat.DEFAULT:
        return f"%{layer.output.name}: weights_format is {weights_format.name}, expected DEFAULT"
    parameters = parameters_of(layer)
    for value in parameters:
        if not (value.is_plain and value.dtype is f32 and value.quantization is None):
            return f"%{value.name}: expected a constant of f32 without quantization"
    # other users would still need the old weights, so the model would hold both
    if parameters[0].use_count > 1:
        return f"%{parameters[0].name}: has other uses"
    return None


def has_channels(layer: Layer) -> bool:
    """Return whether an element or a row of each parameter of ``layer`` belongs to one channel of its result.

    The factor of a Mul and the gamma of an RmsNorm may also be one number for all channels.
    """
    factor = parameters_of(layer)[0]
    return not isinstance(layer, Mul | RmsNorm) or factor.shape == layer.output.known_shape[-1:]


def moved_channels(layer: Layer) -> Iterator[tuple[Value, Array | None]]:
    """Yield (value, numbers) for the result of ``layer``, and for the values that data movement makes of it.

    ``numbers`` has, for each element of the value, the number of its channel in ``layer``.  It is None for
    all values if the result of the layer has an unknown shape or more than MAX_CHANNEL_NUMBERS elements.  It
    is None for the results of a data movement whose kernel refuses its operands, and for all values made of
    them.
    """
    result = layer.output
    numbers: Array | None = None
    if result.shape and result.is_static and result.numel <= MAX_CHANNEL_NUMBERS:
        numbers = np.broadcast_to(np.arange(result.static_shape[-1], dtype=np.int32), result.static_shape)
    todo = [(result, numbers)]
    while todo:
        value, numbers = todo.pop()
        yield value, numbers
        for op in dict.fromkeys(value.users):
            if moved_operand(op) is not value:
                continue
            # let the kernel move the numbers in place of the elements
            moved = None if numbers is None else results_for(op, {value: numbers})
            todo += zip(op.results, [None] * len(op.results) if moved is None else moved, strict=True)


def scaled_constants(layer: Layer, channels: Array | None, factor: float) -> dict[int, Array] | None:
    """Return the new parameters of ``layer``, by operand index; None if they leave the range of f32.

    They leave it if an element is infinite or NaN, or if a factor other than 0 makes all elements of a
    constant subnormal or 0.  ``channels``: the output channels to multiply by ``factor``, None for all; it
    must be None unless ``has_channels``.
    """
    constants: dict[int, Array] = {}
    parameters = parameters_of(layer)
    for index, value in enumerate(layer.inputs):
        if value is None or value not in parameters:
            continue
        array = copied_to_file(value.array())
        is_weights = value is parameters[0] and not isinstance(layer, RmsNorm | Mul)
        is_depthwise = is_weights and isinstance(layer, DepthwiseConv2D)
        # ``rows`` is a view of ``array`` with the output channels first
        rows = array.reshape(-1, array.shape[-1]).T if is_depthwise else array
        if not is_weights:
            rows = array.reshape(-1)
        with np.errstate(all="ignore"):
            rows[slice(None) if channels is None else channels] *= np.float32(factor)
        largest = max(-float(array.min()), float(array.max())) if array.size else 1.0
        # all precision is lost if every element has become 0 or subnormal
        is_lost = factor != 0 and largest < np.finfo(np.float32).tiny and value.array().any()
        if is_lost or not np.isfinite(largest):
            return None
        constants[index] = array
    return constants
