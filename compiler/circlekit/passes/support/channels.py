# SPDX-License-Identifier: Apache-2.0
"""Per-channel factors and offsets of convolutions and matrix products."""

from __future__ import annotations

import numpy as np

from circlekit.ir.value import Array, format_shape


def per_channel(values: Array, channels: int) -> Array:
    """``values`` of shape [..1, channels], or of one element, as rank 1 of ``channels``."""
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


def behind(values: Array, perm: Array) -> Array:
    """``values``, a constant for a tensor of rank 4, as one for that tensor transposed by ``perm``."""
    whole: Array = values.reshape((1,) * (perm.size - values.ndim) + values.shape)
    return np.transpose(whole, [int(axis) % perm.size for axis in perm])


def not_along_channels(values: Array, perm: Array, name: str) -> str | None:
    """Refuse unless the constant ``name`` varies along the axis alone that ``perm`` makes the last."""
    if values.ndim <= perm.size == 4 and behind(values, perm).shape[:3] == (1, 1, 1):
        return None
    return f"%{name}: has shape {format_shape(values.shape)}, which is not one a channel behind the Transpose"
