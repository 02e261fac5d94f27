# SPDX-License-Identifier: Apache-2.0
"""Give the operators of a float model other dtypes: quantized, integer, hybrid, with float16 constants.

Operators that have no such form stay float, between conversions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import NamedTuple

import numpy as np

from circlekit.errors import CirclekitError
from circlekit.interp import run
from circlekit.ir.clone import clone
from circlekit.ir.declaration import Operand
from circlekit.ir.dtypes import DType, boolean, f32, i8, i16, i32, i64, u8
from circlekit.ir.graph import Graph, Model
from circlekit.ir.op import REGISTRY, Op, OpaqueOp
from circlekit.ir.value import Array, Quantization, Value
from circlekit.ops.arithmetic.cast import Cast, Dequantize, Quantize
from circlekit.ops.quantization import dtype_limits
from circlekit.testing.model_builder import ModelBuilder, Rejected

CHANGED = 0.9
"""Probability that an input or an operator gets another dtype."""

FILTERS = frozenset({"filter", "weights", "weight", "y"})
"""Names of operands that hybrid operators have as int8."""


class Retype(NamedTuple):
    """``dtype``: of the data.  ``quantized``: it has a scale; ``per_channel``: constant filters have several.

    ``constants_only``: the data stays float.
    """

    name: str
    dtype: DType
    quantized: bool = False
    per_channel: bool = False
    constants_only: bool = False


RETYPES = (
    Retype("int8", i8, True),
    Retype("int8 per channel", i8, True, True),
    Retype("uint8", u8, True),
    Retype("int16x8", i16, True, True),
    Retype("int16", i16),
    Retype("int32", i32),
    Retype("int64", i64),
    Retype("plain int8", i8),
    Retype("bool", boolean),
    Retype("float16 constants", DType.FLOAT16, constants_only=True),
    Retype("hybrid", i8, True, constants_only=True),
    Retype("hybrid per channel", i8, True, True, constants_only=True),
)


def retype(
    model: Model, inputs: Sequence[Array], kind: Retype, random: np.random.Generator
) -> tuple[Model, list[Array]] | None:
    """Return a copy of ``model`` with other dtypes, and inputs for it; None if no operator has such a form.

    Operators and values of graphs that operators call stay as they are.
    """
    model = clone(model)
    arrays: dict[Value, Array] = dict(zip(model.main.inputs, inputs, strict=True))

    def observe(op: Op, results: Sequence[Array]) -> None:
        arrays.update(zip(op.results, results, strict=True))

    with np.errstate(all="ignore"):
        run(model, inputs, observe=observe)
    work = _Retyping(model.main, arrays, kind, random)
    if not work.run():
        return None
    made = work.builder.graph
    return Model([made, *model.graphs[1:]], format=model.format), [
        work.builder.arrays[v] for v in made.inputs
    ]


class _Retyping:
    """``arrays``: the data of each value of the ``old`` graph.

    ``made``: by such a value, and whether it has its new dtype, the value of the new graph.
    """

    def __init__(
        self, old: Graph, arrays: Mapping[Value, Array], kind: Retype, random: np.random.Generator
    ) -> None:
        self.old, self.arrays, self.kind, self.random = old, arrays, kind, random
        self.made: dict[tuple[Value, bool], Value] = {}
        self.builder = ModelBuilder(Graph(old.name), (), random)
        self.builder.allow_extremes = True

    def run(self) -> int:
        """Fill the new graph; return how many of its operators have other dtypes."""
        count = 0
        for value in self.old.inputs:
            self._input(value)
        for op in self.old:
            new = None
            if not isinstance(op, OpaqueOp) and not op.called_graphs() and self.random.random() < CHANGED:
                with suppress(Rejected, CirclekitError, ValueError, IndexError, TypeError, AttributeError):
                    new = self._typed(op)
            count += new is not None
            new = new or self._copied(op)
            for old, value in zip(op.results, new.results, strict=True):
                self.made[old, self._may_change(old) and value.dtype is not f32] = value
        self.builder.remove_rejected()
        self.builder.graph.outputs = tuple(self._any(value) for value in self.old.outputs)
        return count

    def _may_change(self, value: Value) -> bool:
        return value.dtype is f32 and value.quantization is None and not value.is_variable

    def _input(self, value: Value) -> None:
        array, made = self.arrays[value], Value(value.name, value.dtype, value.shape)
        made.quantization = value.quantization
        changes = self._may_change(value) and not self.kind.constants_only and self.random.random() < CHANGED
        if changes:
            made.dtype, made.quantization = self.kind.dtype, self._quantization(value)
            array = _stored(array, made.quantization, made.dtype)
        self.made[value, changes] = self.builder.new_input(made, array)

    # -- operators -----------------------------------------------------------------------------

    def _typed(self, op: Op) -> Op | None:
        """Return the operator on operands of the new dtype; None if no operand can have it."""
        operands: list[Value | None] = []
        for index, value in enumerate(op.inputs):
            spec = op.operands[min(index, len(op.operands) - 1)]
            operands.append(None if value is None else self._operand(op, spec, value, operands))
        known = [None if v is None else self.made.get((v, False), v) for v in op.inputs]
        if operands == known:
            return None
        results = [Value(value.name, value.dtype, value.shape) for value in op.results]
        new = type(op)(*operands, results=results, **op.attribute_values)
        same = next((v for v in operands if v is not None and v.dtype is self.kind.dtype), None)
        for old, value, kind in zip(op.results, results, new.inferred(), strict=True):
            value.dtype, value.quantization = kind.dtype, kind.quantization
            if kind.dtype is self.kind.dtype and self.kind.quantized and kind.quantization is None:
                value.quantization = self._quantization(old, op.code)
                if op.data_movement and same is not None:
                    value.quantization = same.quantization
        self.builder.put(new)
        return new

    def _operand(self, op: Op, spec: Operand, value: Value, before: Sequence[Value | None]) -> Value:
        """Return the operand for ``value``; raise Rejected if the operator has no operand of its dtype."""
        kind, is_filter = self.kind, spec.name in FILTERS
        if not self._may_change(value):
            return self._any(value)
        if spec.name == "bias" and value.is_plain and kind.quantized and not kind.constants_only:
            return self._bias(value, before)
        if kind.constants_only and not (value.is_plain and (is_filter or kind.dtype is DType.FLOAT16)):
            return self._float(value)
        is_narrow = kind.dtype is i16 and kind.quantized and is_filter and value.is_plain  # 16x8
        dtype = i8 if is_narrow else kind.dtype
        if spec.dtypes and (f32 if dtype is DType.FLOAT16 else dtype) not in spec.dtypes:
            raise Rejected
        if not value.is_plain:
            return self._other(value)
        axis = value.rank - 1 if op.code == "DEPTHWISE_CONV_2D" and value.rank else 0
        return self._constant(value, dtype, is_filter, axis if kind.per_channel and is_filter else None)

    def _copied(self, op: Op) -> Op:
        """Return the operator as it was, on operands that are converted back."""
        operands = [None if value is None else self._float(value) for value in op.inputs]
        results = [Value(v.name, v.dtype, v.shape, None, v.quantization) for v in op.results]
        if isinstance(op, OpaqueOp):
            new: Op = OpaqueOp(*operands, code=op.code, custom_code=op.custom_code, results=results)
        else:
            new = type(op)(*operands, results=results, **op.attribute_values)
        self.builder.put(new)
        return new

    # -- values --------------------------------------------------------------------------------

    def _any(self, value: Value) -> Value:
        return self.made.get((value, True)) or self._float(value)

    def _float(self, value: Value) -> Value:
        """Return the value with its old dtype."""
        if (value, False) not in self.made:
            other = self.made.get((value, True))
            if other is None:
                return value  # a constant or a variable
            result = Value("", f32, value.shape)
            is_quantized = self.kind.quantized
            op = Dequantize(other, results=[result]) if is_quantized else _cast(other, result)
            self.made[value, False] = self._added(op, value)
        return self.made[value, False]

    def _other(self, value: Value) -> Value:
        """Return the value with the new dtype."""
        if (value, True) not in self.made:
            source, dtype = self._float(value), self.kind.dtype
            result = Value("", dtype, value.shape, None, self._quantization(value))
            is_quantized = self.kind.quantized
            op = Quantize(source, results=[result]) if is_quantized else _cast(source, result)
            self.made[value, True] = self._added(op, value)
        return self.made[value, True]

    def _added(self, op: Op, value: Value) -> Value:
        op.results[0].name = self.builder.graph.unique_name(value.name or "v")
        return self.builder.add(op)

    def _constant(self, value: Value, dtype: DType, is_filter: bool, axis: int | None) -> Value:
        array = value.array()
        if dtype is DType.FLOAT16:
            half = Value.constant(value.name, _stored(array, None, dtype))
            return self._added(Dequantize(half, results=[Value("", f32, value.shape)]), value)
        quantization = None
        if self.kind.quantized:
            quantization = _quantization_of(array, dtype, is_filter, axis if array.ndim > 1 else None)
        return Value.constant(value.name, _stored(array, quantization, dtype), quantization)

    def _bias(self, value: Value, before: Sequence[Value | None]) -> Value:
        """Return a bias with the scale of data times weights, which are the quantized ones of ``before``."""
        first, second = (v.quantization.scale for v in before if v is not None and v.quantization is not None)
        scale = np.asarray(first * second, np.float32).reshape(-1)
        quantization = Quantization(scale, np.zeros(scale.size, np.int64))
        dtype = i64 if self.kind.dtype is i16 else i32
        return Value.constant(value.name, _stored(value.array(), quantization, dtype), quantization)

    def _quantization(self, value: Value, code: str = "") -> Quantization | None:
        if not self.kind.quantized:
            return None
        rule = REGISTRY[code].quantization_rule if code in REGISTRY else None
        if rule is not None and self.kind.dtype in rule.fixed:
            scale, zero_point = rule.fixed[self.kind.dtype]
            return Quantization(np.array([scale], np.float32), np.array([zero_point]))
        return _quantization_of(self.arrays[value], self.kind.dtype)


def _cast(source: Value, result: Value) -> Op:
    return Cast(source, in_data_type=source.dtype, out_data_type=result.dtype, results=[result])


def _quantization_of(
    array: Array, dtype: DType, symmetric: bool = False, axis: int | None = None
) -> Quantization:
    """Return a quantization that covers ``array``; per index of ``axis`` if that is given."""
    low, high = dtype_limits(dtype)
    finite = np.where(np.isfinite(array), array, 0.0).astype(np.float64)
    if axis is not None:
        peaks = np.abs(np.moveaxis(finite, axis, 0)).reshape(finite.shape[axis], -1).max(1, initial=0.05)
        return Quantization((peaks / high).astype(np.float32), np.zeros(peaks.size, np.int64), axis)
    least, most = min(finite.min(initial=0.0), 0.0), max(finite.max(initial=0.0), 0.05)
    if dtype is i16 or (symmetric and dtype is not u8):
        return Quantization(np.array([max(-least, most) / high], np.float32), np.zeros(1, np.int64))
    scale = (most - least) / (high - low)
    zero = int(np.clip(round(low - least / scale), low, high))
    return Quantization(np.array([scale], np.float32), np.array([zero]))


def _stored(array: Array, quantization: Quantization | None, dtype: DType) -> Array:
    """Return finite elements as ``dtype``, quantized if ``quantization`` is given."""
    assert dtype.numpy is not None
    data = np.where(np.isfinite(array), array, 0.0).astype(np.float64)
    if dtype.numpy.kind in "iu":
        if quantization is not None:
            shape = [1] * array.ndim
            if quantization.is_per_channel:
                shape[quantization.quantized_dimension] = -1
            data = data / quantization.scale.reshape(shape) + quantization.zero_point.reshape(shape)
        data = np.clip(np.round(data), *dtype_limits(dtype))
    return np.asarray(data).astype(dtype.numpy)
