# SPDX-License-Identifier: Apache-2.0
"""Replace an operator by several new ones."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from circlekit.ir.graph import Graph
from circlekit.ir.op import Op
from circlekit.ir.value import Array, Value
from circlekit.ops.movement.shape import Reshape, Transpose


class Inserter:
    """Replaces ``op``, which must have a result, by new operators, which are inserted before ``op``.

    Call ``make`` for each new operator, and ``finish`` or ``replace`` at the end.  New values are named after
    the first result of ``op``: if it is ``y``, ``make(Mul(a, b))`` returns ``y/Mul``.
    ``ops``: the operators that ``make`` has inserted so far.
    """

    def __init__(self, graph: Graph, op: Op) -> None:
        self.graph, self.op, self.base = graph, op, op.results[0].name
        self.ops: list[Op] = []

    def make(self, op: Op) -> Value:
        """Insert ``op`` and return its first result."""
        for value in op.results:
            value.name = self.graph.unique_name(f"{self.base}/{type(op).__name__}")
        self.ops.append(op)
        return self.graph.insert_before(self.op, op).results[0]

    def constant(self, name: str, array: Array) -> Value:
        """Return a new constant with the data ``array``; ``name`` becomes the last part of its name."""
        return Value.constant(self.graph.unique_name(f"{self.base}/{name}"), array)

    def reshaped(self, value: Value, shape: Sequence[int | None]) -> Value:
        """Insert a Reshape to ``shape`` and return its result; one dimension may be None or -1 (unknown)."""
        sizes = np.array([-1 if size is None else size for size in shape], np.int32)
        return self.make(Reshape(value, self.constant("shape", sizes)))

    def transposed(self, value: Value, perm: Sequence[int]) -> Value:
        """Insert a Transpose by ``perm`` and return its result."""
        return self.make(Transpose(value, self.constant("perm", np.array(perm, np.int32))))

    def finish(self, *results: Value) -> None:
        """Remove ``op``, and replace its results by ``results``, in order.

        The values in ``results`` must be results of inserted operators; these then produce the original
        values of ``op``, so that names and users stay.  If the last results of ``op`` are unused, ``results``
        may lack values for them.
        """
        for old, new in zip(tuple(self.op.results), results, strict=False):
            assert new.producer is not None  # it has just been inserted
            new.producer.take_result(new.result_index, old)
        self.graph.remove(self.op)

    def replace(self, op: Op) -> None:
        """Insert ``op`` and finish: ``op`` then produces the results of the replaced operator."""
        self.graph.insert_before(self.op, op)
        self.finish(*op.results)
