# SPDX-License-Identifier: Apache-2.0
"""Give TRANSPOSE_CONV an output size that LiteRT accepts."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from circlekit.ir.enums import Padding
from circlekit.ir.value import LARGEST_DIMENSION, Array
from circlekit.passes.engine.legalize import LITERT, Lowering
from circlekit.passes.support.transpose_conv_padding import forward_size, leading_pad
from circlekit.rewrite.match import Match
from circlekit.rewrite.rewrite import condition


class FitTransposeConv(Lowering):
    """tconv(x) of a smaller output size  ==  slice(tconv(x) of the full output size, with VALID padding).

    From n input rows, the full output has ``(n - 1) * stride + kernel`` rows.  TRANSPOSE_CONV leaves out the
    first ``leading_pad`` rows of these.  The rows after them must be enough for the smaller output.  For
    example, 3 rows, stride 2 and a filter of 3 rows give a full output of 7 rows.  With SAME padding, LiteRT
    accepts an output of 5 or 6 rows only; for 4 rows, a slice is needed.
    The letters: KH, KW and H, W are the rows and columns of the filter and of the input.
    """

    # LiteRT accepts an output size only if a convolution over the output gives as many rows as the input has
    targets = LITERT
    quantized = True  # the filter may be quantized; x must be f32

    before = """
        z = TransposeConv(shape: const[4], w: [_, KH, KW, _], x: f32[_, H, W, _], b?)
            {padding: any = padding, stride_h: any = stride_h, stride_w: any = stride_w}
    """
    after = """
        y = TransposeConv(full_shape, w, x, b)    {like z, padding: VALID}
        z = Slice(y, begin, size)
    """

    @condition
    def is_slice_of_full_output(self, match: Match, padding: Padding) -> str | None:
        """LiteRT refuses the output size; the output is a slice of a full output that is not too large."""
        axes = list(_axes(match))
        # forward_size: the number of rows that a convolution over the output gives
        if all(forward_size(padding, out, kernel, stride) == rows for rows, out, kernel, stride in axes):
            return "has an output size that LiteRT accepts already"
        for rows, out, kernel, stride in axes:
            full = (rows - 1) * stride + kernel
            pad = leading_pad(padding, out, kernel, stride)
            if pad + out > full:
                got = f"{out} after the first {pad}, which TRANSPOSE_CONV leaves out"
                return f"expected an output within the full {full} rows or columns, got {got}"
            if full > LARGEST_DIMENSION:
                return f"expected at most {LARGEST_DIMENSION} rows or columns of full output, got {full}"
        return None

    def constants(self, match: Match, padding: Padding, shape: Array) -> dict[str, Array]:
        axes = list(_axes(match))
        full = [(rows - 1) * stride + kernel for rows, _, kernel, stride in axes]
        begin = [leading_pad(padding, out, kernel, stride) for _, out, kernel, stride in axes]
        vectors = {"full_shape": [shape[0], *full, shape[3]], "begin": [0, *begin, 0], "size": shape}
        return {name: np.array(numbers, np.int32) for name, numbers in vectors.items()}


def _axes(match: Match) -> Iterator[tuple[int, int, int, int]]:
    """Yield input size, output size, filter size and stride of each image axis."""
    shape = match.value("shape").array()
    for axis, data, kernel, stride in ((1, "H", "KH", "stride_h"), (2, "W", "KW", "stride_w")):
        yield match.dims[data], int(shape[axis]), match.dims[kernel], match.attributes[stride]
