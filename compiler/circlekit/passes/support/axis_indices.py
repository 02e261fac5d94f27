# SPDX-License-Identifier: Apache-2.0
"""Find which indices a data movement operator takes along each axis of its operand.

MIRROR_PAD, TILE, SPLIT, a GATHER of constant indices and others take a list of indices along each axis.  For
example, a TILE that repeats an axis of size 3 twice takes [0, 1, 2, 0, 1, 2] along this axis.  To find the
lists, the kernel of the operator is run on the positions of the elements in place of the elements.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import combinations

import numpy as np

from circlekit.errors import CirclekitError
from circlekit.ir.op import Op
from circlekit.ir.shape_inference import fits
from circlekit.ir.value import Array, Value
from circlekit.ops.quantized_values import followed_operand

MAX_ELEMENTS = 1 << 24
"""Operators on larger tensors are not examined, because the examination runs their kernel."""


def moved_operand(op: Op) -> Value | None:
    """Return the operand whose elements ``op`` copies; None if ``op`` cannot be examined.

    ``op`` can be examined if it is a data movement that copies elements of one operand, and if the other
    operands are constant.  The copied operand and all results must have 1 to MAX_ELEMENTS elements, and
    static shapes that obey the shape rule of ``op``.
    """
    data = followed_operand(op) if op.data_movement and op.results else None
    if data is None:
        return None
    others = [value for value in op.inputs if value is not None and value is not data]
    if not all(v.is_plain for v in others) or not all(v.is_static for v in (data, *op.results)):
        return None
    sizes = [math.prod(value.static_shape) for value in (data, *op.results)]
    return data if min(sizes) > 0 and max(sizes) <= MAX_ELEMENTS and fits(op) else None


def results_for(op: Op, arrays: Mapping[Value, Array]) -> Sequence[Array] | None:
    """Return the results of the kernel of ``op`` for ``arrays``; None if the kernel refuses its operands.

    ``arrays``: an array for each operand that is not constant.
    """
    operands = [None if v is None else arrays[v] if v in arrays else v.array() for v in op.inputs]
    try:
        results = op.kernel(*operands)
    except (CirclekitError, TypeError, ValueError):
        return None
    return results if isinstance(results, tuple | list) else (results,)


def axis_indices(op: Op) -> list[list[Array]] | None:
    """Return, for each result of ``op``, the indices that it takes along each axis of ``moved_operand``.

    There is one array of indices for each axis of the operand.  If a result has a higher rank, the operand is
    extended by leading dimensions of 1.  If a result has a lower rank, it lacks axes of the operand; the
    array of such an axis has one index.

    Return None if ``moved_operand`` returns None.  Also return None if lists of indices cannot describe
    ``op``, such as a Reshape from [2, 3] to [3, 2].
    """
    data = moved_operand(op)
    if data is None:
        return None
    shape = data.static_shape
    places = np.arange(math.prod(shape), dtype=np.int64).reshape(shape)
    results = results_for(op, {data: places})
    if results is None:
        return None
    found = [_indices_of(result, shape) for result in results]
    return None if any(lists is None for lists in found) else [lists for lists in found if lists is not None]


def _indices_of(places: Array, shape: tuple[int, ...]) -> list[Array] | None:
    """Return, for each axis of the operand, the indices that a result takes along it.

    ``places``: for each element of the result, its flat index in the operand of shape ``shape``.  Return None
    if lists of indices cannot describe the result.
    """
    shape = (1,) * (places.ndim - len(shape)) + shape
    coordinates = np.unravel_index(places, shape)
    # try each choice of axes of the operand that the result may lack
    for dropped in combinations(range(len(shape)), len(shape) - places.ndim):
        axes = iter(range(places.ndim))
        lists = [_line(c, None if a in dropped else next(axes)) for a, c in enumerate(coordinates)]
        if all(line is not None for line in lists):
            return [line for line in lists if line is not None]
    return None


def _line(coordinates: Array, axis: int | None) -> Array | None:
    """Return the list of ``coordinates`` along ``axis`` of a result; None if they vary along another axis.

    ``coordinates``: for each element of the result, its index along one axis of the operand.  ``axis``: None
    if the result lacks this axis; then all coordinates must be equal, and the list has this one number.
    """
    rows = coordinates[..., None] if axis is None else np.moveaxis(coordinates, axis, -1)
    rows = rows.reshape(-1, rows.shape[-1])
    return None if (rows != rows[0]).any() else rows[0]
