# SPDX-License-Identifier: Apache-2.0
"""Find the regions of a graph: connected operators that can work on data with permuted axes.

The terms of ``region.py``: a side is a number that stands for an order of axes; a tensor is all values that
transposes, or reshapes that do the same, produce from each other, each on a side; a variable is an operator
that can work on several sides; a region is a connected set of tensors and variables.
"""

from __future__ import annotations

import heapq
from collections.abc import Collection, Iterator, Sequence

from circlekit.ir.graph import Graph
from circlekit.ir.op import Op
from circlekit.ir.value import Shape, Value, same_grid
from circlekit.ops.movement.shape import Reshape, Transpose
from circlekit.passes.layout.labels import MAX_LABELS
from circlekit.passes.layout.permuted_op import changes_of, charge_of, data_values, layout_indices
from circlekit.passes.layout.region import Finder, Move, Region, Tensor, Variable
from circlekit.passes.support.axes import (
    Perm,
    constant_perm,
    inverse,
    is_movable,
    keeps_shape,
    move_perm,
    perms_of,
    permuted_quantization,
)
from circlekit.targets.cost import value_bytes


class RegionFinder(Finder):
    """Finds the regions of a graph around transposes of one rank.

    ``perms``: permutations by which values may be transposed; their inverses are added.  ``perms[0]`` leads
    from side 0 to side 1.
    ``run_bytes``: the fixed cost of copying one run of contiguous elements, as a number of bytes.
    ``most_sides``: the largest number of sides of a region; transposes to further sides are left alone.

    ``sides``: the side of every value found so far.
    ``ops_after``: for each producer, how many operators, except transposes and reshapes, come after it; the
    key None stands for the producer of inputs.
    ``is_frustrated``: whether some value would have to be on two sides at once.
    """

    def __init__(
        self, graph: Graph, perms: Sequence[Perm], run_bytes: int = 0, most_sides: int = MAX_LABELS
    ) -> None:
        self.rank = len(perms[0])
        super().__init__(graph, [tuple(range(self.rank)), perms[0]])
        self.run_bytes, self.most_sides = run_bytes, most_sides
        self.perms = tuple(dict.fromkeys(p for perm in perms for p in (perm, inverse(perm))))
        self.inputs = frozenset(graph.inputs)
        self.sides: dict[Value, int] = {}
        self.is_frustrated = False
        self.ops_after: dict[Op | None, int] = {}
        count = 0
        for op in reversed(graph.ops):
            self.ops_after[op] = count
            count += not isinstance(op, Transpose | Reshape)
        self.ops_after[None] = count  # after the inputs

    def regions(self, moves: Sequence[Move]) -> Iterator[Region]:
        """Yield the regions around ``moves``.

        The search for a region starts at the operand of a move.  This operand is put on side 1 if the move is
        by the inverse of ``perms[0]``, else on side 0.
        """
        for op in moves:
            if op.input not in self.sides and self.is_pure_move(op):
                side = int(move_perm(op) == inverse(self.orders[1]))
                # if perms[0] is the identity, both sides have the same order, and index() finds side 0
                yield self.region(op.input, self.orders.index(self.orders[side]))

    # -- transposes ----------------------------------------------------------------------------

    def is_pure_move(self, op: Op | None) -> bool:
        """Return whether ``op`` only transposes, by one of ``perms``, a value that can have a side.

        Operand and result must be movable (``is_movable``): ``is_variable`` is false, and their quantization
        has no ``details``.
        """
        if not isinstance(op, Transpose | Reshape):
            return False
        perms, source, result = perms_of(op, self.perms), op.input, op.output
        if not perms or not (is_movable(source) and is_movable(result) and self.has_side(source)):
            return False
        expected = permuted_quantization(source.quantization, perms[0])
        return source.dtype is result.dtype and same_grid(result.quantization, expected)

    def has_side(self, value: Value) -> bool:
        """Return whether ``value`` can have a side.

        It has the rank of ``perms``, is not constant, and at least one of ``perms`` changes it.
        """
        shape = value.shape
        if value.is_const or shape is None or len(shape) != self.rank:
            return False
        return any(not keeps_shape(shape, perm) for perm in self.perms)

    # -- regions -------------------------------------------------------------------------------

    def region(self, value: Value, side: int) -> Region:
        """Return the region of ``value``, which is on ``side`` and in no region yet."""
        # if at most two sides are allowed, both are compared; else ``cross`` adds each side that it reaches
        region = Region([0, 1] if self.most_sides == 2 else [side])
        placed = set[Value]()  # the values in the tensors of the region
        for member in self.spread(region, value, side):
            # a tensor may leave out an output and the values after it, so ``member`` may need further tensors
            while member not in placed:
                region.tensors.append(self.tensor_of(self.root_of(member, placed), placed))
        region.sides.sort()
        for tensor in region.tensors:
            self.compare_sides(tensor, region.sides)
        for variable in region.variables:
            self.add_changes(variable, region.sides)
        return region

    def spread(self, region: Region, value: Value, side: int) -> list[Value]:
        """Give sides to ``value`` and to all values that are connected with it; return these values.

        All variables found on the way are added to ``region``.  The operands and results of a variable are on
        the same side.  Transposes lead to other sides; those that move the most bytes are followed first.
        """
        self.sides[value] = side
        values, seen = [value], set[Op]()
        moves: list[tuple[int, int, Move]] = []  # heap of (-bytes, number of operators seen, transpose)
        for value in values:  # the list grows in the loop
            for op in (value.producer, *value.users):
                if op is None or op in seen:
                    continue
                seen.add(op)
                if isinstance(op, Transpose | Reshape) and self.is_pure_move(op):
                    heapq.heappush(moves, (-value_bytes(op.input), len(seen), op))
                else:
                    values += self.visit(region, op, self.sides[value])
            while moves and value is values[-1]:  # only if no other value is left to visit
                values += self.cross(region, heapq.heappop(moves)[-1])
        return values

    def cross(self, region: Region, op: Move) -> list[Value]:
        """Give a side to the operand or the result of ``op`` if it has none; return the values that got one.

        If both have sides, but ``op`` does not lead from the one to the other, ``op`` is treated like an
        operator of any other kind (``visit``): it becomes a variable if it can work on permuted axes.
        """
        source, result = op.input, op.output
        if source in self.sides and result in self.sides:
            if self.source_of(op) is not None:  # ``op`` leads from the one side to the other
                return []
            self.is_frustrated = True
            return self.visit(region, op, self.sides[source])
        known, other = (source, result) if source in self.sides else (result, source)
        axes = self.orders[self.sides[known]]
        perms = [perm if known is source else inverse(perm) for perm in perms_of(op, self.perms)]
        orders = [tuple(axes[axis] for axis in perm) for perm in perms]
        present = [self.orders[side] for side in region.sides]
        # a Reshape may lead to several orders; take one that the region already has, if there is one
        order = next((order for order in orders if order in present), orders[0])
        if order not in present:
            if len(present) >= self.most_sides:
                limit = f"at most {self.most_sides} layouts are compared"
                self.fixed[op] = f"{type(op).__name__} leads to a further layout, but {limit}"
                return []
            if order not in self.orders:
                self.orders.append(order)
            region.sides.append(self.orders.index(order))
        self.sides[other] = self.orders.index(order)
        return [other]

    # -- tensors -------------------------------------------------------------------------------

    def root_of(self, value: Value, placed: Collection[Value]) -> Value:
        """Return the value that is reached from ``value`` by going back through all moves before it.

        A move whose operand is in ``placed`` is not passed.
        """
        while (source := self.source_of(value.producer)) is not None and source not in placed:
            value = source
        return value

    def source_of(self, op: Op | None) -> Value | None:
        """Return the operand of ``op`` if ``op`` is a move between the sides of its operand and result.

        Return None for other operators.
        """
        if not isinstance(op, Transpose | Reshape) or not self.is_pure_move(op):
            return None
        source, result = op.input, op.output
        if source not in self.sides or result not in self.sides or source.shape is None:
            return None
        perm = self.perm(self.sides[source], self.sides[result])
        if isinstance(op, Transpose):  # axes of dimension 1 may differ
            own = constant_perm(op) or ()
            is_same = _axes_moved(source.shape, perm) == _axes_moved(source.shape, own)
        else:
            is_same = bool(perms_of(op, [perm]))
        return source if is_same else None

    def tensor_of(self, root: Value, placed: set[Value]) -> Tensor:
        """Return the tensor of ``root``: all values that moves produce from it, directly or indirectly.

        The rewritten graph has one value for each order of axes (axes of dimension 1 do not count).  So of
        the values with the same order, only one may be an input, an output or a value with ``is_variable``.
        Further outputs are left out, with the values that moves produce from them.
        Values in ``placed`` are left out, too; the values of the tensor are added to ``placed``.
        """
        tensor = Tensor(root, {root: self.sides[root]}, ops_after=self.ops_after[root.producer])
        placed.add(root)
        interface = []  # the orders of axes of inputs, of outputs and of values with ``is_variable``
        if root in self.inputs or self.graph.is_output(root) or root.is_variable:
            interface.append(self.axes_on(tensor, tensor.side))
        for value in (queue := [root]):
            for op in value.users:
                if self.source_of(op) is not value or (result := op.results[0]) in placed:
                    continue
                if self.graph.is_output(result):
                    axes = self.axes_on(tensor, self.sides[result])
                    if axes in interface:
                        continue
                    interface.append(axes)
                tensor.sides[result] = self.sides[result]
                placed.add(result)
                assert isinstance(op, Transpose | Reshape)
                tensor.moves.append(op)
                queue.append(result)
        return tensor

    def axes_on(self, tensor: Tensor, side: int) -> list[int | None]:
        """Return the axes of the root in the order of ``side``; None in place of axes of dimension 1."""
        return _axes_moved(tensor.root.known_shape, self.perm(tensor.side, side))

    def compare_sides(self, tensor: Tensor, sides: Sequence[int]) -> None:
        """Set ``tensor.shapes`` and ``tensor.orders``: for each of ``sides`` a number.

        Two sides get the same number in ``shapes`` if the tensor is the same array on both, and in ``orders``
        if its elements have the same order in memory on both.
        """
        shapes, orders = list[list[int | None]](), list[list[int | None]]()
        can_reshape = tensor.root.known_shape.count(None) <= 1  # a Reshape takes one unknown dimension
        for side in sides:
            axes = self.axes_on(tensor, side)
            order = [axis for axis in axes if axis is not None or not can_reshape]
            pairs = ((axes, tensor.shapes, shapes), (order, tensor.orders, orders))
            for found, number, known in pairs:
                if found not in known:
                    known.append(found)
                number[side] = known.index(found)

    # -- operators -----------------------------------------------------------------------------

    def visit(self, region: Region, op: Op, side: int) -> list[Value]:
        """Add ``op``, which has a value on ``side``, to ``region`` as a variable if ``op`` can be one.

        Otherwise record in ``fixed`` why not.  Return the operands and results of ``op`` that get ``side``.
        """
        if op in self.variables or op in self.fixed:
            return []
        found = self.data_of(op, side)
        if isinstance(found, str):
            self.fixed[op] = found
            return []
        operands, data = found
        self.variables[op] = Variable(op, len(region.variables), side, operands)
        region.variables.append(self.variables[op])
        new = [value for value in dict.fromkeys(data) if value not in self.sides]
        self.sides.update(dict.fromkeys(new, side))
        return new

    def data_of(self, op: Op, side: int) -> tuple[frozenset[int], list[Value]] | str:
        """Return the indices of the operands that are permuted with ``op``, and its data.

        The data: the operands with these indices and all results, without the values that can have no side.
        ``side``: the side on which ``op`` works.  If ``op`` must stay on this side, return why as a sentence.
        """
        kind = type(op).__name__
        is_other_transpose = isinstance(op, Transpose) and not self.is_pure_move(op)
        if not op.pure or not op.layout_operands or is_other_transpose:
            return f"{kind} works only in its own layout"
        operands = layout_indices(op)
        values = data_values(op, operands)
        data = [value for value in values if self.has_side(value)]
        if any(self.sides.get(value, side) != side for value in data):
            self.is_frustrated = True
            return f"{kind} has operands or results in two layouts"
        perms = self.perms if self.most_sides > 2 else (self.perm(side, 1 - side),)
        obstacles = []
        for perm in perms:
            found = changes_of(op, values, perm)
            if not isinstance(found, str):
                return operands, data
            obstacles.append(found)
        return obstacles[0]

    def add_changes(self, variable: Variable, sides: Sequence[int]) -> None:
        """Set ``changes`` and ``charges`` of ``variable`` for those of ``sides`` on which it can work."""
        op, now = variable.op, variable.side
        values = data_values(op, variable.operands)
        data = [value for value in values if self.has_side(value) and value not in op.results]
        for side in sides:
            perm = self.perm(now, side)
            changes = changes_of(op, values, perm) if side != now else {}
            charge = charge_of(op, data, perm, self.run_bytes)
            if charge is not None and not isinstance(changes, str):
                variable.changes[side], variable.charges[side] = changes, charge


def _axes_moved(shape: Shape, perm: Perm) -> list[int | None]:
    """Return ``perm`` with None in place of axes of dimension 1."""
    return [None if shape[axis] == 1 else axis for axis in perm]
