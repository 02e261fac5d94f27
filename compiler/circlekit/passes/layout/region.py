# SPDX-License-Identifier: Apache-2.0
"""Find the regions of a graph whose operators can work on data with permuted axes.

For one permutation, every value is on *side* 0 or 1: a transpose by the permutation leads from side 0 to
side 1, a transpose by its inverse leads back.  Values that are connected by such transposes are one *tensor*.
An operator that can work on either side is a *variable*; its operands and results are on the same side.  A
*region* is a connected set of tensors and variables.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from circlekit.errors import CirclekitError
from circlekit.ir.graph import Graph
from circlekit.ir.op import Op
from circlekit.ir.value import Shape, Value
from circlekit.ops.movement.shape import Reshape, Transpose
from circlekit.passes.layout.labels import FIXED, Cost, Demand, Problem
from circlekit.passes.layout.movement_op import MovementOp
from circlekit.passes.support.axes import (
    Perm,
    inverse,
    is_movable,
    is_movable_constant,
    keeps_order,
    keeps_shape,
    perm_of,
    permuted_quantization,
    permuted_shape,
    size_in_bytes,
)


@dataclass(eq=False, repr=False)
class Tensor:
    """``root``, which no transpose produces, and the values that transposes produce from it.

    ``sides``: all these values with their sides.  ``moves``: the transposes, and reshapes that do the same.
    ``ops_after``: how many operators, except transposes and reshapes, come after the producer of ``root``.
    """

    root: Value
    sides: dict[Value, int]
    ops_after: int
    moves: list[Transpose | Reshape] = field(default_factory=list)

    @property
    def side(self) -> int:
        """The side of ``root``."""
        return self.sides[self.root]


@dataclass(eq=False, repr=False)
class Variable:
    """An operator that can work on either side, and now works on ``side``.

    ``number``: its index in the region.  ``operands``: the indices of its inputs that have a side.
    ``changes``: the attributes and operands that change for the other side, from ``Op.permuted``.
    ``charges``: its own cost on side 0 and on side 1.
    """

    op: Op
    number: int
    side: int
    operands: frozenset[int]
    changes: dict[str, Any]
    charges: tuple[Cost, Cost] = (Cost(), Cost())


@dataclass(eq=False, repr=False)
class Region:
    """A connected set of tensors and variables, in the order in which they were found."""

    tensors: list[Tensor] = field(default_factory=list)
    variables: list[Variable] = field(default_factory=list)

    def current_cost(self) -> Cost:
        """Return the cost of the transposes and reshapes that the graph contains now, and the charges."""
        total = Cost(
            sum(size_in_bytes(t.root) * sum(isinstance(m, Transpose) for m in t.moves) for t in self.tensors),
            sum(len(t.moves) for t in self.tensors),
            sum(t.ops_after * len(t.moves) for t in self.tensors),
        )
        for variable in self.variables:
            total = total.plus(variable.charges[variable.side])
        return total


class RegionFinder:
    """Finds the regions of a graph for one permutation.

    ``run_bytes``: the cost of copying a run of contiguous elements, besides its bytes, in bytes (see
    ``targets.target``).
    ``perms[side]``: the permutation from that side to the other.  ``sides``: the side of every value found.
    ``variables``: found so far.  ``fixed``: why an operator next to a region is no variable.  ``ops_after``:
    as in Tensor, for each producer; None for inputs.
    """

    def __init__(self, graph: Graph, perm: Perm, run_bytes: int = 0) -> None:
        self.graph, self.run_bytes = graph, run_bytes
        self.perms = (perm, inverse(perm))
        self.rank = len(perm)
        self.inputs = frozenset(graph.inputs)
        self.sides: dict[Value, int] = {}
        self.variables: dict[Op, Variable] = {}
        self.fixed: dict[Op, str] = {}
        self.ops_after: dict[Op | None, int] = {}
        count = 0
        for op in reversed(graph.ops):
            self.ops_after[op] = count
            count += not isinstance(op, Transpose | Reshape)
        self.ops_after[None] = count  # after the inputs

    def regions(self, transposes: list[Transpose]) -> Iterator[Region]:
        """Yield the regions around ``transposes``, which are by the permutation or its inverse."""
        for op in transposes:
            if op.input not in self.sides and self.is_pure_move(op):
                yield self.region(op.input, self.perms.index(self.perm_of(op)))

    # -- transposes ----------------------------------------------------------------------------

    def other_side(self, op: Op, side: int, back: bool = False) -> int | None:
        """Return the side of the result of a transpose of a value on ``side``; None for other operators.

        ``back``: ``side`` is the side of the result, and the side of the operand is returned.
        """
        if not isinstance(op, Transpose | Reshape):
            return None
        perm = self.perm_of(op)
        start = 1 - side if back else side
        if perm != self.perms[start] or not self.is_pure_move(op):
            return None
        return 1 - side

    def perm_of(self, op: Op) -> Perm | None:
        """Return the permutation of a Transpose, or of a Reshape that does the same; else None."""
        return perm_of(op, self.perms)

    def is_pure_move(self, op: Transpose | Reshape) -> bool:
        """Return whether operand and result differ only in the order of axes, and both can be transposed."""
        source, result, perm = op.input, op.output, self.perm_of(op)
        if perm is None or not (is_movable(source) and is_movable(result) and self.has_side(source)):
            return False
        expected = permuted_quantization(source.quantization, perm)
        return source.dtype is result.dtype and result.quantization == expected

    def has_side(self, value: Value) -> bool:
        """Return whether ``value`` has a side: it is not constant, and a dimension that moves is not 1."""
        shape = value.shape
        if value.is_const or shape is None or len(shape) != self.rank:
            return False
        return not keeps_shape(shape, self.perms[0])

    # -- tensors -------------------------------------------------------------------------------

    def region(self, value: Value, side: int) -> Region:
        """Return the region of ``value``, which is on ``side`` and in no region yet."""
        region = Region()
        self.add_tensor(region, value, side)
        for tensor in region.tensors:  # the list grows in the loop
            if tensor.root.producer is not None:
                self.visit(region, tensor.root.producer, tensor.side)
            for value, side in tensor.sides.items():
                for user in value.users:
                    self.visit(region, user, side)
        return region

    def add_tensor(self, region: Region, value: Value, side: int) -> None:
        """Add the tensor of ``value``, which is on ``side``, to the region."""
        root, root_side = value, side
        while root.producer is not None:
            other = self.other_side(root.producer, root_side, back=True)
            source = next(iter(root.producer.inputs), None)
            if other is None or source is None or source in self.sides:
                break
            root, root_side = source, other
        region.tensors.append(self.tensor_of(root, root_side))
        if value not in self.sides:  # a transpose in between produces an output of the graph and must stay
            region.tensors.append(self.tensor_of(value, side))

    def tensor_of(self, root: Value, side: int) -> Tensor:
        """Return the tensor of ``root``: all values that transposes produce from it, directly or indirectly.

        On each side at most one value may be an input or output of the graph; a second one is left out.
        """
        tensor = Tensor(root, {root: side}, ops_after=self.ops_after[root.producer])
        self.sides[root] = side
        is_interface = [False, False]
        is_interface[side] = root in self.inputs or self.graph.is_output(root) or root.is_variable
        for value in (queue := [root]):
            for op in value.users:
                other = self.other_side(op, tensor.sides[value])
                if other is None or op.inputs[0] is not value or op.results[0] in self.sides:
                    continue
                result = op.results[0]
                if self.graph.is_output(result):
                    if is_interface[other]:
                        continue
                    is_interface[other] = True
                tensor.sides[result] = self.sides[result] = other
                assert isinstance(op, Transpose | Reshape)
                tensor.moves.append(op)
                queue.append(result)
        return tensor

    # -- operators -----------------------------------------------------------------------------

    def visit(self, region: Region, op: Op, side: int) -> None:
        """Add ``op``, beside a value on ``side``, to ``region`` as a variable, or record why it is none."""
        if op in self.variables or op in self.fixed:
            return
        variable = self.variable_of(region, op, side)
        if isinstance(variable, str):
            self.fixed[op] = variable
        else:
            self.variables[op] = variable
            region.variables.append(variable)

    def variable_of(self, region: Region, op: Op, side: int) -> Variable | str:
        """Return ``op`` as a variable, with its tensors added to the region; or why its layout is fixed."""
        kind = type(op).__name__
        if not op.pure or not op.layout_operands:
            return f"{kind} works only in its own layout"
        last = len(op.operands) - 1
        names = [op.operands[min(index, last)].name for index in range(len(op.inputs))]
        operands = frozenset(index for index, name in enumerate(names) if name in op.layout_operands)
        values = [op.inputs[i] for i in sorted(operands)]
        data: list[Value] = []
        for value in (*(v for v in values if v is not None), *op.results):
            if not self.can_follow(value):
                return f"{kind} has %{value.name}, which cannot be transposed"
            if self.has_side(value):
                data.append(value)
        try:
            changes = op.permuted(self.perms[side])
        except CirclekitError as error:
            return f"{kind} cannot work on permuted axes: {error.message}"
        if changes is None:
            return f"{kind} cannot work on permuted axes"
        for value in data:
            if value not in self.sides:
                self.add_tensor(region, value, side)
            if self.sides[value] != side:
                return f"{kind} reads data in both layouts"
        charges = self.charges(op, data, side)
        if charges is None:
            return f"{kind} cannot work on permuted axes"
        return Variable(op, len(region.variables), side, operands, changes, charges)

    def charges(self, op: Op, data: list[Value], side: int) -> tuple[Cost, Cost] | None:
        """Return the cost of ``op``, which now works on ``side``, on side 0 and on side 1.

        An operator that moves data costs the runs that it copies, a MovementOp costs its operators, and other
        operators cost nothing.  None if a MovementOp has no operators for the other side.  ``data``: the
        operands and results of ``op`` that have a side.
        """
        if isinstance(op, MovementOp):
            costs = op.cost_on(None), op.cost_on(self.perms[side])
            if costs[0] is None or costs[1] is None:
                return None
            here, there = (Cost(cost.bytes, cost.ops) for cost in costs if cost is not None)
            return (there, here) if side else (here, there)
        if not self.run_bytes or not op.data_movement:
            return Cost(), Cost()
        pairs = [(v.shape, r.shape) for v in data if v not in op.results for r in op.results]
        now, other = (
            Cost(
                self.run_bytes
                * sum(_copied_runs(permuted_shape(a or (), p), permuted_shape(b or (), p)) for a, b in pairs)
            )
            for p in (tuple(range(self.rank)), self.perms[side])
        )
        return (other, now) if side else (now, other)

    def can_follow(self, value: Value) -> bool:
        """Return whether ``value``, beside a variable, can be transposed, or is the same on both sides."""
        if value.is_const:
            return is_movable_constant(value, self.rank)
        if value.shape is None or not is_movable(value):
            return False
        return len(value.shape) == self.rank or keeps_shape(value.shape, self.perms[0])

    # -- the problem ---------------------------------------------------------------------------

    def problem(self, region: Region) -> Problem:
        """Return the problem of choosing the sides of the variables of ``region``."""
        return Problem(
            [v.side for v in region.variables],
            [self.demand(tensor) for tensor in region.tensors],
            [v.charges for v in region.variables],
        )

    def demand(self, tensor: Tensor) -> Demand:
        """Return the producer, the consumers and the cost of a copy of ``tensor``."""
        op = tensor.root.producer
        variable = None if op is None else self.variables.get(op)
        producer = FIXED[tensor.side] if variable is None else variable.number
        moves = set(tensor.moves)
        consumers: list[int] = []
        for value, side in tensor.sides.items():
            if self.graph.is_output(value):
                consumers.append(FIXED[side])
            for op, index in value.uses:
                if op not in moves and not self.accepts_either_side(tensor, op, index):
                    consumers.append(self.consumer(op, index, side))
        return Demand(producer, consumers, self.cost(tensor))

    def consumer(self, op: Op, index: int, side: int) -> int:
        """Return the number of ``op`` as a variable, or FIXED if operand ``index`` must stay on ``side``."""
        variable = self.variables.get(op)
        return FIXED[side] if variable is None or index not in variable.operands else variable.number

    def accepts_either_side(self, tensor: Tensor, op: Op, index: int) -> bool:
        """Return whether ``op`` is a Reshape of ``tensor`` that has the same result on both sides."""
        return isinstance(op, Reshape) and index == 0 and self.has_one_memory_order(tensor)

    def has_one_memory_order(self, tensor: Tensor) -> bool:
        """Return whether the elements of ``tensor`` are in the same memory order on both sides."""
        shape = tensor.root.shape
        assert shape is not None  # it has a side
        return keeps_order(shape, self.perms[tensor.side])

    def cost(self, tensor: Tensor) -> Cost:
        """Return the cost of a copy on the other side; a Reshape moves no bytes."""
        moved = 0 if self.has_one_memory_order(tensor) else size_in_bytes(tensor.root)
        return Cost(moved, 1, tensor.ops_after)


def _copied_runs(source: Shape, result: Shape) -> int:
    """Return the number of contiguous runs that are copied between tensors of these shapes.

    All elements behind the last axis in which they differ are one run; unknown dimensions count as 1.
    """
    different = [axis for axis, (a, b) in enumerate(zip(source, result, strict=True)) if a != b]
    before = [min(a or 1, b or 1) for a, b in zip(source, result, strict=True)][: max(different, default=0)]
    return math.prod(before) if different else 0
