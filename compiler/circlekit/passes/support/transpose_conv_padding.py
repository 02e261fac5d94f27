# SPDX-License-Identifier: Apache-2.0
"""Compute how many rows a TRANSPOSE_CONV omits, and how many input rows it needs."""

from __future__ import annotations

from circlekit.ir.enums import Padding


def leading_pad(padding: Padding, output: int, kernel: int, stride: int) -> int:
    """Return how many rows a TRANSPOSE_CONV omits before the first row of its result.

    The filter may reach more rows than the result has; ``padding`` says how many are omitted at each end.
    Example: the padding is SAME, the result has 4 rows, the filter has 3, and the stride is 1.  Then the
    filter has 4 positions, which reach 6 rows, and one row is omitted at each end.
    ``output``: the number of rows of the result.  ``kernel``: the number of rows of the filter.  The same
    holds for columns.  Source: TFLite's ComputePaddingHeightWidth.
    """
    windows = forward_size(padding, output, kernel, stride)
    return max(0, ((windows - 1) * stride + kernel - output) // 2)


def forward_size(padding: Padding, output: int, kernel: int, stride: int) -> int:
    """Return how many input rows a TRANSPOSE_CONV needs for ``output`` result rows.

    It is the number of positions of the filter in a CONV_2D with this padding over ``output`` rows.
    ``kernel``: see ``leading_pad``.
    """
    return (output + stride - (kernel if padding is Padding.VALID else 1)) // stride
