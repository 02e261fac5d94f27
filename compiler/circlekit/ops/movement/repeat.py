# SPDX-License-Identifier: Apache-2.0
"""Operators that repeat elements, or make them from a few numbers.

``results_follow``: the operand whose scale the result has.  ``operands_follow``: the operands that have the
scale of the result.  ``versions``: the operator version by dtype.
Source: TFLite broadcast_to, tile, fill, range.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from circlekit.errors import ShapeError, UnsupportedError, counted
from circlekit.ir.dtypes import DType, boolean, f16, i8, i16, i32, i64
from circlekit.ir.op import Op, operand
from circlekit.ir.quantization_rule import QuantizationRule
from circlekit.ir.value import Array, Shape, TensorType, format_shape
from circlekit.ops.checks import require_rank, require_same_dtype
from circlekit.ops.constant_operands import (
    int_list,
    listed_shape,
    plain_data,
    static_int_vector,
    vector_length,
)
from circlekit.ops.dimensions import broadcast_shapes, dims_differ, unknown_dims
from circlekit.ops.operand_dtypes import ANY, NUMBERS
from circlekit.ops.quantized_values import rearranged_type


class BroadcastTo(Op, code="BROADCAST_TO", data_movement=True, layout_operands=("input",)):
    """``input`` broadcast to ``shape``: repeated along axes of dimension 1, and along new leading axes."""

    quantization_rule = QuantizationRule(results_follow="input")

    input = operand(*ANY)
    shape = operand(i32, i64)

    versions: ClassVar = {**dict.fromkeys(DType, 2), i8: 3, i16: 3}  # 2 for all other dtypes
    per_axis_operands: ClassVar = {"shape": 1}

    def infer(self) -> TensorType:
        dims = listed_shape(self.shape)
        common = broadcast_shapes(self.input.shape, dims)
        if common and dims is not None and (len(common) > len(dims) or any(map(dims_differ, common, dims))):
            pair = f"{format_shape(self.input.shape)} does not broadcast to {format_shape(dims)}"
            raise ShapeError(f"shape {pair}")
        return rearranged_type(self.input, dims)

    def for_new_shapes(self, old: Mapping[str, Shape | None], outer: bool) -> dict[str, list[int]]:
        """Return the ``shape`` for a new shape of ``input`` (see the base class; ``outer`` has no effect).

        Return {} if ``shape`` is not constant, or if the rank of ``input`` is unknown or has changed.  Raise
        ShapeError if a dimension of ``input`` is unknown.
        An axis that was not repeated gets the new dimension; repeated and new leading axes stay.  Example:
        ``shape`` is [3, 2, 4] and ``input`` changes from [1, 4] to [1, 5]: return {"shape": [3, 2, 5]}.
        """
        dims, before, after = static_int_vector(self.shape), old["input"], self.input.shape
        if dims is None or before is None or after is None or len(before) != len(after):
            return {}
        for axis, (a, b) in enumerate(zip(before, after, strict=True), len(dims) - len(after)):
            if b is None:
                raise ShapeError("shape: a constant cannot hold an unknown dimension")
            dims[axis] = b if dims[axis] == a else dims[axis]
        return {"shape": dims}

    def kernel(self, input: Array, shape: Array) -> Array:
        return np.broadcast_to(input, int_list(shape))

    def permuted(self, perm: tuple[int, ...]) -> dict[str, Any] | None:
        # with new leading axes, the result has other axes than the input
        return super().permuted(perm) if self.input.rank == self.output.rank else None


class Tile(Op, code="TILE", versions={i8: 3, DType.STRING: 2}, reference_version=2, data_movement=True):
    """``input`` repeated ``multiples[i]`` times along each axis i."""

    quantization_rule = QuantizationRule(results_follow="input")

    input = operand(*ANY)
    multiples = operand(i32, i64)

    layout_operands = ("input",)
    per_axis_operands: ClassVar = {"multiples": 1}

    def infer(self) -> TensorType:
        shape, multiples = self.input.shape, static_int_vector(self.multiples)
        if shape is None or multiples is None:
            return rearranged_type(self.input, unknown_dims(self.input.rank or vector_length(self.multiples)))
        require_count(multiples, len(shape))
        return rearranged_type(
            self.input, tuple(None if d is None else d * m for d, m in zip(shape, multiples, strict=True))
        )

    def kernel(self, input: Array, multiples: Array) -> Array:
        numbers = int_list(multiples)
        require_count(numbers, input.ndim)  # numpy's ``tile`` would add axes
        return np.tile(input, numbers)


def require_count(multiples: list[int], rank: int) -> None:
    """Raise ShapeError unless there is one of ``multiples`` for each axis of an input of ``rank``."""
    if len(multiples) != rank:
        raise ShapeError(f"multiples: expected {counted(rank, 'element')}, got {len(multiples)}")


class Fill(Op, code="FILL", version_operand=1, versions={boolean: 2, DType.STRING: 2, i8: 3, i16: 3, f16: 4}):
    """A tensor of shape ``dims`` filled with ``value``."""

    quantization_rule = QuantizationRule(operands_follow=("value",))

    dims = operand(i32, i64)
    value = operand(*ANY)

    def infer(self) -> TensorType:
        if self.value.rank not in (0, None):
            raise ShapeError(f"value: expected a scalar, got shape {format_shape(self.value.shape)}")
        return rearranged_type(self.value, listed_shape(self.dims))

    def kernel(self, dims: Array, value: Array) -> Array:
        return np.full(int_list(dims), value, value.dtype)


class Range(Op, code="RANGE", versions={i64: 2}, reference_version=1):
    """The vector start, start + delta, start + 2 delta, ... up to, but not including, ``limit``."""

    start = operand(*NUMBERS)
    limit = operand(*NUMBERS)
    delta = operand(*NUMBERS)

    def infer(self) -> TensorType:
        require_same_dtype("start", self.start, "limit", self.limit)
        require_same_dtype("start", self.start, "delta", self.delta)
        for name in ("start", "limit", "delta"):
            require_rank(getattr(self, name), name, 0)
        start, limit, delta = (plain_data(v) for v in (self.start, self.limit, self.delta))
        if start is None or limit is None or delta is None:
            return TensorType(self.start.dtype, (None,))
        return TensorType(self.start.dtype, (self.length(start, limit, delta),))

    def length(self, start: Array, limit: Array, delta: Array) -> int:
        """Return the number of elements of the range.

        Raise ShapeError if ``delta`` is 0 or leads away from ``limit``, or if the number is infinite or NaN.
        """
        first, end, step = (x.reshape(-1)[0] for x in (start, limit, delta))
        if start.dtype.kind != "f":
            first, end, step = int(first), int(end), int(step)
        if not step:  # also if ``start`` is ``limit``, as in LiteRT
            raise ShapeError("delta: expected a number other than 0, got 0")
        with np.errstate(all="ignore"):
            steps = (end - first) / step
        if not 0 <= steps < math.inf:
            raise ShapeError(f"a range from {first} to {end} by {step} never reaches its limit")
        return int(np.ceil(steps)) if start.dtype.kind == "f" else -((first - end) // step)  # rounded up

    def kernel(self, start: Array, limit: Array, delta: Array) -> Array:
        if start.dtype.kind not in "fi":
            raise UnsupportedError(f"RANGE on {start.dtype} has no kernel")
        steps = np.full(self.length(start, limit, delta), delta.reshape(-1)[0], start.dtype)
        steps[:1] = start.reshape(-1)[0]
        return np.cumsum(steps, dtype=start.dtype)  # rounded in each step, as in LiteRT
