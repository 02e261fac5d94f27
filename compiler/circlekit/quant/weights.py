# SPDX-License-Identifier: Apache-2.0
"""Parameters of constant weights, and of the biases that are added to their products."""

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
from circlekit.ops.quantization import scale_of, zero_point_of
from circlekit.quant.parameters import asymmetric, magnitudes, scales_for
from circlekit.quant.plan import TensorPlan
from circlekit.quant.scheme import Arithmetic, Scheme

LARGEST_BIAS = {i32: 2**30, i64: 2**45}
"""Integers of biases stay below this, which leaves room for products: LiteRT sums in 32 or 48 bits."""

ZERO_WEIGHT_BIAS = 2**20
"""The integer of a bias whose weights are all 0: only the precision of the bias matters there."""

BYTES_OF_SCALE = 12
"""Bytes of the scale and the zero point of a channel in a file."""

BYTES_OF_DEQUANTIZE = 200
"""About how many bytes a DEQUANTIZE and its tensor take in a file."""


def indices_of(op: Op, names: Collection[str]) -> Iterator[int]:
    """Yield the indices of the present operands with these names; a variadic one has several."""
    last = len(op.operands) - 1
    for index, value in enumerate(op.inputs):
        if value is not None and last >= 0 and op.operands[min(index, last)].name in names:
            yield index


def wide_scheme(scheme: Scheme) -> Scheme:
    """Return ``scheme`` for tensors of int16 with one scale and the zero point 0."""
    return replace(scheme, weights=i16, activations=i16, asymmetric=False, per_channel=False)


def operand_scheme(op: Op, index: int, scheme: Scheme) -> Scheme:
    """Return the scheme of operand ``index`` of ``op``, which has ``scheme``; see ``QuantizationRule``."""
    rule = op.quantization_rule or OWN_RANGES
    if scheme.activations is not None and index in set(indices_of(op, rule.wide)):
        return wide_scheme(scheme)
    is_dequantized = scheme.arithmetic is Arithmetic.FLOATS
    return replace(scheme, per_channel=False) if rule.one_scale and not is_dequantized else scheme


def biases_of(op: Op) -> set[int]:
    """Return the indices of the present biases of ``op``."""
    rule = op.quantization_rule or OWN_RANGES
    return set(indices_of(op, [*rule.biases, *([rule.bias] if rule.bias else [])]))


def product_of(op: Op, products: Iterable[Product]) -> Product | None:
    """Return the first product of a bias whose factors ``op`` has; None if there is none."""
    present = {inner.name for inner in op.inner_tensors()}
    present |= {op.operands[i].name for i, value in enumerate(op.inputs) if value is not None}
    return next((product for product in products if present.issuperset(product.factors)), None)


def form_of_stored(value: Value) -> TensorPlan:
    """Return the form of a quantized tensor of the model; raise ModelError if it has no scale."""
    return TensorPlan(value.dtype, (float(scale_of(value)),), (zero_point_of(value),))


def is_weight(value: Value | None) -> TypeGuard[Value]:
    """Return whether ``value`` is a float32 constant, neither sparse nor compressed."""
    return value is not None and value.dtype is f32 and value.is_plain


def finite_numbers(value: Value) -> Array:
    """Return the numbers of a constant; raise ModelError if one is NaN or infinite."""
    numbers = value.array()
    if not np.isfinite(numbers).all():
        raise ModelError(f"the constant %{value.name} has numbers that are NaN or infinite")
    return numbers


