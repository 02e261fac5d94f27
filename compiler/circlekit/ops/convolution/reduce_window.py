# SPDX-License-Identifier: Apache-2.0
"""DILATE and REDUCE_WINDOW.  Source: TFLite dilate, stablehlo_reduce_window."""

from __future__ import annotations

from typing import Any

import numpy as np

from circlekit.errors import ShapeError, UnsupportedError
from circlekit.ir.dtypes import boolean, i32, i64
from circlekit.ir.enums import ReduceWindowFunction
from circlekit.ir.op import Op, attribute, operand
from circlekit.ir.value import Array, Shape, TensorType, Value, format_shape
from circlekit.ops.checks import require_same_dtype
from circlekit.ops.constant_operands import int_list, static_int_vector
from circlekit.ops.dimensions import unknown_dims
from circlekit.ops.operand_dtypes import NUMBERS


def need_per_axis(numbers: list[int] | None, shape: Shape | None, name: str) -> None:
    """ShapeError unless ``numbers``, if known, has one number of 1 or more for each axis of ``shape``."""
    if numbers is None:
        return
    if min(numbers, default=1) < 1 or (shape is not None and len(numbers) != len(shape)):
        raise ShapeError(f"{name} is {numbers}, expected 1 or more for each axis of {format_shape(shape)}")


class Dilate(Op, code="DILATE"):
    """Insert ``dilations`` - 1 padding values between neighbouring elements along each axis."""

    input = operand(*NUMBERS, boolean)
    dilations = operand(i32)
    padding_value = operand(*NUMBERS, boolean)

    def infer(self) -> TensorType:
        require_same_dtype("input", self.input, "padding_value", self.padding_value)
        shape, steps = self.input.shape, static_int_vector(self.dilations)
        need_per_axis(steps, shape, "dilations")
        if shape is None or steps is None:
            return TensorType(self.input.dtype, unknown_dims(self.input.rank))
        spread = (None if d is None else (d - 1) * s + 1 for d, s in zip(shape, steps, strict=True))
        return TensorType(self.input.dtype, tuple(spread))

    def kernel(self, input: Array, dilations: Array, padding_value: Array) -> Array:
        steps = int_list(dilations)
        need_per_axis(steps, input.shape, "dilations")
        shape = [(d - 1) * s + 1 for d, s in zip(input.shape, steps, strict=True)]
        out = np.full(shape, padding_value.reshape(-1)[0], input.dtype)
        out[tuple(slice(None, None, s) for s in steps)] = input
        return out


_REDUCTIONS: dict[ReduceWindowFunction, Any] = {
    ReduceWindowFunction.ADD: np.add,
    ReduceWindowFunction.MUL: np.multiply,
    ReduceWindowFunction.MINIMUM: np.minimum,
    ReduceWindowFunction.MAXIMUM: np.maximum,
    ReduceWindowFunction.ALL: np.logical_and,
    ReduceWindowFunction.ANY: np.logical_or,
}


class ReduceWindow(Op, code="REDUCE_WINDOW"):
    """Combine ``init_value`` and the elements of each window by ``reduce_function``."""

    input = operand(*NUMBERS, boolean)
    init_value = operand(*NUMBERS, boolean)
    window_shape = operand(i64)
    window_strides = operand(i64)
    window_dilations = operand(i64)

    reduce_function: ReduceWindowFunction = attribute(ReduceWindowFunction.UNSUPPORTED)

    def infer(self) -> TensorType:
        require_same_dtype("input", self.input, "init_value", self.init_value)
        shape = self.input.shape
        if shape is None:
            return TensorType(self.input.dtype, None)
        numbers = [self.numbers(v, n) for v, n in self.windows()]
        if any(n is None for n in numbers):
            return TensorType(self.input.dtype, (None,) * len(shape))
        sizes, strides, dilations = (n for n in numbers if n is not None)
        axes = zip(shape, sizes, strides, dilations, strict=True)
        return TensorType(self.input.dtype, tuple(window_count(*axis) for axis in axes))

    def windows(self) -> list[tuple[Value, str]]:
        return [
            (self.window_shape, "window_shape"),
            (self.window_strides, "window_strides"),
            (self.window_dilations, "window_dilations"),
        ]

    def numbers(self, value: Value, name: str) -> list[int] | None:
        numbers = static_int_vector(value)
        need_per_axis(numbers, self.input.shape, name)
        return numbers

    def kernel(
        self,
        input: Array,
        init_value: Array,
        window_shape: Array,
        window_strides: Array,
        window_dilations: Array,
    ) -> Array:
        combine = _REDUCTIONS.get(self.reduce_function)
        if combine is None:
            raise UnsupportedError(f"REDUCE_WINDOW by {self.reduce_function!r} has no kernel")
        sizes, strides, dilations = (int_list(a) for a in (window_shape, window_strides, window_dilations))
        axes = zip(input.shape, sizes, strides, dilations, strict=True)
        shape = [window_count(*axis) or 0 for axis in axes]
        if 0 in shape:
            return np.full(shape, init_value.reshape(-1)[0], input.dtype)
        spans = tuple((n - 1) * d + 1 for n, d in zip(sizes, dilations, strict=True))
        views = np.lib.stride_tricks.sliding_window_view(input, spans)
        rank = input.ndim
        views = views[tuple(slice(None, None, s) for s in (*strides, *dilations))]
        over = tuple(range(rank, 2 * rank))
        whole = combine.reduce(views, axis=over, dtype=None if combine in _LOGICAL else input.dtype)
        return np.asarray(combine(init_value.reshape(-1)[0], whole)).astype(input.dtype)


_LOGICAL = (np.logical_and, np.logical_or)


def window_count(size: int | None, taps: int, stride: int, dilation: int) -> int | None:
    """Return how many windows fit into ``size``; None if that is unknown."""
    if size is None:
        return None
    return max(0, (size - (taps - 1) * dilation - 1) // stride + 1)
