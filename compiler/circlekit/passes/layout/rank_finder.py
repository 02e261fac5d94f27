# SPDX-License-Identifier: Apache-2.0
"""Find the regions of a graph whose operators can work on values with further axes of dimension 1.

The terms of ``region.py``, with other sides: side 0 stands for data as they are, whose rank is that of the
finder.  Each other side stands for a higher rank, and for the places of the new axes.  A tensor is all values
that reshapes produce from each other, if these only insert or remove axes of dimension 1.  A variable is an
operator that can also work on other sides.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations
from typing import Any

import numpy as np

from circlekit.ir.declaration import NEW_AXIS
from circlekit.ir.graph import Graph
from circlekit.ir.op import Op
from circlekit.ir.shape_inference import misfit
from circlekit.ir.value import Shape, Value, same_grid
from circlekit.ops.movement.shape import Reshape, Transpose
from circlekit.passes.layout.labels import Cost
from circlekit.passes.layout.permuted_op import changes_of, data_values, layout_indices
from circlekit.passes.layout.region import Finder, Region, Tensor, Variable
from circlekit.passes.support.axes import Perm, is_movable, permuted_shape

MAX_EXTENDED_RANK = 4
"""No operator gets a higher rank: runtimes have all elementwise and broadcasting kernels up to this rank."""


class RankFinder(Finder):
    """Finds the regions of ``graph`` around reshapes that insert axes of dimension 1, or remove them.

    ``rank``: the rank of values on side 0, which have the fewest axes.
    ``placed``: the values that belong to a tensor.
    ``used``: the sides that occur.
    """

    def __init__(self, graph: Graph, rank: int) -> None:
        super().__init__(graph, [tuple(range(rank)), *_extensions(rank)])
        self.rank = rank
        self.inputs = frozenset(graph.inputs)
        self.placed = set[Value]()
        # the values at which the search begins: each is the operand or the result of a move
        self.starts: list[Value] = []
        used = set[int]()
        for op in (op for op in graph.ops if isinstance(op, Reshape)):
            for value, other in ((op.input, op.output), (op.output, op.input)):
                if value.rank == rank and self.is_move(op, value.known_shape):
                    self.starts.append(value)
                    used.update(self.sides_of(other.known_shape, value.known_shape))
        self.used = sorted(used)

    def regions(self) -> Iterator[Region]:
        """Yield the regions; their variables are different operators."""
        for value in self.starts:
            if value not in self.placed:
                yield self.region(value)

    def region(self, start: Value) -> Region:
        """Return the region of ``start``, a value on side 0."""
        region = Region([0, *self.used])
        for value in (queue := [start]):  # the list grows in the loop
            # a tensor may leave out an output and the values after it
            while value not in self.placed:
                tensor = self.tensor_of(value)
                region.tensors.append(tensor)
                if isinstance(tensor.root.producer, Reshape) and tensor.side == 0:
                    self.add_reshape(region, tensor.root.producer)
                for member in (v for v, side in tensor.sides.items() if side == 0):
                    for op in (member.producer, *member.users):
                        if op is not None and not isinstance(op, Reshape):
                            queue += self.visit(region, op)
        return region

    # -- tensors -------------------------------------------------------------------------------

    def sides_of(self, shape: Shape, base: Shape) -> list[int]:
        """Return the sides on which a tensor that has the shape ``base`` on side 0 has ``shape``."""
        return [side for side, order in enumerate(self.orders) if permuted_shape(base, order) == shape]

    def is_move(self, op: Op | None, base: Shape) -> bool:
        """Return whether ``op`` is a Reshape between sides of a tensor with the shape ``base`` on side 0."""
        if not isinstance(op, Reshape) or op.input.is_const or misfit(op) is not None:
            return False
        values = op.input, op.output
        if not all(map(_can_be_reshaped, values)) or not same_grid(*(v.quantization for v in values)):
            return False
        return all(self.sides_of(value.known_shape, base) for value in values)

    def tensor_of(self, value: Value) -> Tensor:
        """Return the tensor of ``value``, which is on side 0; add its values to ``placed``.

        The rewritten graph has one value for each shape.  So of the values with the same shape, only one may
        be an input or an output.  Further outputs are left out, with the values after them.
        """
        base, root = value.known_shape, value
        while isinstance(op := root.producer, Reshape) and self.is_move(op, base):
            if op.input in self.placed:
                break
            root = op.input
        tensor = Tensor(root, {}, ops_after=0)
        interface = {root.known_shape} if root in self.inputs or self.graph.is_output(root) else set()
        for member in (queue := [root]):
            tensor.sides[member] = self.sides_of(member.known_shape, base)[0]
            self.placed.add(member)
            for op in dict.fromkeys(member.users):
                if not isinstance(op, Reshape) or op.output in self.placed or not self.is_move(op, base):
                    continue
                if self.graph.is_output(op.output):
                    if op.output.known_shape in interface:
                        continue
                    interface.add(op.output.known_shape)
                tensor.moves.append(op)
                queue.append(op.output)
        shapes = [permuted_shape(base, order) for order in self.orders]
        tensor.shapes = {side: shapes.index(shape) for side, shape in enumerate(shapes)}
        tensor.orders = dict.fromkeys(tensor.shapes, 0)
        return tensor

    # -- operators -----------------------------------------------------------------------------

    def add_reshape(self, region: Region, op: Reshape) -> None:
        """Add ``op``, which makes the root of a tensor, as a variable: a Reshape can make any shape."""
        shape = op.output.known_shape
        if op.shape is None or not op.shape.is_plain or misfit(op) or not _can_be_reshaped(op.output):
            return
        changes = {}
        for side in self.used:
            new = [-1 if dim is None else dim for dim in permuted_shape(shape, self.orders[side])]
            changes[side] = {"shape": np.array(new, np.int32), "new_shape": tuple(new)}
        self.add(region, op, frozenset(), changes)

    def visit(self, region: Region, op: Op) -> list[Value]:
        """Add ``op`` to ``region`` as a variable, or record in ``fixed`` why it is none.

        Return its operands and results on side 0 if it is a new variable.
        """
        if op in self.variables or op in self.fixed:
            return []
        operands = layout_indices(op)
        values = data_values(op, operands)
        found = ((side, changes_of(op, values, self.orders[side])) for side in self.used)
        changes = {side: change for side, change in found if not isinstance(change, str)}
        data = [value for value in values if value.rank == self.rank and not value.is_const]
        has_operand = any(value not in op.results for value in data)  # else no operand gives ``op`` its rank
        if not (op.pure and changes and has_operand and all(map(_can_be_reshaped, data))):
            self.fixed[op] = f"{type(op).__name__} works only on data of rank {self.rank}"
            return []
        self.add(region, op, operands, changes)
        return data

    def add(
        self, region: Region, op: Op, operands: frozenset[int], changes: dict[int, dict[str, Any]]
    ) -> None:
        """Add ``op`` as a variable that works on side 0 now, and can work on the sides of ``changes``."""
        changes[0] = {}
        # of solutions with equally few reshapes, the one with the fewest transposes on side 0 is best
        charges = {side: Cost(ops_after=isinstance(op, Transpose) and side == 0) for side in changes}
        self.variables[op] = Variable(op, len(region.variables), 0, operands, changes, charges)
        region.variables.append(self.variables[op])


def _can_be_reshaped(value: Value) -> bool:
    """Return whether a Reshape, which takes one unknown dimension, can copy ``value`` to another rank."""
    if value.shape is None or value.shape.count(None) > 1 or not is_movable(value):
        return False
    return value.quantization is None or not value.quantization.is_per_channel


def _extensions(rank: int) -> Iterator[Perm]:
    """Yield all ways to insert axes so that up to MAX_EXTENDED_RANK axes result.

    Example: for rank 3, yield (N, 0, 1, 2), (0, N, 1, 2), (0, 1, N, 2) and (0, 1, 2, N), where N is NEW_AXIS.
    """
    for count in range(rank + 1, MAX_EXTENDED_RANK + 1):
        for kept in combinations(range(count), rank):
            yield tuple(kept.index(axis) if axis in kept else NEW_AXIS for axis in range(count))
