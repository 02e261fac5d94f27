# SPDX-License-Identifier: Apache-2.0
"""Parameters of constant weights, and of the biases that are added to their products."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from circlekit.errors import ModelError
from circlekit.ir.dtypes import DType, i32, i64
from circlekit.ir.value import Array, Value
from circlekit.quant.parameters import asymmetric, magnitudes, scales_for
from circlekit.quant.plan import TensorPlan
from circlekit.quant.scheme import Scheme

LARGEST_BIAS = {i32: 2**30, i64: 2**45}
"""Integers of biases stay below this: room is left for the products, which LiteRT sums in 32 or 48 bits."""

ZERO_WEIGHT_BIAS = 2**20
"""The integer of a bias whose weights are all 0: only the precision of the bias matters there."""


def weight_plan(weights: Value, scheme: Scheme, axis: int | None) -> TensorPlan:
    """Return the plan of constant weights with channels along ``axis`` (None: one scale).

    Raise ModelError for NaN and infinite numbers.
    """
    numbers = weights.array()
    if not np.isfinite(numbers).all():
        raise ModelError(f"the constant %{weights.name} has numbers that are NaN or infinite")
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


def bias_plan(bias: Value, data: TensorPlan, weights: TensorPlan, dtype: DType) -> TensorPlan:
    """Return the plan of a bias: its scale is that of the data times that of the weights."""
    scales = data.scales[0] * weights.scales  # float32, as LiteRT multiplies them
    reason = "the scale of the data times that of the weights"
    return TensorPlan(dtype, tuple(scales.tolist()), (0,) * scales.size, reason=reason)


def fit_bias(weights: TensorPlan, bias: Value, data: TensorPlan, dtype: DType, numbers: Array) -> TensorPlan:
    """Return ``weights``, with larger scales of the channels whose biases would not fit into ``dtype``.

    ``numbers``: the weights; where they are all 0, the scale is chosen for the bias alone.
    Raise ModelError for biases that are NaN or infinite.
    """
    values = np.abs(bias.array().reshape(-1).astype(np.float64))
    if not np.isfinite(values).all():
        raise ModelError(f"the constant %{bias.name} has numbers that are NaN or infinite")
    if values.size not in (1, len(weights.scale)) and len(weights.scale) != 1:
        raise ModelError(f"%{bias.name} has {values.size} elements for {len(weights.scale)} channels")
    if len(weights.scale) == 1:
        values = values.max(initial=0, keepdims=True)
    step = float(data.scale[0])
    scales = weights.scales.astype(np.float64)
    is_per_channel = len(weights.scale) > 1
    is_zero = magnitudes(numbers, weights.axis if is_per_channel else None) == 0
    least = values / (step * np.where(is_zero, ZERO_WEIGHT_BIAS, LARGEST_BIAS[dtype]))
    fitted = np.where(is_zero & (values > 0), least, np.maximum(scales, least)).astype(np.float32)
    raised = np.flatnonzero(fitted > weights.scales)
    if np.array_equal(fitted, weights.scales):
        return weights
    reason = weights.reason
    if raised.size:
        channels = ", ".join(map(str, raised[:4])) + (", ..." if raised.size > 4 else "")
        reason += f"; larger in channel {channels}, so that the bias fits into {dtype.short}"
    return replace(weights, scale=tuple(fitted.tolist()), reason=reason)
