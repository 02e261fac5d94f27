# SPDX-License-Identifier: Apache-2.0
"""Find the weights and biases among the operands of an operator, and choose their forms.

The rule in an operator's declaration (``QuantizationRule``) says which operands these are.  A scheme is a way
to quantize an operator: the dtypes of weights, activations and biases.  The form of a tensor is its dtype,
scales and zero points.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import replace
from typing import TypeGuard

import numpy as np

from circlekit.errors import ModelError, UnsupportedError
from circlekit.ir.dtypes import DType, f32, i16, i32, i64
from circlekit.ir.op import Op, OpaqueOp
from circlekit.ir.quantization_rule import OWN_RANGES, Product
from circlekit.ir.value import Array, Value, format_shape
from circlekit.ops.quantized_values import quantization_of
from circlekit.quant.parameters import LARGEST_SCALE, asymmetric, magnitudes, scales_for
from circlekit.quant.plan import TensorForm
from circlekit.quant.scheme import Arithmetic, Scheme

LARGEST_BIAS = {i32: 2**30, i64: 2**45}
"""By dtype of a bias, the largest magnitude of its integers.

LiteRT adds the bias to the sum of the products, in 32 bits for int32 and in 48 bits for int64.  The limit
leaves room for the products.
"""

ZERO_WEIGHT_BIAS = 2**20
"""The integer that stores the bias of a channel whose weights are all 0.

