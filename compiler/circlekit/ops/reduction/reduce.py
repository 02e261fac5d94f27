# SPDX-License-Identifier: Apache-2.0
"""Reductions, ARG_MAX and ARG_MIN.  Source: TFLite reduce, arg_min_max.

Class arguments: ``versions`` is the operator version for data of a dtype, ``reference_version`` the newest
version that LiteRT's reference kernels implement.  The axes of ``layout_operands`` may be permuted if the
operands ``axis_numbers`` are changed accordingly.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any, ClassVar

import numpy as np

from circlekit.errors import ShapeError, UnsupportedError
from circlekit.ir.dtypes import DType, boolean, i8, i16, i32, i64, u8
from circlekit.ir.op import Op, attribute, operand
from circlekit.ir.quantization_rule import OWN_RANGES, QuantizationRule
from circlekit.ir.value import Array, TensorType
from circlekit.ops.checks import no_quantized_kernel, reject_quantized, require_numpy_kind
from circlekit.ops.constant_operands import int_list, static_int, static_int_vector
from circlekit.ops.dimensions import normalized_axis, unknown_dims
from circlekit.ops.numerics.fixed_point import (
    QuantizedMultiplier,
    clamp_to_dtype,
    multiply_by_quantized_multiplier,
    multiply_by_quantized_multiplier_half_up,
    multiply_by_quantized_multiplier_int64,
    quantize_multiplier,
    round_half_away,
)
from circlekit.ops.numerics.output_stage import follows_optimized_kernels, in_full_group
from circlekit.ops.operand_dtypes import INDICES, NUMBERS
from circlekit.ops.quantized_values import (
    have_same_quantization,
    is_quantized_8_or_16_bits,
    per_tensor_quantization,
    scale_of,
    zero_point_of,
)

Axes = tuple[int, ...]
"""The axes of a reduction, each once and not negative."""


def reduced_axes(axes: Sequence[int], rank: int) -> Axes:
    """Return the axes of a reduction, each once and not negative; raise ShapeError for a wrong axis.

    For rank 0 return (): a scalar is reduced to itself, whatever the axes are, as in LiteRT.
    """
    return () if rank == 0 else tuple(dict.fromkeys(normalized_axis(a, rank) for a in axes))


class Reduction(Op, layout_operands=("input",), axis_numbers=("axis",)):
    """Base class of reductions along ``axis``, which lists any number of axes in any order.

    ``keep_dims``: the reduced axes stay in the result as dimensions of 1.  Quantized data of 8 or 16 bits go
    to ``quantized``, all other data to ``compute``.
    """

    quantization_rule = OWN_RANGES

    input = operand(*NUMBERS)
    axis = operand(i32)

    keep_dims: bool = attribute(False)

    kinds: ClassVar[str] = "fiu"
    """The kinds of dtypes that ``compute`` takes, as letters of numpy: float, int, unsigned, bool."""
    function: ClassVar[Any] = None
    """The ufunc that combines two elements."""

    def infer(self) -> TensorType:
        shape, axes = self.input.shape, static_int_vector(self.axis)
        if shape is None or axes is None:
            return TensorType(self.input.dtype, unknown_dims(self.input.rank) if self.keep_dims else None)
        # a scalar is reduced to itself; but unless the input is a constant, [] may mean an unknown rank
        if not shape and axes and not self.input.is_const:
            raise ShapeError(f"{self.code}: expected an input of rank 1 or more for the axes {axes}, got []")
        reduced = reduced_axes(axes, len(shape))
        if self.keep_dims:
            return TensorType(self.input.dtype, tuple(1 if i in reduced else d for i, d in enumerate(shape)))
        return TensorType(self.input.dtype, tuple(d for i, d in enumerate(shape) if i not in reduced))

    def kernel(self, input: Array, axis: Array) -> Array:
        axes = reduced_axes(int_list(axis), input.ndim)
        if is_quantized_8_or_16_bits(self.input):
            return self.quantized(input, axes)
        require_numpy_kind(self, input, self.kinds)
        return self.compute(input, axes)

    def compute(self, x: Array, axes: Axes) -> Array:
        """Return the results in the dtype of ``x``; ignore the scale of the input, if it has one."""
        return np.asarray(self.function.reduce(x, axis=axes, dtype=x.dtype, keepdims=self.keep_dims))

    def quantized(self, x: Array, axes: Axes) -> Array:
        """Return the integer results for ``x``, the quantized elements of the input (8 or 16 bits).

        Raise UnsupportedError here; operators with quantized kernels override this method.
        """
        raise no_quantized_kernel(self, self.input)

    def int32_sums(self, x: Array, axes: Axes) -> Array:
        """Return the sums of quantized integers as int32, which wrap around."""
        return np.asarray(np.sum(x, axis=axes, dtype=np.int32, keepdims=self.keep_dims))

    def permuted(self, perm: tuple[int, ...]) -> dict[str, Any] | None:
        return super().permuted(perm) if self.keep_dims else None


def elements_per_result(x: Array, axes: Axes) -> int:
    """Return how many elements of ``x`` are reduced to one result."""
    return prod(x.shape[a] for a in axes)


class Mean(Reduction, code="MEAN", options="ReducerOptions", versions={i8: 2, i16: 3}):
    """The mean.  Plain integers are rounded towards zero, quantized integers to the nearest.

    LiteRT has an optimized kernel for means of 8-bit data over height and width with ``keep_dims``.
    """

    def compute(self, x: Array, axes: Axes) -> Array:
        count = elements_per_result(x, axes)
        if x.dtype.kind == "f":
            # float64: the mean of equal elements is exact
            total = np.sum(x, axis=axes, dtype=np.float64, keepdims=self.keep_dims)
            return np.asarray(total / count, x.dtype)
        total = np.sum(x, axis=axes, dtype=np.int64, keepdims=self.keep_dims)
        return np.asarray((total - np.fmod(total, count)) // count, x.dtype)

    def quantized(self, x: Array, axes: Axes) -> Array:
        count = elements_per_result(x, axes)
        total = self.int32_sums(x, axes)
        if count == 0:
            return total.astype(x.dtype)
        if follows_optimized_kernels() and self._has_optimized_kernel(x, axes):
            return self._optimized_mean(total, count)
        centered = total - zero_point_of(self.input) * count
        mantissa, exponent = quantize_multiplier(float(scale_of(self.input)) / float(scale_of(self.output)))
        # the multiplier includes the division by ``count``; the mantissa is shifted first to keep its bits
        shift = min(count.bit_length() - 1, 32, 31 + int(exponent))
        divided = QuantizedMultiplier((mantissa << shift) // count, exponent - shift)
        return clamp_to_dtype(multiply_by_quantized_multiplier(centered, divided), self.output)

    def _has_optimized_kernel(self, x: Array, axes: Axes) -> bool:
        return self.keep_dims and x.ndim == 4 and x.dtype.itemsize == 1 and sorted(axes) == [1, 2]

    def _optimized_mean(self, total: Array, count: int) -> Array:
        """Return the means that LiteRT's optimized kernel gives.

        ``total``: sums of ``count`` elements each.  The zero point of the input is rescaled and rounded
        separately.  Source: TFLite kernels/internal/optimized/integer_ops/mean.h, which computes in float32.
        """
        scale, output_scale = scale_of(self.input), scale_of(self.output)
        shift = round_half_away(np.float32(zero_point_of(self.input)) * scale / output_scale)
        multiplier = quantize_multiplier(scale / (np.float32(count) * output_scale))
        means = np.where(
            in_full_group(total.shape[-1], 16),
            multiply_by_quantized_multiplier_half_up(total, multiplier),
            multiply_by_quantized_multiplier(total, multiplier),
        )
        return clamp_to_dtype(means - int(shift), self.output)


class Sum(Reduction, code="SUM", options="ReducerOptions", versions={i8: 2}, kinds="fiub", function=np.add):
    """The sum.  Integers wrap around; for bools the result is whether at least one is true.

    LiteRT's reference kernel reads quantized int8 and int16 as uint8, by mistake.  Here they are summed as in
    LiteRT's optimized kernel, and rescaled in float32.  Quantized uint8 is rescaled in fixed point, or in
    float32 like the optimized kernel if it is followed.
    """

    input = operand(*NUMBERS, boolean)

    def quantized(self, x: Array, axes: Axes) -> Array:
        count, total = elements_per_result(x, axes), self.int32_sums(x, axes)
        if count == 0:
            return np.zeros(total.shape, x.dtype)
        if x.dtype == np.uint8 and not follows_optimized_kernels():
            multiplier = quantize_multiplier(float(scale_of(self.input)) / float(scale_of(self.output)))
            centered = total - zero_point_of(self.input) * count
            return clamp_to_dtype(multiply_by_quantized_multiplier(centered, multiplier), self.output)
        scale = scale_of(self.input) / scale_of(self.output)
        bias = np.float32(-zero_point_of(self.input)) * scale * np.float32(count)
        rounded = round_half_away(total.astype(np.float32) * scale + bias)
        return clamp_to_dtype(rounded.astype(np.int64), self.output)


class ReduceProd(Reduction, code="REDUCE_PROD", options="ReducerOptions", versions={i8: 2, i16: 2}):
    """The product.  Integers wrap around; for bools the result is whether all are true.

    For quantized data, the product is rescaled by a 15-bit multiplier after each factor.  So the next product
    does not overflow.
    """

    quantization_rule = QuantizationRule(rounds_inside=True)  # each product is rounded to integers

    input = operand(*NUMBERS, boolean)

    kinds = "fiub"
    function = np.multiply

    def permuted(self, perm: tuple[int, ...]) -> dict[str, Any] | None:
        # another order of the factors could change what overflows, and how quantized products are rounded
        changes = super().permuted(perm)
        axes = [] if changes is None else [perm[a] for a in sorted({*changes["axis"].reshape(-1).tolist()})]
        return changes if axes == sorted(axes) else None

    def quantized(self, x: Array, axes: Axes) -> Array:
        if self.input.dtype is u8:
            reject_quantized(self)
        count = elements_per_result(x, axes)
        if count == 0:
            raise UnsupportedError("REDUCE_PROD of no quantized elements is undefined in LiteRT")
        if count == 1 and follows_optimized_kernels():  # they copy, even if the scales differ
            return x if self.keep_dims else np.squeeze(x, axes)
        # there are ``count`` rescalings, which together divide by the scale of the output
        scale_per_step = float(scale_of(self.output)) ** (1 / count)
        multiplier = quantize_multiplier(float(scale_of(self.input)) / scale_per_step)
        centered = np.moveaxis(x, sorted(axes), range(len(axes))).astype(np.int64) - zero_point_of(self.input)
        factors = centered.reshape(count, *centered.shape[len(axes) :])
        product = factors[0]
        for factor in factors[1:]:  # rounded after each step
            product = multiply_by_quantized_multiplier_int64(product * factor, multiplier)
        result = clamp_to_dtype(multiply_by_quantized_multiplier_int64(product, multiplier), self.output)
        return np.expand_dims(result, sorted(axes)) if self.keep_dims else result


class ReduceExtreme(Reduction, versions={i8: 2, i16: 3}, kinds="fiub"):
    """Base class of REDUCE_MAX and REDUCE_MIN.  NaN is ignored.

    REDUCE_MAX starts from the lowest finite number of the dtype, REDUCE_MIN from the highest.  That number is
    the result if there are no elements, or if each is NaN or the infinity beyond it.  LiteRT's optimized
    kernels, and over all axes also its reference kernel, start from the first element, which may be NaN.
    """

    quantization_rule = QuantizationRule(results_follow="input")

    input = operand(*NUMBERS, boolean)

    def infer(self) -> TensorType:
        inferred = super().infer()
        return TensorType(inferred.dtype, inferred.shape, per_tensor_quantization(self.input))

    start: ClassVar[int] = 0
    """The number from which the reduction starts, as an index into ``finite_limits``."""

    def compute(self, x: Array, axes: Axes) -> Array:
        start = finite_limits(x.dtype)[self.start]
        return np.asarray(self.function.reduce(x, axis=axes, keepdims=self.keep_dims, initial=start))

    def quantized(self, x: Array, axes: Axes) -> Array:
        if not have_same_quantization(self.input, self.output):
            reject_quantized(self)
        return self.compute(x, axes)


def finite_limits(dtype: np.dtype[Any]) -> tuple[Any, Any]:
    """Return the smallest and the largest finite number of ``dtype``; False and True for bool."""
    if dtype.kind == "b":
        return False, True
    limits = np.finfo(dtype) if dtype.kind == "f" else np.iinfo(dtype)
    return limits.min, limits.max


class ReduceMax(ReduceExtreme, code="REDUCE_MAX", options="ReducerOptions", function=np.fmax):
    """The largest element."""


class ReduceMin(ReduceExtreme, code="REDUCE_MIN", options="ReducerOptions", function=np.fmin, start=1):
    """The smallest element."""


class ReduceAny(Reduction, code="REDUCE_ANY", options="ReducerOptions", kinds="b", function=np.logical_or):
    """Whether at least one element is true."""

    input = operand(boolean)


class ReduceAll(Reduction, code="REDUCE_ALL", options="ReducerOptions", kinds="b", function=np.logical_and):
    """Whether all elements are true."""

    input = operand(boolean)


class ArgExtreme(Op, versions={i8: 2, boolean: 3}):
    """Base class of ARG_MAX and ARG_MIN: the index of the first extreme element along the axis ``dimension``.

    The result does not have that axis.  NaN is ignored; if all elements are NaN, the index is 0.  An axis of
    0 elements has no extreme: the shape rule refuses it.
    """

    quantization_rule = OWN_RANGES

    input = operand(*NUMBERS, boolean)
    dimension = operand(*INDICES)

    output_type: DType = attribute(DType.FLOAT32)  # the schema's default, which no kernel takes

    function: ClassVar[Any] = None
    """The ufunc that returns the extreme of two elements, ignoring NaN."""

    def infer(self) -> TensorType:
        if self.output_type not in (i32, i64):
            raise ShapeError(f"expected output_type i32 or i64, got {self.output_type.short}")
        shape, axis = self.input.shape, static_int(self.dimension, "dimension")
        if shape is None or axis is None:
            return TensorType(self.output_type, None if shape is None else unknown_dims(len(shape) - 1))
        axis = normalized_axis(axis, len(shape))
        if shape[axis] == 0:
            raise ShapeError(f"{self.code}: expected elements along axis {axis}, got none")
        return TensorType(self.output_type, (*shape[:axis], *shape[axis + 1 :]))

    def kernel(self, input: Array, dimension: Array) -> Array:
        axis = normalized_axis(int(dimension.reshape(-1)[0]), input.ndim)
        extreme = self.function.reduce(input, axis=axis, keepdims=True)
        return np.asarray(np.argmax(input == extreme, axis=axis), self.output_type.numpy)


class ArgMax(ArgExtreme, code="ARG_MAX", reference_version=2, function=np.fmax):
    """The index of the largest element."""


class ArgMin(ArgExtreme, code="ARG_MIN", reference_version=2, function=np.fmin):
    """The index of the smallest element."""
