# SPDX-License-Identifier: Apache-2.0
"""Padding around a tensor.  Source: TFLite pad, mirror_pad.

Class members: ``versions`` and ``rank_versions`` give the operator version by dtype and rank of the input.
``layout_operands`` have the axes of the result.  ``per_axis_operands`` have a row for each axis, with zeros
for a new axis.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from circlekit.errors import ShapeError, counted
from circlekit.ir.dtypes import boolean, i8, i16, i32, i64
from circlekit.ir.enums import MirrorPadMode
from circlekit.ir.op import Op, attribute, operand
from circlekit.ir.quantization_rule import QuantizationRule
from circlekit.ir.value import Array, TensorType, format_shape
from circlekit.ops.checks import NUMERIC_KINDS, require_numpy_kind, require_one_element, require_same_dtype
from circlekit.ops.constant_operands import static_int_vector
from circlekit.ops.dimensions import Dim, unknown_dims
from circlekit.ops.operand_dtypes import ANY
from circlekit.ops.quantized_values import padding_of, rearranged_type


class Padded(Op, layout_operands=("input",), per_axis_operands={"paddings": 0}):
    """Base class of operators that add elements before and after ``input`` along each axis.

    ``paddings`` [rank, 2]: the numbers of elements to add.
    """

    quantization_rule = QuantizationRule(results_follow="input")

    input = operand(*ANY)
    paddings = operand(i32, i64)

    versions: ClassVar = {i8: 2, i16: 3, boolean: 5}
    rank_versions: ClassVar = {5: 4}

    def infer(self) -> TensorType:
        shape, numbers, rows = self.input.shape, static_int_vector(self.paddings), self.paddings.shape
        if rows is not None and (len(rows) != 2 or rows[1] not in (2, None)):
            raise ShapeError(f"paddings: expected shape [rank,2], got {format_shape(rows)}")
        pairs = None if numbers is None else list(zip(numbers[::2], numbers[1::2], strict=True))
        if shape is None or pairs is None:
            rank = rows[0] if shape is None and rows is not None else self.input.rank
            return rearranged_type(self.input, unknown_dims(rank))
        if len(pairs) != len(shape):
            raise ShapeError(f"paddings: expected {counted(len(shape), 'row')}, got {len(pairs)}")
        for dim, pair in zip(shape, pairs, strict=True):
            self.check_padding(dim, *pair)
        return rearranged_type(
            self.input,
            tuple(None if d is None else a + d + b for d, (a, b) in zip(shape, pairs, strict=True)),
        )

    def check_padding(self, dim: Dim, before: int, after: int) -> None:
        """Raise ShapeError if ``dim`` elements cannot be padded by ``before`` and ``after`` elements."""
        if before < 0 or after < 0:
            raise ShapeError(f"paddings: expected 0 or more, got {before} and {after}")


class Pad(Padded, code="PAD"):
    """``input`` padded with 0; data quantized in 8 or 16 bits are padded with the zero point."""

    def kernel(self, input: Array, paddings: Array) -> Array:
        require_numpy_kind(self, input, NUMERIC_KINDS)
        return pad_constant(input, paddings, padding_of(self.output))


class PadV2(Padded, code="PADV2"):
    """``input`` padded with the single element of ``constant_values``."""

    quantization_rule = QuantizationRule(results_follow="input", operands_follow=("constant_values",))

    constant_values = operand(*ANY)

    def infer(self) -> TensorType:
        require_same_dtype("input", self.input, "constant_values", self.constant_values)
        require_one_element(self.constant_values, "constant_values")
        return super().infer()

    def kernel(self, input: Array, paddings: Array, constant_values: Array) -> Array:
        return pad_constant(input, paddings, constant_values.reshape(-1)[0])


def pad_constant(input: Array, paddings: Array, value: Any) -> Array:
    """Return ``input`` with ``value`` before and after it along each axis.

    ``paddings``: [rank, 2].  Raise ShapeError if one is negative.
    """
    pairs = paddings.reshape(-1, 2).tolist()
    if np.any(paddings < 0):
        raise ShapeError(f"paddings: expected 0 or more, got {pairs}")
    out = np.full([a + d + b for d, (a, b) in zip(input.shape, pairs, strict=True)], value, input.dtype)
    out[tuple(slice(a, a + d) for d, (a, _) in zip(input.shape, pairs, strict=True))] = input
    return out


class MirrorPad(Padded, code="MIRROR_PAD", data_movement=True, versions={i8: 2, i16: 3}, rank_versions={}):
    """``input`` padded with its mirror image; SYMMETRIC repeats the border element, REFLECT does not."""

    mode: MirrorPadMode = attribute(MirrorPadMode.REFLECT)

    def check_padding(self, dim: Dim, before: int, after: int) -> None:
        super().check_padding(dim, before, after)
        if dim is None:
            return
        limit = dim - 1 if self.mode is MirrorPadMode.REFLECT else dim
        if before > limit or after > limit:
            raise ShapeError(
                f"paddings: expected at most {limit} for {self.mode!r} of {counted(dim, 'element')}, "
                f"got {before} and {after}"
            )

    def kernel(self, input: Array, paddings: Array) -> Array:
        if not input.ndim:
            return input
        for dim, (before, after) in zip(input.shape, paddings.reshape(-1, 2).tolist(), strict=True):
            self.check_padding(dim, before, after)
        mode: Any = "reflect" if self.mode is MirrorPadMode.REFLECT else "symmetric"
        return np.pad(input, paddings.reshape(-1, 2), mode=mode)
