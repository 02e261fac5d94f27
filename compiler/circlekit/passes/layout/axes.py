# SPDX-License-Identifier: Apache-2.0
"""What a permutation of axes does to shapes, values and constants."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

import numpy as np

from circlekit.ir.value import Quantization, Shape, Value

Perm = tuple[int, ...]


def inverse(perm: Perm) -> Perm:
    """The permutation that undoes ``perm``."""
    back = [0] * len(perm)
    for new, old in enumerate(perm):
        back[old] = new
    return tuple(back)


def permuted_shape(shape: Sequence[int | None], perm: Perm) -> Shape:
    """The shape of transpose(x, perm) for an x of ``shape``."""
    return tuple(shape[axis] for axis in perm)


def keeps_order(shape: Shape, perm: Perm) -> bool:
    """Whether the transpose leaves the elements as they lie: only dimensions of 1 pass others.

    At most one dimension may be unknown, or a Reshape could not say the same.
    """
    long = [axis for axis in perm if shape[axis] != 1]
    return long == sorted(long) and shape.count(None) <= 1


def keeps_shape(shape: Shape, perm: Perm) -> bool:
    """Whether the transpose does nothing at all: every axis that moves is 1.

    A shape of lower rank counts as if it had leading dimensions of 1, as in broadcasting.
    """
    full = (1,) * (len(perm) - len(shape)) + shape
    return len(full) == len(perm) and all(full[axis] == 1 for new, axis in enumerate(perm) if axis != new)


def size_of(value: Value) -> int:
    """Bytes of ``value``, an unknown dimension taken as 1."""
    elements = math.prod(1 if d is None else d for d in value.shape or ())
    return (elements * (value.dtype.bits or 8) + 7) // 8


def permuted_quantization(
    quantization: Quantization | None, perm: Perm, missing: int = 0
) -> Quantization | None:
    """The quantization of the transposed value; ``missing``: leading dimensions that it lacked."""
    if quantization is None or not quantization.is_per_channel:
        return quantization
    dimension = perm.index(quantization.quantized_dimension + missing)
    return dataclasses.replace(quantization, quantized_dimension=dimension)


def is_movable(value: Value) -> bool:
    """Whether all that the value carries can follow its axes to another place."""
    quantization = value.quantization
    return not value.is_variable and (quantization is None or quantization.details is None)


def is_movable_constant(value: Value, rank: int) -> bool:
    """Whether ``value`` is a constant, at most of ``rank``, whose elements are at hand."""
    data = value.data
    if data is None or not is_movable(value):
        return False
    return data.dtype == value.dtype.numpy and data.shape == value.shape and data.ndim <= rank


def permuted_constant(value: Value, perm: Perm) -> Value:
    """A new constant: ``value``, with leading dimensions of 1 where its rank is lower, transposed."""
    data = value.array()
    missing = len(perm) - data.ndim
    moved = np.ascontiguousarray(data.reshape((1,) * missing + data.shape).transpose(perm))
    return Value.constant(value.name, moved, permuted_quantization(value.quantization, perm, missing))