Such weights are stored as 0, whatever their scale.  So the scale is chosen to give the bias this integer.
"""

BYTES_OF_SCALE = 12
"""Number of bytes that the scale and the zero point of one channel take in a file."""

BYTES_OF_DEQUANTIZE = 200
"""About the number of bytes that a DEQUANTIZE and its tensor take in a file."""


def present_operand(op: Op, index: int) -> Value:
    """Return operand ``index`` of ``op``, which must not be an absent optional operand."""
    value = op.inputs[index]
    assert value is not None
    return value


def indices_of(op: Op, names: Collection[str]) -> Iterator[int]:
    """Yield the indices of the present operands with these names; a variadic operand has several indices."""
    for index, value in enumerate(op.inputs):
        spec = op.operand_spec(index)
        if value is not None and spec is not None and spec.name in names:
            yield index


def wide_scheme(scheme: Scheme) -> Scheme:
    """Return a copy of ``scheme`` for tensors that are int16 with one scale and the zero point 0."""
    return replace(scheme, weights=i16, activations=i16, asymmetric=False, per_channel=False)


def operand_scheme(op: Op, index: int, scheme: Scheme) -> Scheme:
    """Return the scheme for operand ``index`` of ``op``; ``scheme``: the scheme of ``op``.

    It is ``scheme``, except for two demands of the operator's rule.  ``wide``: if activations are quantized,
    the operand is int16.  ``one_scale``: weights have one scale, unless a DEQUANTIZE converts them to float.
    """
    rule = op.quantization_rule or OWN_RANGES
    if scheme.activations is not None and index in set(indices_of(op, rule.wide)):
        return wide_scheme(scheme)
    is_dequantized = scheme.arithmetic is Arithmetic.FLOATS
    return replace(scheme, per_channel=False) if rule.one_scale and not is_dequantized else scheme


def biases_of(op: Op) -> set[int]:
    """Return the indices of the present operands of ``op`` that its rule calls ``bias`` or ``biases``."""
    rule = op.quantization_rule or OWN_RANGES
    return set(indices_of(op, [*rule.biases, *([rule.bias] if rule.bias else [])]))


def product_of(op: Op, products: Iterable[Product]) -> Product | None:
    """Return the first of ``products`` for which ``op`` has all factors; None if there is none.

    ``products``: the possible scales of a bias, each a product of scales (``QuantizationRule.biases``).  A
    factor is the name of an operand or of an inner tensor, such as the sums of a gate of an LSTM.
    """
    present = {inner.name for inner in op.inner_tensors()}
    present |= {name for name, _ in op.operand_items()}
    return next((product for product in products if present.issuperset(product.factors)), None)


def form_of_stored(value: Value) -> TensorForm:
    """Return the form of ``value``, which is quantized already; raise ModelError if it has no scale."""
    stored = quantization_of(value)
    scales, zero_points = stored.scale, np.resize(stored.zero_point, stored.scale.size)  # repeats one, or 0
    return TensorForm(
        value.dtype, tuple(scales.tolist()), tuple(zero_points.tolist()), stored.quantized_dimension
    )


def is_float(value: Value | None) -> TypeGuard[Value]:
    """Return whether ``value`` is present and float32."""
    return value is not None and value.dtype is f32


def is_float_constant(value: Value | None) -> TypeGuard[Value]:
    """Return whether ``value`` is a float32 constant, which may be sparse or compressed."""
    return is_float(value) and value.is_const


def is_computed_float(value: Value | None) -> TypeGuard[Value]:
    """Return whether ``value`` is float32 and not a constant."""
    return is_float(value) and not value.is_const


def is_weight(value: Value | None) -> TypeGuard[Value]:
    """Return whether ``value`` is a float32 constant, neither sparse nor compressed."""
    return is_float(value) and value.is_plain


def finite_numbers(value: Value) -> Array:
    """Return the numbers of the constant ``value``; raise ModelError if one is NaN or infinite."""
    numbers = value.array()
    if not np.isfinite(numbers).all():
        raise ModelError(f"the constant %{value.name} has numbers that are NaN or infinite")
    return numbers


def stored_constants(op: Op, scheme: Scheme) -> dict[int, int | None]:
    """Return {index of an operand: channel axis} for the constants that ``scheme`` stores in another dtype.

    ``scheme``: a scheme with float activations.  Every such scheme converts the float32 weights of ``op`` and
    the table in which it looks up rows.  A float16 scheme also converts other float32 constants, if they are
    large enough to save bytes.  The axis None means one scale for the tensor.
    Operators that call graphs, and opaque operators, have no such constants.
    """
    if isinstance(op, OpaqueOp) or op.called_graphs():
        return {}
    rule = op.quantization_rule or OWN_RANGES
    axes: dict[str, int | None] = dict(rule.weights)
    if rule.table is not None:
        axes[rule.table] = 0
    found = {i: axes[op.operands[i].name] for i in indices_of(op, axes) if is_weight(op.inputs[i])}
    if scheme.weights.is_float:
        for index, value in enumerate(op.inputs):
            if is_weight(value) and value.numel > BYTES_OF_DEQUANTIZE // 2:  # float16 saves 2 bytes each
                found.setdefault(index, None)
    return found


def saved_bytes(value: Value, form: TensorForm, scheme: Scheme) -> int:
    """Return about how many bytes a file saves if the float32 constant ``value`` is stored in ``form``.

    The number is negative if the file grows.
    """
    scale_bytes = 2 if form.block else BYTES_OF_SCALE  # the scale of a block is float16, without zero point
    overhead = scale_bytes * len(form.scale)
    overhead += BYTES_OF_DEQUANTIZE if scheme.arithmetic is Arithmetic.FLOATS else 0
    return value.numel * (32 - form.dtype.bits) // 8 - overhead


def weight_form(weights: Value, scheme: Scheme, axis: int | None) -> TensorForm:
    """Return the form of the constant ``weights`` in ``scheme``, which has no blocks.

    ``axis``: the axis of the channels, if the scheme has a scale for each channel; None: the weights get one
    scale.  In a form that is ``narrow``, the lowest integer of the dtype is not used.
    Raise ModelError for NaN and infinite numbers, if the weights lack the axis, if a scale would be too
    large, or if all scales would be too small.
    """
    numbers = finite_numbers(weights)
    if scheme.weights.is_float:
        return TensorForm(scheme.weights, reason="half the bytes of float32")
    if scheme.weights is DType.UINT8:  # the only dtype of weights with a zero point other than 0
        low, high = (float(f(numbers, initial=0)) for f in (np.min, np.max))
        scale, zero_point = asymmetric(low, high, scheme.weights, narrow=True)
        reason = f"covers all weights, {low:.4g} to {high:.4g}"
        return TensorForm(scheme.weights, (scale,), (zero_point,), narrow=True, reason=reason)
    along = axis if scheme.per_channel else None
    if along is not None and along >= numbers.ndim:
        shape = format_shape(weights.shape)
        raise ModelError(f"%{weights.name}: expected channels along axis {along}, got the shape {shape}")
    scales = scales_for(magnitudes(numbers, along), scheme.weights)
    what = "all weights" if along is None else f"the weights of each channel (axis {along})"
    reason = f"covers the largest magnitude of {what}"
    return TensorForm(
        scheme.weights,
        tuple(scales.tolist()),
        (0,) * scales.size,
        0 if along is None else along,
        narrow=True,
        reason=reason,
    )


def block_form(weights: Value, scheme: Scheme) -> TensorForm:
    """Return the form of ``weights`` [units, depth] in which each block of a row has its own scale.

    A block is ``scheme.block`` neighboring weights.  The scales are numbers that float16 (in the file) and
    bfloat16 (in LiteRT's delegate) both hold exactly.
    Raise UnsupportedError if ``weights`` do not have rank 2 with rows of whole blocks; ModelError for NaN and
    infinite numbers, if a scale would be too large, or if all scales would be too small.
    """
    numbers = finite_numbers(weights)
    if numbers.ndim != 2 or numbers.shape[1] % scheme.block:
        expected = f"rank 2 with rows of a multiple of {scheme.block} elements"
        raise UnsupportedError(f"%{weights.name}: expected {expected}, got {format_shape(weights.shape)}")
    blocks = numbers.reshape(-1, scheme.block)
    scales = bfloat16_at_least(scales_for(magnitudes(blocks, 0), scheme.weights))
    reason = f"covers the largest magnitude of each {scheme.block} neighboring weights of a row"
    return TensorForm(
        scheme.weights, tuple(scales.tolist()), (), block=scheme.block, narrow=True, reason=reason
    )


def bfloat16_at_least(scales: Array) -> Array:
    """Round ``scales`` up to numbers that bfloat16 and float16 hold exactly; return them as float32.

    A scale is at least the smallest normal float16, 2^-14.  Scales above the largest number that both dtypes
    hold, 65280, are rounded down to it.
    """
    smallest, largest = np.float32(2.0**-14), np.float32(65280)
    # a bfloat16 is the upper half of a float32; to round up, add 0xFFFF and clear the lower half
    bits = np.clip(scales.astype(np.float32), smallest, largest).view(np.uint32)
    return np.asarray(((bits + 0xFFFF) & 0xFFFF0000).astype(np.uint32).view(np.float32))


def bias_form(bias: Value, data_scale: float, weights: TensorForm, dtype: DType) -> TensorForm:
    """Return the form of ``bias``: its scales are the scale of the data times the scales of the weights.

    ``data_scale``: the scale of the operand that is multiplied with the weights.  ``weights``: the form of
    the weights.  ``dtype``: the dtype of the quantized bias.  The channels are the last axis of ``bias``.
    """
    scales = np.float32(data_scale) * weights.scales  # in float32, as in LiteRT
    reason = "the scale of the data times that of the weights"
    axis = max(len(bias.shape or ()) - 1, 0)
    return TensorForm(dtype, tuple(scales.tolist()), (0,) * scales.size, axis=axis, reason=reason)


def fit_bias(
    weights: TensorForm, bias: Value, data_scale: float, dtype: DType, numbers: Array, smallest: float = 0.0
) -> TensorForm:
    """Return the form ``weights`` with larger scales for the channels whose bias does not fit into ``dtype``.

    The scale of a bias is the scale of the data times that of the weights, so larger scales of weights make
    the integers of the bias smaller.
    ``data_scale``: the scale of the operand that is multiplied with the weights.
    ``numbers``: the weights.  If all weights of a channel are 0 but its bias is not, the channel gets the
    scale with which the integer of the bias is ZERO_WEIGHT_BIAS.  This scale may be smaller than before.
    ``smallest``: the smallest allowed scale of a channel whose bias is not 0.
    Raise ModelError if a bias is NaN or infinite, or if there are N > 1 scales and neither 1 nor N biases.
    Also raise ModelError if a scale would exceed LARGEST_SCALE.
    """
    values = np.abs(finite_numbers(bias).reshape(-1).astype(np.float64))
    if values.size not in (1, len(weights.scale)) and len(weights.scale) != 1:
        expected = f"1 element, or {len(weights.scale)}, one for each channel"
        raise ModelError(f"%{bias.name}: expected {expected}, got {values.size}")
    if len(weights.scale) == 1:  # the one scale must be large enough for the largest bias
        values = values.max(initial=0, keepdims=True)
    scales = weights.scales.astype(np.float64)
    is_per_channel = len(weights.scale) > 1
    is_zero = magnitudes(numbers, weights.axis if is_per_channel else None) == 0
    # for each channel, the smallest scale with which the bias fits; for zero weights, the scale to take
    least = values / (data_scale * np.where(is_zero, ZERO_WEIGHT_BIAS, LARGEST_BIAS[dtype]))
    least = np.maximum(least, np.where(values > 0, smallest, 0))
    fitted = np.where(is_zero & (values > 0), least, np.maximum(scales, least)).astype(np.float32)
    if fitted.max(initial=0) > LARGEST_SCALE:
        raise ModelError(f"%{bias.name}: numbers of up to {values.max():.4g} are too large for a scale")
    raised = np.flatnonzero(fitted > weights.scales)
    if np.array_equal(fitted, weights.scales):
        return weights
    reason = weights.reason
    if raised.size:
        channels = ", ".join(map(str, raised[:4])) + (", ..." if raised.size > 4 else "")
        where = f" in channel {channels}" if is_per_channel else ""
        reason += f"; larger{where}, so that the bias fits into {dtype.short}"
    return replace(weights, scale=tuple(fitted.tolist()), reason=reason)
