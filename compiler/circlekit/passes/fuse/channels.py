# SPDX-License-Identifier: Apache-2.0
"""Per-channel factors and offsets of convolutions and matrix products."""

from __future__ import annotations

import numpy as np

from circlekit.ir.value import Array


def per_channel(values: Array, channels: int) -> Array:
    """``values`` of shape [..1, channels], or of one element, as rank 1 of ``channels``."""
    return np.broadcast_to(values.reshape(-1), (channels,))


def fold_bias(bias: Array | None, scale: Array, shift: Array) -> Array:
    """``bias * scale + shift`` per channel, rounded once; an absent bias is 0."""
    if bias is None:
        return np.ascontiguousarray(shift)
    exact = bias.astype(np.float64) * scale + shift
    return exact.astype(bias.dtype)
