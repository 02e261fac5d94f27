# SPDX-License-Identifier: Apache-2.0
"""Arithmetic with per-channel constants of convolutions and fully connected layers."""

from __future__ import annotations

import numpy as np

from circlekit.ir.value import Array, format_shape


def per_channel(values: Array, channels: int) -> Array:
    """Broadcast ``values`` of shape [1, ..., channels], or of one element, to shape [channels]."""
    return np.broadcast_to(values.reshape(-1), (channels,))


def fold_bias(bias: Array | None, scale: Array | None, shift: Array) -> Array:
    """``bias * scale + shift`` per channel, rounded once; an absent bias is 0, an absent scale 1."""
    if bias is None:
        return np.ascontiguousarray(shift)
    exact = bias.reshape(-1).astype(np.float64) * (1.0 if scale is None else scale) + shift
    return exact.astype(bias.dtype)


def scaled(bias: Array | None, scale: Array) -> Array | None:
    """``bias * scale``; an absent bias stays absent."""
    return None if bias is None else bias.reshape(-1) * scale


def transposed_constant(values: Array, perm: Array) -> Array:
    """Extend ``values`` with leading dimensions of 1 to the rank of ``perm``, and transpose them by it."""
    whole: Array = values.reshape((1,) * (perm.size - values.ndim) + values.shape)
    return np.transpose(whole, [int(axis) % perm.size for axis in perm])


def not_along_channels(values: Array, perm: Array, name: str) -> str | None:
    """Refuse unless the constant ``name`` varies only along the axis that ``perm`` moves to the end."""
    if values.ndim <= perm.size == 4 and transposed_constant(values, perm).shape[:3] == (1, 1, 1):
        return None
    shape = format_shape(values.shape)
    return f"%{name}: expected one number per channel behind the Transpose, got shape {shape}"
