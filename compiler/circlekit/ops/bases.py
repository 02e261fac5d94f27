# SPDX-License-Identifier: Apache-2.0
"""What operators of one kind have in common: versions by dtype, elementwise forms, data movement, checks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from circlekit.errors import ModelError, ShapeError, UnsupportedError
from circlekit.ir.dtypes import DType, bf16, i8, i16, u8
from circlekit.ir.op import Op, operand
from circlekit.ir.tape import NOW, Tape
from circlekit.ir.value import MAX_RANK, Array, Quantization, Shape, TensorType, Value, format_shape
from circlekit.ops.common import (
    broadcast_shapes,
    common_shape,
    normalized_axis,
    plain_data,
    rounded_to_bfloat16,
    static_int_vector,
)
from circlekit.ops.numerics.narrow import bound_narrow, bound_pairs, stored
from circlekit.ops.numerics.pairs import Pairwise

# -- quantization ------------------------------------------------------------------------------


def is_quantized(value: Value) -> bool:
    """Whether the integers of ``value`` stand for real numbers."""
    return value.dtype.is_integer and value.quantization is not None and value.quantization.scale.size > 0


def is_narrow(value: Value) -> bool:
    """Whether ``value`` is quantized in 8 or 16 bits; kernels take wider integers as they are."""
    return value.dtype in (i8, u8, i16) and is_quantized(value)


def same_grid(a: Value, b: Value) -> bool:
    """Whether equal integers of ``a`` and ``b`` stand for equal numbers; true of all that is not narrow."""
    if not (is_narrow(a) or is_narrow(b)):
        return True
    first, second = a.quantization, b.quantization
    return (
        first is not None
        and second is not None
        and np.array_equal(first.scale, second.scale)
        and zero_point(a) == zero_point(b)
    )


def refuse_quantized(op: Op) -> None:
    """UnsupportedError where an operand or a result of ``op`` is quantized: it would have to be rescaled."""
    for value in (*op.inputs, *op.results):
        if value is not None and is_quantized(value):
            raise no_quantized_kernel(op, value)


def no_quantized_kernel(op: Op, value: Value) -> UnsupportedError:
    """The error to raise for ``value``, a quantized operand or result of ``op``."""
    return UnsupportedError(f"{op.code} on quantized {value.dtype.short} (%{value.name}) has no kernel yet")


def zero_point(value: Value) -> int:
    """The integer that stands for 0.0 in ``value``; 0 where it is not quantized."""
    if not is_quantized(value) or value.quantization is None or not value.quantization.zero_point.size:
        return 0
    return int(value.quantization.zero_point[0])


def kept_quantization(value: Value) -> Quantization | None:
    """The quantization that rearranged elements of ``value`` have: its own, unless it follows an axis."""
    quantization = value.quantization
    return None if quantization is None or quantization.scale.size != 1 else quantization


def moved(value: Value, shape: Shape | None) -> TensorType:
    """The type of elements of ``value`` arranged as ``shape``."""
    return TensorType(value.dtype, shape, kept_quantization(value))


# -- checks ------------------------------------------------------------------------------------


def need_same_dtype(first: str, a: Value, second: str, b: Value) -> None:
    """ShapeError unless the operands named ``first`` and ``second`` have one dtype."""
    if a.dtype is not b.dtype:
        raise ShapeError(f"{first} is {a.dtype.short}, {second} is {b.dtype.short}, equal dtypes are wanted")


def need_integers(value: Value, name: str) -> None:
    """ShapeError unless operand ``name`` holds integers."""
    if not value.dtype.is_integer:
        raise ShapeError(f"{name} is {value.dtype.short}, integers are wanted")


def need_kind(op: Op, array: Array, kinds: str) -> None:
    """UnsupportedError unless the numpy kind of ``array`` (f, i, u, b, c) is one of ``kinds``."""
    if array.dtype.kind not in kinds:
        raise UnsupportedError(f"{op.code} on {array.dtype} has no kernel")


def need_count(shape: Shape | None, count: int, name: str) -> None:
    """ShapeError unless operand ``name``, of ``shape``, is, as far as known, a vector of ``count``."""
    if shape is not None and (len(shape) != 1 or shape[0] not in (None, count)):
        raise ShapeError(f"{name} has shape {format_shape(shape)}, [{count}] is wanted")


def single_int(value: Value, name: str) -> int | None:
    """The one element of a constant integer operand, None where it is no constant; ShapeError for several."""
    numbers = static_int_vector(value)
    if numbers is None:
        return None
    if len(numbers) != 1:
        raise ShapeError(f"{name} has {len(numbers)} elements, one is wanted")
    return numbers[0]


def vector_length(value: Value) -> int | None:
    """How many elements an operand of rank 1 has; None where unknown."""
    return value.shape[0] if value.shape is not None and len(value.shape) == 1 else None


def integers(array: Array) -> list[int]:
    """The elements of a parameter operand, flattened."""
    return [int(x) for x in array.reshape(-1)]


def whole_numbers(numbers: Iterable[Any], name: str) -> list[int]:
    """The elements of attribute ``name``; ModelError for one that is no whole number."""
    listed = list(numbers)
    for number in listed:
        if not isinstance(number, int | np.integer) or isinstance(number, bool):
            raise ModelError(f"{name} has the element {number!r}, whole numbers are wanted")
    return [int(number) for number in listed]


def unknown_dims(count: int | None) -> Shape | None:
    """A shape of ``count`` unknown dimensions; None where the count is unknown."""
    if count is not None and count > MAX_RANK:
        raise ShapeError(f"{count} dimensions, at most {MAX_RANK} can be")
    return None if count is None else (None,) * count


# -- layout ------------------------------------------------------------------------------------


def new_axis(axis: int, perm: Sequence[int]) -> int:
    """Where axis ``axis`` (which may be negative) is after a transpose by ``perm``."""
    return list(perm).index(normalized_axis(axis, len(perm)))


def permuted_rows(value: Value, perm: Sequence[int]) -> Array | None:
    """A constant with one entry (or row) an axis, in the order of the permuted axes; None if it is none."""
    data = plain_data(value)
    if data is None or data.ndim == 0 or data.shape[0] != len(perm):
        return None
    return np.ascontiguousarray(data[list(perm)])


def permuted_axes(value: Value, perm: Sequence[int]) -> Array | None:
    """A constant that lists axes, after a transpose by ``perm``; None where it is no constant."""
    data = plain_data(value)
    if data is None:
        return None
    axes = [new_axis(a, perm) for a in integers(data)]
    return np.asarray(axes, data.dtype).reshape(data.shape)


def held(array: Array, value: Value) -> Array:
    """``array`` as ``value`` can hold it: bfloat16, which kernels see as float32, is rounded."""
    return rounded_to_bfloat16(array) if value.dtype is bf16 else np.asarray(array)


def aligned(x: Array, y: Array, out: Array) -> tuple[Array, Array, Array]:
    """The same elements in the shapes that numpy's functions are quickest with: equal ones, or one number."""
    arrays = (x, y, out)
    if not all(a.flags.c_contiguous and a.size in (1, out.size) for a in arrays):
        return arrays
    x, y, out = (a.reshape(()) if a.size == 1 < out.size else a.reshape(-1) for a in arrays)
    return x, y, out


