# SPDX-License-Identifier: Apache-2.0
"""Many elements to one, and running sums.  Source: TFLite reduce, arg_min_max, cumsum."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import numpy as np

from circlekit.errors import ShapeError, UnsupportedError
from circlekit.ir.dtypes import DType, boolean, i8, i16, i32, i64, u8
from circlekit.ir.op import attribute, operand
from circlekit.ir.tape import NOW, Tape
from circlekit.ir.value import Array, TensorType
from circlekit.ops.checks import no_quantized_kernel, reject_quantized, require_numpy_kind
from circlekit.ops.constant_operands import (
    axis_after_transpose,
    int_list,
    permuted_axes,
    static_int,
    static_int_vector,
)
from circlekit.ops.dimensions import normalized_axis, unknown_dims
from circlekit.ops.numerics.fixed_point import (
    QuantizedMultiplier,
    multiply_by_quantized_multiplier,
    multiply_by_quantized_multiplier_int64,
    quantize_multiplier,
    round_half_away,
)
from circlekit.ops.numerics.lookup_tables import limited
from circlekit.ops.numerics.narrow import stored
from circlekit.ops.numerics.requantize import fixed_point
from circlekit.ops.numerics.stores import Span, write
from circlekit.ops.quantization import (
    dtype_limits,
    have_same_quantization,
    is_quantized_8_or_16_bits,
    per_tensor_quantization,
    scale_of,
    zero_point_of,
)
from circlekit.ops.versions import VersionedByDtype


class Reduction(VersionedByDtype):
    """One result for all elements along ``axis`` (one axis or several, in any order, or none).

    ``keep_dims``: the reduced dimensions stay, as 1.
    """

    input = operand()
    axis = operand(i32)

    keep_dims: bool = attribute(False)

    kinds: ClassVar[str] = "fiu"
    layout_operands = ("input",)

    def infer(self) -> TensorType:
        shape, axes = self.input.shape, static_int_vector(self.axis)
        if shape is None or axes is None:
            kept = shape is not None and self.keep_dims
            return TensorType(self.input.dtype, unknown_dims(self.input.rank) if kept else None)
        gone = self.axes(axes, len(shape))
        if self.keep_dims:
            return TensorType(self.input.dtype, tuple(1 if i in gone else d for i, d in enumerate(shape)))
        return TensorType(self.input.dtype, tuple(d for i, d in enumerate(shape) if i not in gone))

    def axes(self, axes: Sequence[int], rank: int) -> tuple[int, ...]:
        """``axes`` without negative ones and repetitions."""
        return tuple(dict.fromkeys(normalized_axis(a, rank) for a in axes))

    def kernel(self, input: Array, axis: Array) -> Array:
        axes = self.axes(int_list(axis), input.ndim)
        if is_quantized_8_or_16_bits(self.input):
            return self.quantized(input, axes)
        require_numpy_kind(self, input, self.kinds)
        with np.errstate(all="ignore"):
            return self.reduce(input, axes)

    def bind(self, tape: Tape, input: Array, axis: Array) -> Array | None:
        if not tape.fixed(axis):
            return None
        if is_quantized_8_or_16_bits(self.input):
            return self.bind_quantized(tape, input, self.axes(int_list(axis), input.ndim))
        require_numpy_kind(self, input, self.kinds)
        return self.write(tape, input, self.axes(int_list(axis), input.ndim))

    def bind_quantized(self, tape: Tape, x: Array, axes: tuple[int, ...]) -> Array | None:
        """``quantized`` on a tape."""
        shape = [1 if i in axes else d for i, d in enumerate(x.shape)]
        out = self.reduced(tape.empty(shape, self.output.dtype.numpy), axes)
        tape.do(stored, self.quantized, x, axes, out)
        return out

    def empty(self, tape: Tape, x: Array, axes: tuple[int, ...]) -> Array:
        """A place for the results, with the reduced dimensions as 1."""
        return tape.empty([1 if i in axes else d for i, d in enumerate(x.shape)], x.dtype)

    def reduced(self, out: Array, axes: tuple[int, ...]) -> Array:
        """``out`` without the reduced dimensions, unless they stay."""
        return out if self.keep_dims else np.squeeze(out, axes)

    def write(self, tape: Tape, x: Array, axes: tuple[int, ...]) -> Array:
        """The calls that make the results, and these."""
        out = self.empty(tape, x, axes)
        if self.function is not None:
            tape.do(self.function.reduce, x, axes, x.dtype, out, True)
        else:
            tape.do(stored, self.reduce, x, axes, self.reduced(out, axes))
        return self.reduced(out, axes)

    def quantized(self, x: Array, axes: tuple[int, ...]) -> Array:
        """The results, quantized as the output, of ``x``, quantized in 8 or 16 bits as the input."""
        raise no_quantized_kernel(self, self.input)

    def sums(self, x: Array, axes: tuple[int, ...]) -> Array:
        """Sums of quantized integers in int32, as LiteRT has them."""
        return np.asarray(np.sum(x, axis=axes, dtype=np.int32, keepdims=self.keep_dims))

    function: ClassVar[np.ufunc | None] = None
    """What makes one element of two; operators without it have ``reduce`` or ``write``."""

    def reduce(self, x: Array, axes: tuple[int, ...]) -> Array:
        """The results, of the same dtype as ``x``."""
        return self.write(NOW, x, axes)

    def permuted(self, perm: tuple[int, ...]) -> dict[str, Any] | None:
        axes = permuted_axes(self.axis, perm) if self.keep_dims else None
        return None if axes is None else {"axis": axes}


def group_size(x: Array, axes: tuple[int, ...]) -> int:
    """How many elements become one."""
    return int(np.prod([x.shape[a] for a in axes], dtype=np.int64))


class Mean(Reduction, code="MEAN", options="ReducerOptions", versions={i8: 2, i16: 3}):
    """The sum, divided by the count; integers round towards zero, quantized ones to the nearest."""

    def quantized(self, x: Array, axes: tuple[int, ...]) -> Array:
        count = group_size(x, axes)
        total = self.sums(x, axes)
        if count == 0:
            return total.astype(x.dtype)
        return limited(
            self.output,
            multiply_by_quantized_multiplier(
                total - zero_point_of(self.input) * count, self.multiplier(count)
            ),
        )

    def multiplier(self, count: int) -> QuantizedMultiplier:
        """What a sum of ``count`` elements is multiplied with."""
        mantissa, exponent = quantize_multiplier(float(scale_of(self.input)) / float(scale_of(self.output)))
        shift = min(count.bit_length() - 1, 32, 31 + int(exponent))
        return QuantizedMultiplier((mantissa << shift) // count, exponent - shift)

    def bind_quantized(self, tape: Tape, x: Array, axes: tuple[int, ...]) -> Array | None:
        count = group_size(x, axes)
        if count == 0 or x.size == 0:
            return None
        total = tape.empty([1 if i in axes else d for i, d in enumerate(x.shape)], np.int32)
        out = tape.empty(total.shape, self.output.dtype.numpy)
        tape.do(np.add.reduce, x, axes, np.int32, total, True)
        limits, zero = dtype_limits(self.output.dtype), zero_point_of(self.output)
        span = Span(zero, limits, float(count << (8 * x.itemsize)))
        moved = np.array([-zero_point_of(self.input) * count])
        end = fixed_point(self.multiplier(count), moved, span, wide=False)
        write(tape, end, total, out)
        return self.reduced(out, axes)

    def write(self, tape: Tape, x: Array, axes: tuple[int, ...]) -> Array:
        if x.dtype.kind != "f":
            return super().write(tape, x, axes)
        out = self.empty(tape, x, axes)
        tape.do(np.add.reduce, x, axes, x.dtype, out, True)
        tape.do(np.divide, out, np.asarray(group_size(x, axes), x.dtype), out)
        tape.limit(out, tape.reach(x))
        return self.reduced(out, axes)

    def reduce(self, x: Array, axes: tuple[int, ...]) -> Array:
        if x.dtype.kind == "f":
            return self.write(NOW, x, axes)
        total = np.asarray(np.sum(x, axis=axes, dtype=np.int64, keepdims=self.keep_dims))
        count = group_size(x, axes)
        return np.asarray(np.sign(total) * (np.abs(total) // count), x.dtype)


class Sum(Reduction, code="SUM", options="ReducerOptions", versions={i8: 2}):
    """The sum; integers wrap around, of truth values it is true where one is.

    LiteRT's reference takes quantized int8 and int16 for uint8, which is a mistake: they are summed here as
    its optimized kernel does, with a rescaling in float32.
    """

    kinds = "fiub"
    function = np.add

    def quantized(self, x: Array, axes: tuple[int, ...]) -> Array:
        count, total = group_size(x, axes), self.sums(x, axes)
        if count == 0:
            return np.zeros(total.shape, x.dtype)
        if x.dtype == np.uint8:
            by = quantize_multiplier(float(scale_of(self.input)) / float(scale_of(self.output)))
            return limited(
                self.output, multiply_by_quantized_multiplier(total - zero_point_of(self.input) * count, by)
            )
        scale = scale_of(self.input) / scale_of(self.output)
        bias = np.float32(-zero_point_of(self.input)) * scale * np.float32(count)
        return limited(self.output, round_half_away(total.astype(np.float32) * scale + bias).astype(np.int64))


class ReduceProd(Reduction, code="REDUCE_PROD", options="ReducerOptions", versions={i8: 2, i16: 2}):
    """The product; integers wrap around, of truth values it is true where all are.

    Quantized, each step is rescaled, with a multiplier of 15 bits, so that the next one fits.
    """

    kinds = "fiub"
    function = np.multiply

    def quantized(self, x: Array, axes: tuple[int, ...]) -> Array:
        if self.input.dtype is u8:
            reject_quantized(self)
        count = group_size(x, axes)
        if count == 0:
            raise UnsupportedError("REDUCE_PROD of no quantized element has no value in LiteRT")
        root = float(scale_of(self.output)) ** (1 / count)
        by = quantize_multiplier(float(scale_of(self.input)) / root)
        steps = np.moveaxis(x, sorted(axes), range(len(axes)))
        steps = steps.reshape(count, *steps.shape[len(axes) :]).astype(np.int64) - zero_point_of(self.input)
        product = steps[0]
        for step in steps[1:]:  # each rounding hangs on the one before
            product = multiply_by_quantized_multiplier_int64(product * step, by)
        result = limited(self.output, multiply_by_quantized_multiplier_int64(product, by))
        return np.expand_dims(result, sorted(axes)) if self.keep_dims else result


class Selection(Reduction):
    """The extreme element; of none, the identity of the comparison, as in LiteRT."""

    kinds = "fiub"
    versions: ClassVar = {i8: 2, i16: 3}

    def infer(self) -> TensorType:
        inferred = super().infer()
        return TensorType(inferred.dtype, inferred.shape, per_tensor_quantization(self.input))

    def kernel(self, input: Array, axis: Array) -> Array:
        out = self.bind(NOW, input, axis)
        assert out is not None  # the axis is fixed
        return out

    def bind(self, tape: Tape, input: Array, axis: Array) -> Array | None:
        require_numpy_kind(self, input, self.kinds)
        if not have_same_quantization(self.input, self.output):
            reject_quantized(self)
        return self.write(tape, input, self.axes(int_list(axis), input.ndim)) if tape.fixed(axis) else None


def least_of(dtype: np.dtype[Any]) -> Any:
    """The least finite number of ``dtype``; False is the least truth value."""
    return False if dtype.kind == "b" else np.finfo(dtype).min if dtype.kind == "f" else np.iinfo(dtype).min


def greatest_of(dtype: np.dtype[Any]) -> Any:
    """The greatest finite number of ``dtype``; True is the greatest truth value."""
    return True if dtype.kind == "b" else np.finfo(dtype).max if dtype.kind == "f" else np.iinfo(dtype).max


def passing_nan(find: Any, x: Array, axes: tuple[int, ...], keep_dims: bool, start: Any) -> Array:
    """The extreme that ``find`` (fmax, fmin) leaves of ``start`` and the elements along ``axes``."""
    return np.asarray(find.reduce(x, axis=axes, keepdims=keep_dims, initial=start))


class ReduceMax(Selection, code="REDUCE_MAX", options="ReducerOptions"):
    """The greatest element; NaN is passed by."""

    def reduce(self, x: Array, axes: tuple[int, ...]) -> Array:
        low = least_of(x.dtype)
        return passing_nan(np.fmax, x, axes, self.keep_dims, low)


class ReduceMin(Selection, code="REDUCE_MIN", options="ReducerOptions"):
    """The least element; NaN is passed by."""

    def reduce(self, x: Array, axes: tuple[int, ...]) -> Array:
        high = greatest_of(x.dtype)
        return passing_nan(np.fmin, x, axes, self.keep_dims, high)


class ReduceAny(Reduction, code="REDUCE_ANY", options="ReducerOptions"):
    """Whether one element is true."""

    kinds = "b"

    def reduce(self, x: Array, axes: tuple[int, ...]) -> Array:
        return np.asarray(np.any(x, axis=axes, keepdims=self.keep_dims))


class ReduceAll(Reduction, code="REDUCE_ALL", options="ReducerOptions"):
    """Whether all elements are true."""

    kinds = "b"

    def reduce(self, x: Array, axes: tuple[int, ...]) -> Array:
        return np.asarray(np.all(x, axis=axes, keepdims=self.keep_dims))


class ArgExtreme(VersionedByDtype):
    """The index of the first extreme element along axis ``dimension``, which goes."""

    input = operand()
    dimension = operand(i32, i64)

    output_type: DType = attribute(DType.FLOAT32)

    versions: ClassVar = {i8: 2, boolean: 3}

    def infer(self) -> TensorType:
        if self.output_type not in (i32, i64):
            raise ShapeError(f"output_type is {self.output_type.name}, INT32 or INT64 is wanted")
        shape, axis = self.input.shape, static_int(self.dimension, "dimension")
        if shape is None or axis is None:
            return TensorType(self.output_type, None if shape is None else unknown_dims(len(shape) - 1))
        at = normalized_axis(axis, len(shape))
        return TensorType(self.output_type, (*shape[:at], *shape[at + 1 :]))

    def kernel(self, input: Array, dimension: Array) -> Array:
        axis = normalized_axis(int(dimension.reshape(-1)[0]), input.ndim)
        return np.asarray(self.find(input, axis), self.output_type.numpy)

    def find(self, x: Array, axis: int) -> Array:
        """The indices, of any integer dtype."""
        raise UnsupportedError(f"{self.code} has no kernel")


def first_extreme(x: Array, axis: int, find: Callable[..., Any], last: float) -> Array:
    """Where ``find`` finds the extreme.  NaN is passed by; 0 where there is nothing else."""
    nan = np.isnan(x) if x.dtype.kind == "f" else None
    if nan is None or not nan.any():
        return np.asarray(find(x, axis=axis))
    found = find(np.where(nan, last, x), axis=axis, keepdims=True)
    # NaN was taken for ``last``: all that are numbers are ``last`` too, the first of them is it
    found = np.where(np.take_along_axis(nan, found, axis), np.argmin(nan, axis=axis, keepdims=True), found)
    return np.asarray(np.squeeze(found, axis))


class ArgMax(ArgExtreme, code="ARG_MAX", reference_version=2):
    """Where the greatest element is."""

    def find(self, x: Array, axis: int) -> Array:
        return first_extreme(x, axis, np.argmax, -np.inf)


class ArgMin(ArgExtreme, code="ARG_MIN", reference_version=2):
    """Where the least element is."""

    def find(self, x: Array, axis: int) -> Array:
        return first_extreme(x, axis, np.argmin, np.inf)


class Cumsum(VersionedByDtype, code="CUMSUM"):
    """The sum of all elements up to each along one axis, without it where ``exclusive``, or from it on."""

    input = operand()
    axis = operand(i32)

    exclusive: bool = attribute(False)
    reverse: bool = attribute(False)

    layout_operands = ("input",)

    def infer(self) -> TensorType:
        axis = static_int(self.axis, "axis")
        if axis is not None and self.input.shape is not None:
            normalized_axis(axis, len(self.input.shape))
        return TensorType(self.input.dtype, self.input.shape)

    def kernel(self, input: Array, axis: Array) -> Array:
        if is_quantized_8_or_16_bits(self.input):
            reject_quantized(self)
        require_numpy_kind(self, input, "fi")
        at = normalized_axis(int(axis.reshape(-1)[0]), input.ndim)
        data = np.flip(input, at) if self.reverse else input
        with np.errstate(all="ignore"):
            sums = np.cumsum(data, axis=at, dtype=input.dtype)
        if self.exclusive:
            first = np.zeros_like(np.take(sums, [0], axis=at)) if sums.shape[at] else sums
            sums = np.concatenate([first, np.delete(sums, -1, axis=at)], axis=at) if sums.shape[at] else sums
        return np.flip(sums, at) if self.reverse else sums

    def permuted(self, perm: tuple[int, ...]) -> dict[str, Any] | None:
        axis = static_int(self.axis, "axis")
        if axis is None:
            return None
        data = self.axis.array()
        return {"axis": np.full(data.shape, axis_after_transpose(axis, perm), data.dtype)}
