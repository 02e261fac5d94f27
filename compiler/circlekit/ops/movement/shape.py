# SPDX-License-Identifier: Apache-2.0
"""Operators that read or change shapes.

``static_int_vector`` and ``static_int`` return the numbers of an operand, or None if it is not constant.
``rearranged_type`` keeps the dtype and the scale of a value.  In a rule, ``results_follow="input"`` means
that the result has the scale and zero point of the input.  ``versions``: the operator version by dtype.
``reference_version``: the newest operator version that LiteRT's reference kernels implement.
Source: TFLite reshape, squeeze, expand_dims, shape, rank, transpose.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from circlekit.errors import ShapeError, counted
from circlekit.ir.declaration import NEW_AXIS, kept_rank
from circlekit.ir.dtypes import DType, boolean, i8, i16, i32, i64
from circlekit.ir.op import Op, attribute, operand, optional_operand
from circlekit.ir.quantization_rule import OWN_RANGES, QuantizationRule
from circlekit.ir.value import Array, TensorType, format_shape
from circlekit.ir.value import Shape as Dims  # in this file, Shape is the operator
from circlekit.ops.checks import require_int_list, require_length, require_rank
from circlekit.ops.constant_operands import int_list, static_int, static_int_vector, vector_length
from circlekit.ops.dimensions import normalized_axis, product, regrouped, unknown_dims
from circlekit.ops.operand_dtypes import ANY
from circlekit.ops.quantized_values import rearranged_type


class Reshape(Op, code="RESHAPE", data_movement=True):
    """``input`` in another shape.  One dimension of the new shape may be -1; it follows from the others.

    The new shape is the operand ``shape``.  If this operand is absent, the attribute ``new_shape`` is used,
    in which ``[0]`` stands for a scalar.
    """

    quantization_rule = QuantizationRule(results_follow="input")

    input = operand(*ANY)
    shape = optional_operand(i32)

    new_shape: Sequence[int] | None = attribute(None)

    def infer(self) -> TensorType:
        requested = self.requested_shape()
        if requested is None:
            length = None if self.shape is None else vector_length(self.shape)
            return rearranged_type(self.input, unknown_dims(length))
        return rearranged_type(self.input, self.resolved_shape(requested, self.input.shape))

    def requested_shape(self) -> list[int] | None:
        """Return the new shape, which may contain -1; None if it is not constant.

        Raise ShapeError if there is neither an operand nor an attribute, ModelError if the attribute does not
        list integers.
        """
        if self.shape is not None:
            return static_int_vector(self.shape)
        if self.new_shape is None:
            raise ShapeError("RESHAPE: expected a shape operand or the attribute new_shape, got neither")
        new_shape = require_int_list(self.new_shape, "new_shape")
        return [] if new_shape == [0] else new_shape

    def resolved_shape(self, requested: Sequence[int], shape: Dims | None) -> Dims:
        """Return the shape ``requested`` with the dimension that -1 stands for.

        ``shape``: the shape of the input.  The dimension is None if the number of elements of ``shape`` is
        unknown.  If the input and ``requested`` both have dimensions of 0, the dimension follows from those
        that are not 0, as in LiteRT: [0, 2, 3] reshaped to [0, -1] gives [0, 6].  Raise ShapeError if the
        numbers of elements differ, if there are several -1, or if another number is negative.
        """
        if requested.count(-1) > 1 or any(d < -1 for d in requested):
            expected = "expected at most one -1 and no other negative number"
            raise ShapeError(f"shape: {expected}, got {list(requested)}")
        count = None if shape is None else product(shape)
        given = math.prod(d for d in requested if d != -1)
        both_empty = count == given == 0
        if count is None or shape is None or (both_empty and None in shape):
            return tuple(None if d == -1 else d for d in requested)
        if both_empty:
            count, given = (math.prod(d for d in dims if d and d > 0) for dims in (shape, requested))
            return tuple(count // given if d == -1 else d for d in requested)
        missing = count // given if given else 0
        if count != (given * missing if -1 in requested else given):
            old = format_shape(shape)
            raise ShapeError(
                f"shape: expected {counted(count, 'element')}, as {old} has, got {list(requested)}"
            )
        return tuple(missing if d == -1 else d for d in requested)

    def for_new_shapes(self, old: Mapping[str, Dims | None], outer: bool) -> dict[str, list[int]]:
        """Return the requested shape that follows from the changed shape of ``input`` (see the base class).

        ``regrouped`` finds the shape whose dimensions change as those of the input.  Return {} if the
        requested shape, or an old or new shape, is unknown.  Also return {} if the requested shape stays.  It
        stays if it fits the changed input and one of these conditions holds:

        - ``regrouped`` finds no other shape.
        - An axis other than axis 0 changed, and the requested shape has a -1.
        - An axis other than axis 0 changed, and the number of elements of the changed input is known.

        Raise ShapeError if the requested shape does not fit and ``regrouped`` finds no shape.
        """
        requested, before, after = self.requested_shape(), old["input"], self.input.shape
        if requested is None or before is None or after is None or old["output"] is None:
            return {}
        try:
            unchanged = self.resolved_shape(requested, after)
        except ShapeError:
            unchanged = None
        dims = regrouped(before, after, old["output"], outer)
        if dims is None and unchanged is None:
            change = f"from {format_shape(before)} to {format_shape(after)}"
            raise ShapeError(f"shape {requested} does not follow from the operand's change {change}")
        only_axis_0_changed = before[1:] == after[1:]
        may_stay = unchanged is not None and (-1 in requested or product(after) is not None)
        if (
            dims is None
            or (may_stay and not only_axis_0_changed)
            or self.resolved_shape(dims, after) == unchanged
        ):
            return {}
        changes = {} if self.shape is None else {"shape": dims}
        return changes if self.new_shape is None else {**changes, "new_shape": dims}

    def kernel(self, input: Array, shape: Array | None) -> Array:
        requested = self.requested_shape() if shape is None else int_list(shape)
        return input.reshape(self.resolved_shape(requested or [], input.shape))


class Squeeze(Op, code="SQUEEZE", versions={DType.STRING: 2}, reference_version=1, data_movement=True):
    """``input`` without the axes ``squeeze_dims``, which have dimension 1; [] or None: all such axes."""

    quantization_rule = QuantizationRule(results_follow="input")

    input = operand(*ANY)

    squeeze_dims: Sequence[int] | None = attribute(None)

    def infer(self) -> TensorType:
        shape = self.input.shape
        axes = None if shape is None else self.squeezed_axes(shape)
        if shape is None or axes is None:
            return rearranged_type(self.input, None)
        return rearranged_type(self.input, tuple(d for i, d in enumerate(shape) if i not in axes))

    def squeezed_axes(self, shape: Dims) -> list[int] | None:
        """Return the axes to remove from ``shape``; None if they are unknown.

        Raise ShapeError if a listed axis does not exist or does not have dimension 1.
        """
        listed = require_int_list(self.squeeze_dims or (), "squeeze_dims")
        if not listed:
            return None if None in shape else [i for i, d in enumerate(shape) if d == 1]
        axes = [normalized_axis(a, len(shape)) for a in listed]
        for axis in axes:
            if shape[axis] not in (1, None):
                raise ShapeError(
                    f"squeeze_dims: expected dimensions of 1, got {shape[axis]} at axis {axis} "
                    f"of {format_shape(shape)}"
                )
        return axes

    def kernel(self, input: Array) -> Array:
        return np.squeeze(input, axis=tuple(set(self.squeezed_axes(input.shape) or ())))


class ExpandDims(Op, code="EXPAND_DIMS", data_movement=True):
    """``input`` with a new axis of dimension 1, which is axis ``dim`` of the result; -1 is the last axis."""

    quantization_rule = QuantizationRule(results_follow="input")

    input = operand(*ANY)
    dim = operand(i32, i64)

    def infer(self) -> TensorType:
        shape, dim = self.input.shape, static_int(self.dim, "dim")
        if shape is None or dim is None:
            return rearranged_type(self.input, None if shape is None else unknown_dims(len(shape) + 1))
        axis = normalized_axis(dim, len(shape) + 1)
        return rearranged_type(self.input, (*shape[:axis], 1, *shape[axis:]))

    def kernel(self, input: Array, dim: Array) -> Array:
        return np.expand_dims(input, normalized_axis(int(dim.reshape(-1)[0]), input.ndim + 1))


class Shape(Op, code="SHAPE", reads_data=False):  # only the shape of the input is read
    """The dimensions of ``input``, as a vector of ``out_type``."""

    quantization_rule = OWN_RANGES

    input = operand(*ANY)

    out_type: DType = attribute(DType.FLOAT32)  # the schema's default, which is not a valid type

    def infer(self) -> TensorType:
        if self.out_type not in (i32, i64):
            raise ShapeError(f"out_type: expected i32 or i64, got {self.out_type.short}")
        return TensorType(self.out_type, (self.input.rank,))

    def kernel(self, input: Array) -> Array:
        return np.asarray(input.shape, self.out_type.numpy)


class Rank(Op, code="RANK", reads_data=False):
    """The number of dimensions of ``input``, a scalar."""

    quantization_rule = OWN_RANGES

    input = operand(*ANY)

    def infer(self) -> TensorType:
        return TensorType(i32, ())

    def kernel(self, input: Array) -> Array:
        return np.asarray(input.ndim, np.int32)


class Transpose(Op, code="TRANSPOSE", reference_version=8, data_movement=True, layout_operands=("input",)):
    """``input`` with its axes permuted: axis i of the result is axis ``perm[i]`` of the input."""

    quantization_rule = QuantizationRule(results_follow="input")

    input = operand(*ANY)
    perm = operand(i32, i64)

    versions: ClassVar = {i8: 2, boolean: 3, i16: 5}
    rank_versions: ClassVar = {5: 4, 6: 6}  # version 4 or higher for rank 5, 6 or higher from rank 6 on

    def infer(self) -> TensorType:
        require_rank(self.perm, "perm", 1)
        shape, perm = self.input.shape, static_int_vector(self.perm)
        if perm is None:
            if shape is not None:
                require_length(self.perm.shape, len(shape), "perm")
            return rearranged_type(self.input, unknown_dims(self.input.rank or vector_length(self.perm)))
        if shape is None:
            shape = (None,) * len(perm)
        return rearranged_type(self.input, tuple(shape[a] for a in checked_perm(perm, len(shape))))

    def permuted(self, perm: tuple[int, ...]) -> dict[str, Any] | None:
        """Return {"perm": new operand} for an input and a result whose axes are permuted by the argument.

        New axes (NEW_AXIS in the argument) stay in their places.  Return None if the operand ``perm`` is not
        constant, or if its length is not the number of axes that the argument permutes.
        """
        own = static_int_vector(self.perm)
        if own is None or len(own) != kept_rank(perm):
            return None
        axes = checked_perm(own, len(own))
        moved = [new if axis == NEW_AXIS else perm.index(axes[axis]) for new, axis in enumerate(perm)]
        return {"perm": np.array(moved, np.int32)}

    def kernel(self, input: Array, perm: Array) -> Array:
        return np.transpose(input, checked_perm(int_list(perm), input.ndim))


def checked_perm(perm: Sequence[int], rank: int) -> list[int]:
    """Return ``perm`` without negative axes; raise ShapeError if it does not permute ``rank`` axes."""
    axes = [normalized_axis(a, rank) for a in perm]
    if sorted(axes) != list(range(rank)):
        raise ShapeError(f"perm: expected each axis of rank {rank} once, got {list(perm)}")
    return axes
