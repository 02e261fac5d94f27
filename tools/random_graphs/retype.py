# SPDX-License-Identifier: Apache-2.0
"""Give the operators of a float model other dtypes: by a scheme of the quantizer, or integers without scales.

Operators that do not take the other dtype stay float, between conversions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress

import numpy as np

import circlekit
from circlekit.equivalence.real_numbers import stored_numbers
from circlekit.errors import CirclekitError
from circlekit.interp import run
from circlekit.ir.clone import clone
from circlekit.ir.dtypes import DType, boolean, f32, i8, i16, i32, i64
from circlekit.ir.graph import Graph, Model
from circlekit.ir.model_equality import difference
from circlekit.ir.op import Op, OpaqueOp
from circlekit.ir.value import Array, Value
from circlekit.ops.arithmetic.cast import Cast, Dequantize
from circlekit.testing.model_builder import ModelBuilder, Rejected

CHANGED = 0.9
"""Probability that an input or an operator gets another dtype."""

INTEGER_SCHEMES = ("int8", "int8_per_tensor", "uint8", "int16x8")
RETYPES: tuple[str | DType, ...] = (
    *INTEGER_SCHEMES, "dynamic_int8", DType.FLOAT16, i16, i32, i64, i8, boolean,
)  # fmt: skip
"""Schemes of ``circlekit.quantize``, float16 for constants alone, and dtypes of data without quantization."""


def retype(
    model: Model, inputs: Sequence[Array], kind: str | DType, seed: int
) -> tuple[Model, list[Array]] | None:
    """Return a copy of ``model`` with other dtypes, and inputs for it; None if no operator can change.

    ``kind``: one of RETYPES.  ``seed``: decides which inputs, outputs and operators change.
    """
    made = clone(model)
    if isinstance(kind, str):
        side = "integer" if kind in INTEGER_SCHEMES and seed % 4 < 2 else "float"
        circlekit.quantize(
            made, kind, samples=[list(inputs)], inputs=side, outputs=side, passes=[], auto=False
        )
        arrays = [stored_numbers(v, np.asarray(a)) for v, a in zip(made.main.inputs, inputs, strict=True)]
        return None if difference(made, model) is None else (made, arrays)
    if kind is DType.FLOAT16:
        return (made, list(inputs)) if _with_float16_constants(made.main) else None
    known: dict[Value, Array] = dict(zip(made.main.inputs, inputs, strict=True))

    def observe(op: Op, results: Sequence[Array]) -> None:
        known.update(zip(op.results, results, strict=True))

    with np.errstate(all="ignore"):
        run(made, inputs, observe=observe)
    work = _Retyping(made.main, known, kind, np.random.default_rng([seed, 11]))
    if not work.run():
        return None
    main = work.builder.graph
    return Model([main, *made.graphs[1:]], format=made.format), [work.builder.arrays[v] for v in main.inputs]


def _with_float16_constants(graph: Graph) -> int:
    """Replace each float constant by a float16 constant and a DEQUANTIZE; return how many there are."""
    found = [v for v in graph.values() if v.is_plain and v.dtype is f32 and v.use_count]
    for value in found:
        with np.errstate(over="ignore"):
            half = Value.constant(graph.unique_name(f"{value.name}_half"), value.array().astype(np.float16))
        wide = Value(graph.unique_name(f"{value.name}_wide"), f32, value.shape)
        graph.insert_before(graph.ops[0], Dequantize(half, results=[wide]))
        for op, index in value.uses:
            op.set_input(index, wide)
    return len(found)


class _Retyping:
    """Makes a graph like ``old`` in which operators have ``dtype``; graphs that operators call stay.

    ``arrays``: the data of each value of the old graph.  ``made``: the values of the new graph.  A key is
    (the value of the old graph, whether the value in the new graph has the new dtype).
    """

    def __init__(
        self, old: Graph, arrays: Mapping[Value, Array], dtype: DType, random: np.random.Generator
    ) -> None:
        self.old, self.arrays, self.dtype, self.random = old, arrays, dtype, random
        self.made: dict[tuple[Value, bool], Value] = {}
        self.builder = ModelBuilder(Graph(old.name), (), random)
        self.builder.allow_extremes = True

    def run(self) -> int:
        """Fill the new graph; return how many of its operators have other dtypes."""
        count = 0
        for value in self.old.inputs:
            changes = self._may_change(value) and self.random.random() < CHANGED
            array = self._stored(self.arrays[value]) if changes else self.arrays[value]
            made = Value(value.name, self.dtype if changes else value.dtype, value.shape)
            made.quantization = value.quantization
            self.made[value, changes] = self.builder.new_input(made, array)
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
        self.builder.graph.outputs = tuple(
            self.made.get((value, True)) or self._value(value, False) for value in self.old.outputs
        )
        return count

    def _may_change(self, value: Value) -> bool:
        return value.dtype is f32 and value.quantization is None and not value.is_variable

    def _typed(self, op: Op) -> Op:
        """Append the operator on operands of the new dtype; raise Rejected if one of them cannot have it."""
        operands: list[Value | None] = []
        for index, value in enumerate(op.inputs):
            spec = op.operand_spec(index)
            dtypes = () if spec is None else spec.dtypes
            if value is None or not self._may_change(value):
                operands.append(value and self._value(value, False))
            elif dtypes and self.dtype not in dtypes:
                raise Rejected
            elif value.is_plain:
                operands.append(Value.constant(value.name, self._stored(value.array())))
            else:
                operands.append(self._value(value, True))
        if operands == [value and self.made.get((value, False), value) for value in op.inputs]:
            raise Rejected  # no operand has the new dtype
        results = [Value(value.name, value.dtype, value.shape) for value in op.results]
        new = type(op)(*operands, results=results, **op.attribute_values)
        for result, found in zip(results, new.inferred(), strict=True):
            result.dtype, result.quantization = found.dtype, found.quantization
        self.builder.put(new)
        return new

    def _copied(self, op: Op) -> Op:
        """Append the operator as it was, on operands that are converted back."""
        operands = [value and self._value(value, False) for value in op.inputs]
        results = [Value(v.name, v.dtype, v.shape, None, v.quantization) for v in op.results]
        if isinstance(op, OpaqueOp):
            new: Op = OpaqueOp(*operands, code=op.code, custom_code=op.custom_code, results=results)
        else:
            new = type(op)(*operands, results=results, **op.attribute_values)
        self.builder.put(new)
        return new

    def _value(self, value: Value, is_new: bool) -> Value:
        """Return the new graph's value for ``value``, with the new or the old dtype; append a needed CAST."""
        if (value, is_new) not in self.made:
            source = self.made.get((value, not is_new))
            if source is None:
                return value  # a constant or a variable
            dtype = self.dtype if is_new else f32
            name = self.builder.graph.unique_name(value.name or "v")
            result = Value(name, dtype, value.shape)
            cast = Cast(source, in_data_type=source.dtype, out_data_type=dtype, results=[result])
            self.made[value, is_new] = self.builder.add(cast)
        return self.made[value, is_new]

    def _stored(self, array: Array) -> Array:
        """Return elements rounded and clipped to the new dtype; those that are not finite become 0."""
        assert self.dtype.numpy is not None
        data = np.where(np.isfinite(array), array, 0.0).astype(np.float64)
        low, high = (0, 1) if self.dtype is boolean else self.dtype.limits
        return np.asarray(np.clip(np.round(data), low, high)).astype(self.dtype.numpy)
