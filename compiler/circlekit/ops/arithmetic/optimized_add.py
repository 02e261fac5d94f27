# SPDX-License-Identifier: Apache-2.0
"""How LiteRT's optimized kernel of ADD rescales quantized operands in vector registers.

The kernel computes the result in rows.  Along a row, either both operands advance from element to element, or
one operand is repeated: the whole row uses the same element of it.  Whole groups of elements of a row are
computed in vector registers, and the rest as in the reference kernel.

The reference kernel rounds a rescaled operand twice: after the product with a mantissa of 31 bits, and after
the shift to the right.  In vector registers, there is one rounding:

- int8 and int16 without a repeated operand, in groups of 16: the operand is shifted before the product.
- int8 with a repeated operand, and uint8, in groups of 8: the shift to the right rounds down.

Int16 operands of different shapes are never added in vector registers.
Source: TFLite optimized_ops.h and integer_ops/add.h (with NEON instructions, which LiteRT emulates on x86);
ProcessBroadcastShapes in common.h.
"""

from __future__ import annotations

import math
import re
from typing import Any

import numpy as np

from circlekit.ir.value import Array
from circlekit.ops.numerics.fixed_point import (
    Ints,
    product_before_right_shift,
    quantize_multiplier,
    rescaled,
)


def with_vector_sums(
    sums: Array, x: tuple[Array, float], y: tuple[Array, float], bits: int, dtype: np.dtype[Any]
) -> Array:
    """Return ``sums`` with the elements that the optimized kernel computes in vector registers.

    ``sums``: the sums of the reference kernel.  ``x``, ``y``: (elements minus zero point, factor) of each
    operand; a sum adds elements * factor * 2^``bits``.  ``dtype``: int8, uint8 or int16.
    """
    length, is_repeated = row_of(x[0].shape, y[0].shape)
    if dtype == np.int16 and x[0].shape != y[0].shape:
        return sums
    rounds_product = dtype != np.uint8 and not is_repeated
    group = 16 if rounds_product else 8
    place = np.arange(sums.size).reshape(sums.shape) % max(length, 1)

    def scaled(elements: Array, factor: float) -> Ints:
        if rounds_product:
            return rescaled(elements, factor * (1 << bits))
        multiplier = quantize_multiplier(factor)
        product = product_before_right_shift(elements.astype(np.int64) << bits, multiplier)
        return np.asarray(product >> max(-int(multiplier.shift), 0))

    return np.where(place < length // group * group, scaled(*x) + scaled(*y), sums)


def row_of(x: tuple[int, ...], y: tuple[int, ...]) -> tuple[int, bool]:
    """Return the number of elements of a row of the result, and whether an operand is repeated in it.

    ``x``, ``y``: the shapes of the operands.  For shapes that only the reference kernel broadcasts, return
    (0, False).
    """
    rank = max(len(x), len(y))
    pairs = list(zip((1,) * (rank - len(x)) + x, (1,) * (rank - len(y)) + y, strict=True))[::-1]
    pairs = [pair for pair in pairs if pair != (1, 1)]  # these axes do not end a repetition
    # a letter for each axis, from the last axis on: = for equal dimensions, or the operand that is repeated
    letters = "".join("=" if a == b else "x" if a == 1 else "y" for a, b in pairs)
    # the repeated operand may change once on the way from the last axis to the first, but not twice
    found = re.fullmatch("(=*)(x+|y+|)=*(x*|y*)=*", letters)
    if found is None or (found[3] and found[3][0] == found[2][:1]):
        return 0, False
    dims = [max(pair) for pair in pairs]
    length = math.prod(dims[: found.end(1)])
    return (length, False) if length > 1 or not found[2] else (math.prod(dims[: found.end(2)]), True)
