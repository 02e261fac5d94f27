# SPDX-License-Identifier: Apache-2.0
"""Per-channel factors and offsets of convolutions and matrix products."""

from __future__ import annotations

import numpy as np

from circlekit.ir.value import Array


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
