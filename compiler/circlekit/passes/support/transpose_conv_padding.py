# SPDX-License-Identifier: Apache-2.0
"""The rows that the padding of a TRANSPOSE_CONV omits, and the sizes that belong together."""

from __future__ import annotations

from circlekit.ir.enums import Padding


def leading_pad(padding: Padding, output: int, kernel: int, stride: int) -> int:
    """Return how many rows a TRANSPOSE_CONV omits before the first row of its result.

    The filter may reach more rows than the result has; ``padding`` says how many are omitted at each end.
    Example: for SAME, 4 result rows, a filter of 3 rows and stride 1, the 4 positions of the filter reach 6
    rows, of which one is omitted at each end.
    ``output``: the number of rows of the result.  ``kernel``: the number of rows of the filter.  The same
    holds for columns.  Source: TFLite's ComputePaddingHeightWidth.
    """
    windows = forward_size(padding, output, kernel, stride)
    return max(0, ((windows - 1) * stride + kernel - output) // 2)


def forward_size(padding: Padding, output: int, kernel: int, stride: int) -> int:
    """Return the number of positions of the filter in a CONV_2D with this padding over ``output`` rows.

    A TRANSPOSE_CONV from that many input rows gives ``output`` rows.
    """
    return (output + stride - (kernel if padding is Padding.VALID else 1)) // stride