def stored_constants(op: Op, scheme: Scheme) -> dict[int, int | None]:
    """Return the constants of ``op`` that a scheme with float activations stores: {index: channel axis}.

    These are weights and tables; for float16 also all other constants that are large enough to save bytes.
    Operators that call graphs, and those without a declaration, have none.
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
            if is_weight(value) and value.numel > BYTES_OF_DEQUANTIZE // 2:
                found.setdefault(index, None)
    return found


def saved_bytes(value: Value, plan: TensorPlan, scheme: Scheme) -> int:
    """Return by how many bytes a file shrinks if the float32 constant ``value`` has the form ``plan``."""
    scale_bytes = 2 if plan.block else BYTES_OF_SCALE
    overhead = scale_bytes * len(plan.scale)
    overhead += BYTES_OF_DEQUANTIZE if scheme.arithmetic is Arithmetic.FLOATS else 0
    return value.numel * (32 - plan.dtype.bits) // 8 - overhead


def weight_plan(weights: Value, scheme: Scheme, axis: int | None) -> TensorPlan:
    """Return the form of constant weights in ``scheme``; ``axis``: of the channels, None for one scale.

    Raise ModelError for NaN and infinite numbers, and if all numbers are too small for a scale.
    """
    numbers = finite_numbers(weights)
    if scheme.weights.is_float:
        return TensorPlan(scheme.weights, reason="half the bytes of float32")
    if scheme.weights is DType.UINT8:
        low, high = (float(f(numbers, initial=0)) for f in (np.min, np.max))
        scale, zero_point = asymmetric(low, high, scheme.weights)
        reason = f"covers all weights, {low:.4g} to {high:.4g}"
        return TensorPlan(scheme.weights, (scale,), (zero_point,), narrow=True, reason=reason)
    along = axis if scheme.per_channel else None
    scales = scales_for(magnitudes(numbers, along), scheme.weights)
    what = "all weights" if along is None else f"the weights of each channel (axis {along})"
    reason = f"covers the largest magnitude of {what}"
    return TensorPlan(
        scheme.weights,
        tuple(scales.tolist()),
        (0,) * scales.size,
        0 if along is None else along,
        narrow=True,
        reason=reason,
    )


def block_plan(weights: Value, scheme: Scheme) -> TensorPlan:
    """Return the form of weights [units, depth] whose rows are divided into blocks with a scale each.

    The scales are stored as float16 and have the precision of bfloat16, as LiteRT's delegate keeps them.
    Raise UnsupportedError if the rows are not whole blocks, ModelError for NaN and infinite numbers.
    """
    numbers = finite_numbers(weights)
    if numbers.ndim != 2 or numbers.shape[1] % scheme.block:
        shape = format_shape(weights.shape)
        raise UnsupportedError(f"%{weights.name}, {shape}, has no rows of whole blocks of {scheme.block}")
    blocks = numbers.reshape(-1, scheme.block)
    scales = bfloat16_at_least(scales_for(magnitudes(blocks, 0), scheme.weights))
    reason = f"covers the largest magnitude of each {scheme.block} neighboring weights of a row"
    return TensorPlan(
        scheme.weights, tuple(scales.tolist()), (), block=scheme.block, narrow=True, reason=reason
    )


def bfloat16_at_least(scales: Array) -> Array:
    """Return the least numbers, not below ``scales``, that both bfloat16 and float16 hold, as float32."""
    smallest = np.float32(2.0**-14)  # of float16, without losing digits
    bits = np.maximum(scales.astype(np.float32), smallest).view(np.uint32)
    return np.asarray(((bits + 0xFFFF) & 0xFFFF0000).astype(np.uint32).view(np.float32))


def bias_plan(bias: Value, data: TensorPlan, weights: TensorPlan, dtype: DType) -> TensorPlan:
    """Return the form of ``bias``: its scale is that of the data times that of the weights.

    The channels are its last axis.  ``data``: with one scale.  ``dtype``: of the bias.
    """
    scales = data.scales[0] * weights.scales  # float32, as LiteRT multiplies them
    reason = "the scale of the data times that of the weights"
    axis = max((bias.rank or 0) - 1, 0)
    return TensorPlan(dtype, tuple(scales.tolist()), (0,) * scales.size, axis=axis, reason=reason)


def fit_bias(
    weights: TensorPlan, bias: Value, data: TensorPlan, dtype: DType, numbers: Array, smallest: float = 0.0
) -> TensorPlan:
    """Return the form ``weights`` with larger scales for the channels whose bias does not fit into ``dtype``.

    ``data``: the form of the other operand.  ``numbers``: the weights; a channel of zeros gets a scale that
    only suits its bias.  ``smallest``: the least scale of channels with a bias.
    Raise ModelError for biases that are NaN or infinite, or of another number than the channels.
    """
    values = np.abs(finite_numbers(bias).reshape(-1).astype(np.float64))
    if values.size not in (1, len(weights.scale)) and len(weights.scale) != 1:
        raise ModelError(f"%{bias.name} has {values.size} elements for {len(weights.scale)} channels")
    if len(weights.scale) == 1:
        values = values.max(initial=0, keepdims=True)
    step = float(data.scale[0])
    scales = weights.scales.astype(np.float64)
    is_per_channel = len(weights.scale) > 1
    is_zero = magnitudes(numbers, weights.axis if is_per_channel else None) == 0
    least = values / (step * np.where(is_zero, ZERO_WEIGHT_BIAS, LARGEST_BIAS[dtype]))
    least = np.maximum(least, np.where(values > 0, smallest, 0))
    fitted = np.where(is_zero & (values > 0), least, np.maximum(scales, least)).astype(np.float32)
    raised = np.flatnonzero(fitted > weights.scales)
    if np.array_equal(fitted, weights.scales):
        return weights
    reason = weights.reason
    if raised.size:
        channels = ", ".join(map(str, raised[:4])) + (", ..." if raised.size > 4 else "")
        reason += f"; larger in channel {channels}, so that the bias fits into {dtype.short}"
    return replace(weights, scale=tuple(fitted.tolist()), reason=reason)
