# SPDX-License-Identifier: Apache-2.0
"""Run the operators of a graph one after the other, each on all samples."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from copy import copy

import numpy as np

from circlekit.interp.evaluate import compute
from circlekit.interp.execution_plan import absent_operands
from circlekit.interp.fast import prepare
from circlekit.interp.graph_runner import GraphRunner
from circlekit.ir.clone import copy_op
from circlekit.ir.graph import Graph, Model
from circlekit.ir.op import Op
from circlekit.ir.value import Array, Value
from circlekit.ops.constant_operands import constant_elements
from circlekit.ops.program.state import State

Column = Array | Sequence[Array] | None
"""One operand in all samples: a list with an array for each sample.

A fixed operand (a constant or a variable) is a single array, an absent operand None.
"""


class OperatorRuns:
    """Runs the main graph of a float model operator by operator.

    ``samples``: arrays in the order of the graph's inputs.  Iterating runs the operators in order and yields
    (operator, operands, results) for each; ``results`` has a list for each sample.  The arrays of a value
    are released after the last operator that reads the value has run.  No state is kept between operators: a
    variable tensor has its initial contents; READ_VARIABLE and users of a hash table raise ModelError.
    """

    def __init__(self, model: Model, samples: Sequence[Sequence[Array]]) -> None:
        self.model, self.samples = model, samples

    def __iter__(self) -> Iterator[tuple[Op, list[Column], list[list[Array]]]]:
        graph = self.model.main
        arrays: dict[Value, Sequence[Array]] = {
            value: [sample[index] for sample in self.samples] for index, value in enumerate(graph.inputs)
        }
        last_use = last_uses(graph)
        for op in graph.ops:
            columns: list[Column] = [arrays[v] if v in arrays else fixed_column(v) for v in op.inputs]
            results = self.evaluate(op, columns)
            yield op, columns, results
            for index, value in enumerate(op.results):
                arrays[value] = [r[index] for r in results]
            for value in {v for v in op.inputs if v is not None and not v.is_const}:
                if last_use[value] is op:
                    arrays.pop(value, None)

    def evaluate(self, op: Op, columns: Sequence[Column]) -> list[list[Array]]:
        """Return for each sample the list of the results of ``op`` for the operands ``columns``.

        The lists in ``columns`` have an element for each sample.  If all operands are fixed, there are no
        such lists; then the number of samples is the length of ``samples``.
        """
        # a copy whose fixed operands are constants, because fast kernels need constant weights
        copies = [v and _copied(v, c) for v, c in zip(op.inputs, columns, strict=True)]
        results = [Value.of_type(v, v.name) for v in op.results]
        copied = op if op.called_graphs() else copy_op(op, copies, results)
        kernel = prepare(copied)
        run = GraphRunner(State(), self.model)
        missing = [None] * absent_operands(op)  # optional operands at the end that ``op.inputs`` leaves out
        counts = [len(c) for c in columns if c is not None and not isinstance(c, np.ndarray)]
        out = []
        for sample in range(min(counts, default=len(self.samples))):
            operands = [c if c is None or isinstance(c, np.ndarray) else c[sample] for c in columns]
            with np.errstate(all="ignore"):
                out.append(compute(copied, [*operands, *missing], run, kernel))
        return out


def fixed_column(value: Value | None) -> Column:
    """Return the elements of a constant or the initial contents of a variable; None for an absent operand."""
    if value is None:
        return None
    return State().read(value) if value.is_variable else constant_elements(value)


def _copied(value: Value, column: Column) -> Value:
    """Return a copy of the operand ``value`` that is a constant if ``column`` is fixed."""
    if value.is_const and not value.is_plain:
        return copy(value)  # its data are packed, ``column`` has the elements
    data = column if isinstance(column, np.ndarray) else None
    return Value(value.name, value.dtype, value.shape, data, value.quantization)


def last_uses(graph: Graph) -> dict[Value, Op]:
    """Return for each value with users the last operator of ``graph`` that reads it."""
    return {v: op for op in graph for v in op.inputs if v is not None}
