# SPDX-License-Identifier: Apache-2.0
"""Read permutations of axes from operators; apply them to shapes, quantization parameters and constants."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np

from circlekit.ir.declaration import NEW_AXIS, kept_rank
from circlekit.ir.graph import Graph
from circlekit.ir.op import Op
from circlekit.ir.shape_inference import fits
from circlekit.ir.value import Array, Quantization, Shape, Value
from circlekit.ops.constant_operands import int_list, static_int_vector
from circlekit.ops.movement.shape import Reshape, Transpose
from circlekit.ops.movement.slice import StridedSlice
from circlekit.ops.reduction.reduce import reduced_axes

Perm = tuple[int, ...]
"""A permutation of axes, none negative: axis ``i`` of the result is axis ``perm[i]`` of the operand.

Functions that say so also take a Perm that inserts axes of dimension 1, for which it has NEW_AXIS.
"""


def constant_perm(op: Op | None) -> Perm | None:
    """Return the permutation of the Transpose ``op``; None if ``op`` is not a Transpose.

    Return None also for a Transpose that is invalid, whose permutation is not constant, or whose operand has
    an unknown rank.
    """
    if not isinstance(op, Transpose) or op.input.shape is None or not fits(op):
        return None
    rank = len(op.input.shape)
    perm = tuple(axis + rank if axis < 0 else axis for axis in static_int_vector(op.perm) or ())
    return perm if sorted(perm) == list(range(rank)) else None


def inverse(perm: Perm) -> Perm:
    """Return the permutation that undoes ``perm``."""
    return tuple(perm.index(axis) for axis in range(len(perm)))


def permuted_shape(shape: Sequence[int | None], perm: Perm) -> Shape:
    """Return the shape of transpose(x, perm) for an x of ``shape``; ``perm`` may insert axes."""
    return tuple(1 if axis == NEW_AXIS else shape[axis] for axis in perm)


def keeps_order(shape: Shape, perm: Perm) -> bool:
    """Return whether a Reshape can do the same as a transpose of data of ``shape`` by ``perm``.

    All dimensions other than 1 must keep their order.  A Reshape allows only one unknown dimension (-1).
    """
    axes = [axis for axis in perm if shape[axis] != 1]
    return axes == sorted(axes) and shape.count(None) <= 1


def keeps_shape(shape: Shape, perm: Perm) -> bool:
    """Return whether a transpose by ``perm`` leaves data of ``shape`` as they are.

    The shape must stay, too, but leading dimensions of 1 do not count: a shape of lower rank is extended by
    them, and ``perm`` may insert axes before the first dimension that is not 1.
    """
    rank = kept_rank(perm)
    dims, added = (1,) * (rank - len(shape)) + shape, len(perm) - rank
    stays = (a == NEW_AXIS or dims[a] == 1 or a + added == new for new, a in enumerate(perm))
    return len(dims) == rank and all(stays)


def perms_of(op: Op, perms: Sequence[Perm]) -> list[Perm]:
    """Return those of ``perms`` that ``op`` applies: a Transpose, or a Reshape that gives the same result.

    There are several for a Reshape if axes of dimension 1 move.  ``perms``: at least one, all of the same
    rank.
    """
    if not isinstance(op, Reshape):
        perm = constant_perm(op)
        return [] if perm is None or perm not in perms else [perm]
    before, after = op.input.shape, op.output.shape
    if before is None or len(before) != len(perms[0]) or None in before:
        return []
    return [p for p in perms if permuted_shape(before, p) == after and keeps_order(before, p)]


def move_perm(op: Op) -> Perm | None:
    """Return a permutation that ``op``, a Transpose or a Reshape, applies; None if there is none.

    A Reshape applies one if it moves axes of dimension 1.  Of several permutations, the one that keeps the
    order of these axes is returned.
    """
    if not isinstance(op, Reshape):
        return constant_perm(op)
    before, after = op.input.shape, op.output.shape
    if before is None or after is None or before == after or len(before) != len(after):
        return None
    ones = (axis for axis, dim in enumerate(before) if dim == 1)
    others = (axis for axis, dim in enumerate(before) if dim != 1)
    perm = tuple(next(ones if dim == 1 else others, NEW_AXIS) for dim in after)
    return perm if NEW_AXIS not in perm and perms_of(op, [perm]) else None


def last_axis_stride(op: StridedSlice) -> int | None:
    """Return the stride of ``op`` along the last axis of its operand.

    Return None in these cases:

    - ``op`` drops this axis, or adds an axis after it.
    - The strides are not constant, or ``op`` is not valid.
    - The operand's rank is unknown or 0.
    """
    strides, shape = static_int_vector(op.strides), op.input.shape
    if strides is None or not shape or not fits(op):
        return None
    zeros = [0] * len(strides)  # begin and end do not matter for the stride
    last = op.axis_slices(zeros, zeros, strides, len(shape))[-1]
    return None if last is None or last.shrink else last.stride


def permuted_quantization(
    quantization: Quantization | None, perm: Perm, missing: int = 0
) -> Quantization | None:
    """Return the quantization of a value that gets ``missing`` leading dimensions and is then transposed."""
    if quantization is None or not quantization.is_per_channel:
        return quantization
    dimension = perm.index(quantization.quantized_dimension + missing)
    return dataclasses.replace(quantization, quantized_dimension=dimension)


def is_movable(value: Value) -> bool:
    """Return whether ``value`` can be transposed: it is not a variable, and has no quantization ``details``.

    ``details`` (such as scales of blocks) may depend on the order of the elements.
    """
    quantization = value.quantization
    return not value.is_variable and (quantization is None or quantization.details is None)


def is_movable_constant(value: Value, rank: int) -> bool:
    """Return whether ``value`` is a constant of at most ``rank`` dimensions that can be transposed.

    A packed, sparse or compressed constant cannot.
    """
    return value.is_plain and is_movable(value) and len(value.static_shape) <= rank


def permuted_array(array: Array, perm: Sequence[int] | Array) -> Array:
    """Return ``array``, extended by leading dimensions of 1 to the rank of ``perm``, and transposed.

    ``perm`` may insert axes, which do not count for the rank.
    """
    axes = [axis for axis in perm if axis != NEW_AXIS]
    whole = np.transpose(array.reshape((1,) * (len(axes) - array.ndim) + array.shape), axes)
    return np.expand_dims(whole, tuple(new for new, axis in enumerate(perm) if axis == NEW_AXIS))


def permuted_constant(value: Value, perm: Perm) -> Value:
    """Return a new constant: ``value``, extended by leading dimensions of 1 and transposed by ``perm``.

    ``perm`` may insert axes.
    """
    data = value.array()
    quantization = permuted_quantization(value.quantization, perm, kept_rank(perm) - data.ndim)
    return Value.constant(value.name, np.ascontiguousarray(permuted_array(data, perm)), quantization)


def taken(graph: Graph, value: Value, order: Array, axis: int) -> Value:
    """Return a constant with the elements of ``value`` at the indices ``order`` along ``axis``.

    If ``axis`` is the quantized dimension, scales and zero points are taken at the same indices.
    """
    data, quantization = np.ascontiguousarray(value.array().take(order, axis)), value.quantization
    if quantization is not None and quantization.is_per_channel and quantization.quantized_dimension == axis:
        arrays = {name: getattr(quantization, name) for name in ("scale", "zero_point", "min", "max")}
        several = {name: a[order] for name, a in arrays.items() if a is not None and a.size > 1}
        quantization = dataclasses.replace(quantization, **several)
    return Value.constant(graph.unique_name(value.name), data, quantization)


def last_axis_refusal(x: Value, result: Value, axes: Array) -> str | None:
    """Refuse unless ``axes``, over which ``result`` is reduced, is the last axis of ``x`` alone."""
    found = sorted(reduced_axes(int_list(axes), x.known_rank))
    if found == [x.known_rank - 1]:
        return None
    return f"%{result.name}: expected the last axis of %{x.name} alone, got axes {found}"