# -- kinds of operators ------------------------------------------------------------------------


class Typed(Op):
    """An operator whose version follows from the dtype of one operand.

    ``versions``: dtype to version, 1 for all others; ``typed_by``: the operand's index.
    Source of all versions: TFLite's op_version.cc.
    """

    versions: ClassVar[Mapping[DType, int]] = {}
    typed_by: ClassVar[int] = 0

    def required_version(self) -> int:
        value = self.inputs[self.typed_by] if self.typed_by < len(self.inputs) else None
        return 1 if value is None else self.versions.get(value.dtype, 1)


class Viewed(Typed):
    """An operator whose kernel gives views of its data, operand number ``typed_by``; the others say which."""

    def bind(self, tape: Tape, *operands: Any) -> Any:
        parameters = (a for i, a in enumerate(operands) if i != self.typed_by)
        return self.kernel(*operands) if tape.fixed(*parameters) else None


class Unary(Typed):
    """The same function of every element.  ``kinds``: the numpy kinds that it is computed on."""

    input = operand()

    kinds: ClassVar[str] = "f"
    layout_operands = ("input",)

    def infer(self) -> TensorType:
        return TensorType(self.input.dtype, self.input.shape)

    def kernel(self, input: Array) -> Array:
        if is_narrow(self.input):
            return self.quantized(input)
        need_kind(self, input, self.kinds)
        return held(self.compute(input), self.output)

    def bind(self, tape: Tape, input: Array) -> Array | None:
        if is_narrow(self.input):
            return bound_narrow(tape, self, self.quantized, input)
        if self.output.dtype is bf16:
            return None
        need_kind(self, input, self.kinds)
        out = tape.empty(input.shape, input.dtype)
        self.write(tape, input, out)
        tape.limit(out, self.reached(tape.reach(input)))
        return out

    def reached(self, reach: float) -> float:
        """A magnitude that no result but NaN exceeds, where no element but NaN exceeds ``reach``."""
        return np.inf

    def quantized(self, x: Array) -> Array:
        """The results, quantized as the output, of ``x``, quantized in 8 or 16 bits as the input."""
        raise no_quantized_kernel(self, self.input)

    function: ClassVar[Callable[..., Any] | None] = None
    """numpy's function of an array and a place for the results; operators without one have ``compute``."""

    def compute(self, x: Array) -> Array:
        """The results, of the same dtype as ``x``."""
        out = np.empty(x.shape, x.dtype)
        self.write(NOW, x, out)
        return out

    def write(self, tape: Tape, x: Array, out: Array) -> None:
        """The calls that make the results ``out``."""
        if self.function is None:
            tape.do(stored, self.compute, x, out)
        else:
            tape.do(self.function, x, out)

    def permuted(self, perm: tuple[int, ...]) -> dict[str, Any] | None:
        return {}


