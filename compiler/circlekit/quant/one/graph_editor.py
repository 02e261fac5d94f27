# SPDX-License-Identifier: Apache-2.0
"""Replace constants of a graph by others, and insert operators that convert values."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field

import numpy as np

from circlekit.ir.dtypes import DType
from circlekit.ir.graph import Graph, Model
from circlekit.ir.op import Op
from circlekit.ir.value import Array, Quantization, Value
from circlekit.ops.arithmetic.cast import Dequantize, Quantize


@dataclass
class GraphEditor:
    """Edits one graph.  Constants and conversions that are needed twice are made once.

    ``constants``: for each replaced constant the new ones, by a key that names the form of the new one.
    ``conversions``: the converted value, by the original value and the new dtype.
    ``inserted``: the operators that were inserted, as the keys of a dict because of their order.
    """

    model: Model
    graph: Graph
    constants: dict[Value, dict[Hashable, Value]] = field(default_factory=dict)
    conversions: dict[tuple[Value, DType], Value] = field(default_factory=dict)
    inserted: dict[Op, None] = field(default_factory=dict)

    def replace_constant(
        self, op: Op, index: int, key: Hashable, make: Callable[[], tuple[Array, DType, Quantization | None]]
    ) -> Value:
        """Make ``op`` use a new constant as operand ``index``, which is a constant; return the new one.

        Other users keep the old constant.  ``make`` returns data, dtype and quantization of the new one; it
        is called once for each old constant and ``key``.
        """
        old = op.inputs[index]
        assert old is not None  # the caller found the constant there
        made = self.constants.setdefault(old, {})
        if key not in made:
            data, dtype, quantization = make()
            # numpy computes scalars, not arrays, from arrays of rank 0
            made[key] = Value(old.name, dtype, old.shape, np.asarray(data), quantization)
        op.set_input(index, made[key])
        return made[key]

    def converted(
        self, value: Value, dtype: DType, quantization: Quantization | None, before: Op | None = None
    ) -> Value:
        """Return ``value`` converted to ``dtype``, by an inserted DEQUANTIZE for float32, else QUANTIZE.

        ``quantization``: of the result.  ``before``: the operator in front of which the new one stands; by
        default it stands directly after the producer of ``value``, or first in the graph for an input.
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
        """Replace ``old`` by ``new`` in its users, except for the producer of ``new``, and in outputs."""
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
        """Remove inserted operators whose results are unused."""
        for op in reversed(list(self.inserted)):
            if not op.output.use_count and not self.graph.is_output(op.output):
                self.graph.remove(op)
                del self.inserted[op]

    def finish(self) -> None:
        """Name the new constants, and order the graph's table of values as ONE does.

        That is inputs first, then the operands and results of each operator.
        """
        replaced: set[Value] = set()
        for old, made in self.constants.items():
            new = list(made.values())
            if not old.use_count and not self.graph.is_output(old):
                replaced.add(old)
                new = new[1:]  # the first one has the name of the old one
            for value in new:
                value.name = self.graph.unique_name(old.name)
        used = [v for op in self.graph for v in (*op.inputs, *op.results) if v is not None]
        unused = [v for v in self.graph.table if v not in replaced]
        self.graph.table = list(dict.fromkeys((*self.graph.inputs, *used, *unused)))
