# SPDX-License-Identifier: Apache-2.0
"""Edit a graph during quantization: replace constants by quantized ones, insert QUANTIZE and DEQUANTIZE."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field

import numpy as np

from circlekit.ir.dtypes import DType
from circlekit.ir.graph import Graph, Model
from circlekit.ir.op import Op
from circlekit.ir.value import Array, Quantization, Value
from circlekit.ops.arithmetic.cast import Dequantize, Quantize
from circlekit.quant.weights import present_operand


@dataclass
class GraphEditor:
    """Edits one graph.  A constant or conversion that is needed several times is made once and shared.

    ``constants``: {replaced constant: {key: new constant}}.  Callers choose the keys, such as
    ``("element", dtype)``; equal keys must mean equal data, dtype and quantization.
    ``conversions``: the converted values, by (original value, new dtype).
    ``inserted``: the inserted operators, in order (the keys of a dict).
    """

    model: Model
    graph: Graph
    constants: dict[Value, dict[Hashable, Value]] = field(default_factory=dict)
    conversions: dict[tuple[Value, DType], Value] = field(default_factory=dict)
    inserted: dict[Op, None] = field(default_factory=dict)

    def replace_constant(
        self, op: Op, index: int, key: Hashable, make: Callable[[], tuple[Array, DType, Quantization | None]]
    ) -> Value:
        """Let ``op`` read a new constant in place of the constant operand ``index``; return the new constant.

        All other uses keep the old constant.
        ``make``: returns data, dtype and quantization of the new constant.  It is called only if there is no
        new constant for the old constant and ``key`` yet.
        """
        old = present_operand(op, index)
        made = self.constants.setdefault(old, {})
        if key not in made:
            data, dtype, quantization = make()
            # for rank 0, numpy functions return scalars in place of arrays
            made[key] = Value(old.name, dtype, old.shape, np.asarray(data), quantization)
        op.set_input(index, made[key])
        return made[key]

    def converted(
        self, value: Value, dtype: DType, quantization: Quantization | None, before: Op | None = None
    ) -> Value:
        """Return ``value`` converted to ``dtype`` by an inserted operator.

        The operator is a DEQUANTIZE for float32, otherwise a QUANTIZE.  ``quantization``: that of the result.
        ``before``: the operator before which to insert; None: insert directly after the producer of
        ``value``, or at the beginning of the graph if ``value`` has no producer.
        If ``value`` was converted to ``dtype`` earlier, return that result, and ignore the other arguments.
        """
        known = self.conversions.get((value, dtype))
        if known is not None:
            return known
        kind = Dequantize if dtype is DType.FLOAT32 else Quantize
        name = self.graph.unique_name(f"{value.name}_{kind.__name__}")
        result = Value(name, dtype, value.shape, None, quantization)
        op = kind(value, results=[result])
        if before is not None:
            self.graph.insert_before(before, op)
        else:
            self.graph.insert_after(value.producer, op)
        self.inserted[op] = None
        self.conversions[value, dtype] = result
        return result

    def redirect(self, old: Value, new: Value) -> None:
        """Replace ``old`` by ``new`` in outputs, and in all users except the producer of ``new``.

        That producer goes on reading ``old``, because ``new`` is computed from it.
        """
        for op, index in old.uses:
            if op is not new.producer:
                op.set_input(index, new)
        self.redirect_output(old, new)

    def redirect_output(self, old: Value, new: Value) -> None:
        """Replace ``old`` by ``new`` in the outputs of the graph and of its signatures."""
        if not self.graph.is_output(old):
            return
        self.graph.outputs = [new if v is old else v for v in self.graph.outputs]
        for signature in self.model.signatures:
            if signature.graph is self.graph:
                signature.outputs = {k: new if v is old else v for k, v in signature.outputs.items()}

    def remove_unused(self) -> None:
        """Remove the inserted operators whose results have no use and are not outputs of the graph."""
        for op in reversed(list(self.inserted)):
            if not op.output.use_count and not self.graph.is_output(op.output):
                self.graph.remove(op)
                del self.inserted[op]

    def finish(self) -> None:
        """Name the new constants, and bring the graph's table of values into ONE's order.

        That order is: inputs, then the operands and results of each operator, then unused values.
        """
        replaced: set[Value] = set()
        for old, made in self.constants.items():
            new = list(made.values())
            if not old.use_count and not self.graph.is_output(old):
                replaced.add(old)
                new = new[1:]  # the first takes the name of the old constant
            for value in new:
                value.name = self.graph.unique_name(old.name)
        used = [v for op in self.graph for v in (*op.inputs, *op.results) if v is not None]
        unused = [v for v in self.graph.table if v not in replaced]
        self.graph.table = list(dict.fromkeys((*self.graph.inputs, *used, *unused)))
