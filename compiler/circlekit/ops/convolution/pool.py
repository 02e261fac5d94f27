# SPDX-License-Identifier: Apache-2.0
"""Pooling over NHWC data, REDUCE_WINDOW and DILATE.

In a QuantizationRule, ``results_follow`` names the operand whose scale and zero point the result has.
``operands_follow`` names the operands that have the scale and zero point of the result.  ``averages``: the
kernel computes means.  OWN_RANGES: operands and result have a scale and zero point each.  ``versions`` gives
the operator version by dtype of the input; it is 1 for other dtypes.  In shapes, OH and OW are the height and
width of the result.
Source: TFLite pooling, stablehlo_reduce_window, dilate.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from circlekit.errors import ShapeError, UnsupportedError
from circlekit.ir.dtypes import boolean, i8, i16, i32, i64, u8
from circlekit.ir.enums import Activation, Padding, ReduceWindowFunction
from circlekit.ir.op import Op, attribute, operand
from circlekit.ir.quantization_rule import OWN_RANGES, QuantizationRule
from circlekit.ir.value import Array, Shape, TensorType, format_shape
from circlekit.ops.checks import require_elements, require_float, require_rank, require_same_dtype
from circlekit.ops.constant_operands import int_list, static_int_vector
from circlekit.ops.convolution.correlation import Geometry
from circlekit.ops.dimensions import known_dims, padded_window_count, unknown_dims
from circlekit.ops.fused_activation import apply_fused_activation
from circlekit.ops.numerics.fixed_point import quantized_activation_range
from circlekit.ops.operand_dtypes import NUMBERS, REAL

INTEGER_POOL_DTYPES = (i8, u8, i16)


class _Pool2D(Op, versions={i16: 3, i8: 2}, fuses_activation=True):
    """Base class of pooling operators over [N,H,W,C], with their attributes, shape rule and windows."""

    quantization_rule = QuantizationRule(results_follow="input")

    input = operand(*REAL)

    padding: Padding = attribute(Padding.SAME)
    stride_w: int = attribute(1)
    stride_h: int = attribute(1)
    filter_width: int = attribute(1)
    filter_height: int = attribute(1)
    act: Activation = attribute(Activation.NONE, "fused_activation_function")

    def infer(self) -> TensorType:
        n, h, w, depth = require_rank(self.input, "input", 4) or (None,) * 4
        if self.filter_height < 1 or self.filter_width < 1:
            raise ShapeError(f"filter: expected at least 1x1, got {self.filter_height}x{self.filter_width}")
        rows = padded_window_count(h, self.filter_height, self.stride_h, 1, self.padding)
        columns = padded_window_count(w, self.filter_width, self.stride_w, 1, self.padding)
        return TensorType(self.input.dtype, (n, rows, columns, depth))

    def _reduce(self, input: Array, combine: np.ufunc, start: float) -> Array:
        """Return [N, OH, OW, C]: each window, without its padding, reduced to one element by ``combine``.

        ``start``: the neutral element of ``combine``.
        """
        taps, strides = (self.filter_height, self.filter_width), (self.stride_h, self.stride_w)
        geometry = Geometry.of(input.shape[1:3], taps, strides, (1, 1), self.padding)
        # a single window: along an axis with padding it covers all elements, along an axis without padding it
        # begins at element 0; in both cases the slice has exactly the elements of the window
        if geometry.windows == (1, 1):
            window = input[:, : taps[0], : taps[1]]
            return np.asarray(combine.reduce(window, axis=(1, 2), keepdims=True, initial=start))
        out = np.full((len(input), *geometry.windows, input.shape[3]), start, input.dtype)
        # for each tap (position in a window): the windows in which the tap reads an element, and the elements
        for _, windows, elements in geometry.overlaps():
            combine(out[windows], input[elements], out=out[windows])
        return out

    def _sum_and_count(self, input: Array) -> tuple[Array, Array]:
        """Return the sum of each window, [N, OH, OW, C], and its number of elements, [OH, OW, 1].

        Elements of the padding do not count.
        """
        total = self._reduce(input, np.add, 0)
        ones = np.ones((1, *input.shape[1:3], 1), total.dtype)
        return total, self._reduce(ones, np.add, 0)[0]


class AveragePool2D(_Pool2D, code="AVERAGE_POOL_2D", options="Pool2DOptions"):
    """The mean of each window without its padding.  Integers are rounded, a half away from zero."""

    quantization_rule = QuantizationRule(results_follow="input", averages=True)

    def kernel(self, input: Array) -> Array:
        if self.input.dtype not in INTEGER_POOL_DTYPES:
            require_float(self, input)
            total, count = self._sum_and_count(input)
            return apply_fused_activation(total / count, self.act)
        total, count = self._sum_and_count(input.astype(np.int64))
        mean = np.sign(total) * ((np.abs(total) + count // 2) // count)
        limits = quantized_activation_range(self.act, self.output)
        return np.asarray(np.clip(mean, *limits), input.dtype)


class MaxPool2D(_Pool2D, code="MAX_POOL_2D", options="Pool2DOptions"):
    """The largest element of each window.

    NaN and -inf are ignored, as in LiteRT; a window without other elements gives the lowest finite number.
    """

    def kernel(self, input: Array) -> Array:
        if self.input.dtype in INTEGER_POOL_DTYPES:
            out = self._reduce(input, np.maximum, np.iinfo(input.dtype).min)
            limits = quantized_activation_range(self.act, self.output)
            return np.asarray(np.clip(out, *limits), input.dtype)
        require_float(self, input)
        return apply_fused_activation(self._reduce(input, np.fmax, np.finfo(input.dtype).min), self.act)


class L2Pool2D(_Pool2D, code="L2_POOL_2D", options="Pool2DOptions", versions={}):
    """The root of the mean square of each window without its padding."""

    quantization_rule = OWN_RANGES

    def kernel(self, input: Array) -> Array:
        require_float(self, input)
        total, count = self._sum_and_count(np.square(input))
        return apply_fused_activation(np.sqrt(total / count), self.act)


def require_one_per_axis(numbers: list[int] | None, shape: Shape | None, name: str) -> None:
    """Raise ShapeError unless ``numbers`` is None or has one positive number for each axis of ``shape``.

    If ``shape`` is None, any number of positive numbers is accepted.
    """
    if numbers is None:
        return
    if any(n < 1 for n in numbers) or (shape is not None and len(numbers) != len(shape)):
        expected = f"one number for each axis of {format_shape(shape)}, each at least 1"
        raise ShapeError(f"{name}: expected {expected}, got {numbers}")


class Dilate(Op, code="DILATE"):
    """``input`` with ``dilations[i] - 1`` copies of ``padding_value`` between neighbors along each axis i."""

    quantization_rule = QuantizationRule(results_follow="input", operands_follow=("padding_value",))

    input = operand(*NUMBERS, boolean)
    dilations = operand(i32)
    padding_value = operand(*NUMBERS, boolean)

    def infer(self) -> TensorType:
        require_same_dtype("input", self.input, "padding_value", self.padding_value)
        require_elements(self.padding_value, "padding_value")
        shape, steps = self.input.shape, static_int_vector(self.dilations)
        require_one_per_axis(steps, shape, "dilations")
        if shape is None or steps is None:
            return TensorType(self.input.dtype, unknown_dims(self.input.rank))
        dims = (d and (d - 1) * s + 1 for d, s in zip(shape, steps, strict=True))  # None and 0 stay
        return TensorType(self.input.dtype, tuple(dims))

    def kernel(self, input: Array, dilations: Array, padding_value: Array) -> Array:
        steps = int_list(dilations)
        require_one_per_axis(steps, input.shape, "dilations")
        shape = [d and (d - 1) * s + 1 for d, s in zip(input.shape, steps, strict=True)]
        out = np.full(shape, padding_value.reshape(-1)[0], input.dtype)
        out[tuple(slice(None, None, s) for s in steps)] = input
        return out


_UFUNCS: dict[ReduceWindowFunction, Any] = {
    ReduceWindowFunction.ADD: np.add,
    ReduceWindowFunction.MUL: np.multiply,
    ReduceWindowFunction.MINIMUM: np.minimum,
    ReduceWindowFunction.MAXIMUM: np.maximum,
    ReduceWindowFunction.ALL: np.logical_and,
    ReduceWindowFunction.ANY: np.logical_or,
}


class ReduceWindow(Op, code="REDUCE_WINDOW"):
    """For each window: ``init_value`` and the elements, combined by ``reduce_function``.

    There is no padding.  MAXIMUM and MINIMUM of NaN are NaN, as in StableHLO; in LiteRT, the result depends
    on the order of the elements.
    """

    quantization_rule = QuantizationRule(results_follow="input", operands_follow=("init_value",))

    input = operand(*NUMBERS, boolean)
    init_value = operand(*NUMBERS, boolean)
    window_shape = operand(i64)
    window_strides = operand(i64)
    window_dilations = operand(i64)

    reduce_function: ReduceWindowFunction = attribute(ReduceWindowFunction.UNSUPPORTED)

    WINDOW_OPERANDS: ClassVar = ("window_shape", "window_strides", "window_dilations")

    def integer_fault(self) -> str | None:
        """Return why no kernel is right for quantized integers; None for MAXIMUM and MINIMUM.

        The kernels of MAXIMUM and MINIMUM are right, because results and operands share one scale.
        """
        if self.reduce_function in (ReduceWindowFunction.MAXIMUM, ReduceWindowFunction.MINIMUM):
            return None
        return f"REDUCE_WINDOW by {self.reduce_function.name} has no kernel that scales integers"

    def infer(self) -> TensorType:
        require_same_dtype("input", self.input, "init_value", self.init_value)
        require_elements(self.init_value, "init_value")
        shape = self.input.shape
        if shape is None:
            return TensorType(self.input.dtype, None)
        numbers = []
        for name in self.WINDOW_OPERANDS:
            numbers.append(static_int_vector(getattr(self, name)))
            require_one_per_axis(numbers[-1], shape, name)
        known = [n for n in numbers if n is not None]
        if len(known) < len(numbers):
            return TensorType(self.input.dtype, (None,) * len(shape))
        return TensorType(
            self.input.dtype, tuple(window_count(*axis) for axis in zip(shape, *known, strict=True))
        )

    def kernel(self, input: Array, init_value: Array, *windows: Array) -> Array:
        combine = _UFUNCS.get(self.reduce_function)
        if combine is None:
            raise UnsupportedError(f"REDUCE_WINDOW by {self.reduce_function!r} has no kernel")
        sizes, strides, dilations = lists = [int_list(a) for a in windows]
        for name, numbers in zip(self.WINDOW_OPERANDS, lists, strict=True):
            require_one_per_axis(numbers, input.shape, name)
        axes = zip(input.shape, sizes, strides, dilations, strict=True)
        shape = known_dims(window_count(*axis) for axis in axes)
        if 0 in shape:
            return np.full(shape, init_value.reshape(-1)[0], input.dtype)
        # the number of elements from the first to the last element of a window
        spans = tuple((n - 1) * d + 1 for n, d in zip(sizes, dilations, strict=True))
        # the first axes of ``views`` are the windows, the others the elements of a window
        views = np.lib.stride_tricks.sliding_window_view(input, spans)
        views = views[tuple(slice(None, None, s) for s in (*strides, *dilations))]
        window_axes = tuple(range(input.ndim, 2 * input.ndim))
        is_logical = combine in (np.logical_and, np.logical_or)  # numpy's results are bool
        reduced = combine.reduce(views, axis=window_axes, dtype=None if is_logical else input.dtype)
        return np.asarray(combine(init_value.reshape(-1)[0], reduced)).astype(input.dtype)


def window_count(size: int | None, taps: int, stride: int, dilation: int) -> int | None:
    """Return the number of windows of ``taps`` elements over ``size`` elements; None if ``size`` is None."""
    if size is None:
        return None
    return max(0, (size - (taps - 1) * dilation - 1) // stride + 1)