class Binary(Typed):
    """The same function of every two elements that broadcasting brings together."""

    lhs = operand()
    rhs = operand()

    kinds: ClassVar[str] = "fiu"
    layout_operands = ("lhs", "rhs")

    def infer(self) -> TensorType:
        need_same_dtype("lhs", self.lhs, "rhs", self.rhs)
        return TensorType(self.lhs.dtype, broadcast_shapes(self.lhs.shape, self.rhs.shape))

    def kernel(self, lhs: Array, rhs: Array) -> Array:
        if is_narrow(self.lhs):
            return self.quantized(lhs, rhs)
        need_kind(self, lhs, self.kinds)
        return held(self.compute(lhs, rhs), self.output)

    def bind(self, tape: Tape, lhs: Array, rhs: Array) -> Array | None:
        if is_narrow(self.lhs):
            return bound_pairs(tape, self, self.quantized, lhs, rhs, self.sketch())
        if self.output.dtype is bf16:
            return None
        out = tape.empty(common_shape(lhs, rhs), self.output.dtype.numpy)
        need_kind(self, lhs, self.kinds)
        self.write(tape, *aligned(lhs, rhs, out))
        return out

    def sketch(self) -> Pairwise | None:
        """What ``quantized`` of 8 bits may be in floats."""
        return None

    def quantized(self, x: Array, y: Array) -> Array:
        """The results, quantized as the output, of elements quantized in 8 or 16 bits as the operands."""
        raise no_quantized_kernel(self, self.lhs)

    function: ClassVar[Callable[..., Any] | None] = None
    """numpy's function of both and a place for the results; operators without one have ``compute``."""

    def compute(self, x: Array, y: Array) -> Array:
        """The broadcast results; ``x`` and ``y`` have one dtype."""
        out = np.empty(common_shape(x, y), x.dtype)
        self.write(NOW, x, y, out)
        return out

    def write(self, tape: Tape, x: Array, y: Array, out: Array) -> None:
        """The calls that make the results ``out``."""
        if self.function is None or out.dtype.hasobject or x.dtype.hasobject:
            tape.do(stored, self.compute, x, y, out)
        else:
            tape.do(self.function, x, y, out)

    def permuted(self, perm: tuple[int, ...]) -> dict[str, Any] | None:
        return {}

    def broadcasts_beyond_4d(self) -> bool:
        """Whether the operands' shapes differ and one has more than four dimensions."""
        ranks = [v.rank or 0 for v in (self.lhs, self.rhs)]
        return self.lhs.shape != self.rhs.shape and max(ranks) > 4
