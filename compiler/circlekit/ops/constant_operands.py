# SPDX-License-Identifier: Apache-2.0
"""Parameter operands (axes, paddings, shapes): read their constants, rewrite them for permuted data."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from circlekit.errors import ShapeError
from circlekit.ir.value import Array, Value
from circlekit.ops.dimensions import normalized_axis


def plain_data(value: Value) -> Array | None:
    """Return the elements of a constant; None for other values and for packed or sparse constants."""
    return value.data if value.is_plain else None


def static_int_vector(value: Value | None) -> list[int] | None:
    """Return the elements of a constant integer operand, flattened; None if it is absent or not constant."""
    if value is None or not value.dtype.is_integer:
        return None
    data = plain_data(value)
    return None if data is None else int_list(data)


def static_int(value: Value, name: str) -> int | None:
    """Return the only element of a constant integer operand; None where it is not constant.

    ShapeError where it has another number of elements.
    """
    numbers = static_int_vector(value)
    if numbers is None:
        return None
    if len(numbers) != 1:
        raise ShapeError(f"expected 1 element in {name}, got {len(numbers)}")
    return numbers[0]


def vector_length(value: Value) -> int | None:
    """Return the number of elements of an operand of rank 1; None where it is unknown."""
    return value.shape[0] if value.shape is not None and len(value.shape) == 1 else None


def int_list(array: Array) -> list[int]:
    """Return the elements of ``array`` as a flat list of int."""
    return [int(x) for x in array.reshape(-1)]


# -- permuted data -----------------------------------------------------------------------------


def axis_after_transpose(axis: int, perm: Sequence[int]) -> int:
    """Return the position of axis ``axis`` (may be negative) after a transpose by ``perm``."""
    return list(perm).index(normalized_axis(axis, len(perm)))


def permuted_rows(value: Value, perm: Sequence[int]) -> Array | None:
    """Return a constant of one row per axis with its rows permuted; None if it is not such a constant."""
    data = plain_data(value)
    if data is None or data.ndim == 0 or data.shape[0] != len(perm):
        return None
    return np.ascontiguousarray(data[list(perm)])


def permuted_axes(value: Value, perm: Sequence[int]) -> Array | None:
    """Return a constant list of axes renumbered for a transpose by ``perm``; None if it is not constant."""
    data = plain_data(value)
    if data is None:
        return None
    axes = [axis_after_transpose(a, perm) for a in int_list(data)]
    return np.asarray(axes, data.dtype).reshape(data.shape)
