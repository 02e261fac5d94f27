# SPDX-License-Identifier: Apache-2.0
"""Output size and padding of sliding windows (convolution, pooling), one axis at a time."""

from __future__ import annotations

from typing import NamedTuple

from circlekit.errors import ShapeError
from circlekit.ir.enums import Padding
from circlekit.ops.dimensions import Dim


class Window(NamedTuple):
    """One axis of a sliding window: output size, and padding in elements before and after the data."""

    size: int
    before: int
    after: int


LARGEST_WINDOW = 1 << 20
"""Largest span and stride along one axis, in elements; larger ones come from damaged files."""


def window_size(size: Dim, taps: Dim, stride: int, dilation: int, padding: Padding) -> Dim:
    """Return the output size of a window of ``taps`` elements over ``size``; None where it is unknown.

    SAME: ceil(size / stride).  VALID: ceil((size - span + 1) / stride), span = (taps - 1) * dilation + 1.
    """
    if not 1 <= stride <= LARGEST_WINDOW or dilation < 1:
        raise ShapeError(
            f"expected stride and dilation from 1 to {LARGEST_WINDOW}, got {stride} and {dilation}"
        )
    if taps is not None and (taps - 1) * dilation >= LARGEST_WINDOW:
        raise ShapeError(
            f"expected a window of at most {LARGEST_WINDOW} elements, got {taps} with dilation {dilation}"
        )
    if size is None:
        return None
    if padding is Padding.SAME:
        return -(-size // stride)
    if taps is None:
        return None
    span = (taps - 1) * dilation + 1
    if span > size:
        raise ShapeError(f"expected a window of at most {size} with VALID padding, got {span}")
    return (size - span) // stride + 1


def conv_padding(size: int, taps: int, stride: int, dilation: int, padding: Padding) -> Window:
    """Return output size and zero padding of one axis; an odd total puts the extra element after the data.

    Source: TFLite kernels/padding.h.
    """
    out = window_size(size, taps, stride, dilation, padding)
    assert out is not None  # all arguments are known
    if padding is Padding.VALID:
        return Window(out, 0, 0)
    total = max((out - 1) * stride + (taps - 1) * dilation + 1 - size, 0)
    return Window(out, total // 2, total - total // 2)
