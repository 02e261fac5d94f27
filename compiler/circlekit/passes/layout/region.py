# SPDX-License-Identifier: Apache-2.0
"""Finds what one permutation of axes can rearrange: its transposes, the tensors, the operators around.

A value is on side 0 or 1 today: a transpose by ``perm`` leads from side 0 to side 1, one by its inverse back.
The sides of transposes are one *tensor*.  An operator that can also work on the other side is a *variable*;
it has one side for all its operands and results.  A *region* is what variables and tensors connect.

Over 120 lines because it holds what every kind of operator does to the sides of its values.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from circlekit.errors import CirclekitError
from circlekit.ir.graph import Graph
from circlekit.ir.op import Op
from circlekit.ir.value import Value
from circlekit.ops.constant_operands import static_int_vector
from circlekit.ops.movement.shape import Reshape, Transpose
from circlekit.passes.layout.axes import (
    Perm,
    inverse,
    is_movable,
    is_movable_constant,
    keeps_order,
    keeps_shape,
    permuted_quantization,
    permuted_shape,
    size_of,
)
from circlekit.passes.layout.labels import FIXED, Cost, Demand, Problem


def constant_perm(op: Op) -> Perm | None:
    """The permutation of a Transpose that is known and moves something, without negative axes."""
    if not isinstance(op, Transpose) or op.input.shape is None:
        return None
    numbers = static_int_vector(op.perm)
    rank = len(op.input.shape)
    if numbers is None or len(numbers) != rank:
        return None
    perm = tuple(axis + rank if axis < 0 else axis for axis in numbers)
    if sorted(perm) != list(range(rank)) or perm == tuple(range(rank)):
        return None
    return perm


@dataclass(eq=False, repr=False)
class Tensor:
    """Data in one or two orders: the values that transposes make of ``root``, and the side of each.

    ``early``: how many operators that do more than to move data come behind the one that makes ``root``.
    """

    root: Value
    sides: dict[Value, int]
    early: int = 0
    moves: list[Transpose | Reshape] = field(default_factory=list)

    @property
    def side(self) -> int:
        return self.sides[self.root]


@dataclass(eq=False, repr=False)
class Variable:
    """An operator that can work on either side.

    ``number``: its index among the variables of the region.  ``operands``: the inputs that hold data.
    ``changes``: what ``Op.permuted`` says for the other side.
    """

    op: Op
    number: int
    side: int
    operands: frozenset[int]
    changes: dict[str, Any]


@dataclass(eq=False, repr=False)
class Region:
    """What transposes connect: the data, and the operators that can work on either side."""

    tensors: list[Tensor] = field(default_factory=list)
    variables: list[Variable] = field(default_factory=list)

    def today(self) -> Cost:
        """What the transposes cost as they are."""
        return Cost(
            sum(size_of(t.root) * sum(isinstance(m, Transpose) for m in t.moves) for t in self.tensors),
            sum(len(t.moves) for t in self.tensors),
            sum(t.early * len(t.moves) for t in self.tensors),
        )


class Finder:
    """Cuts a graph into regions of one permutation."""

    def __init__(self, graph: Graph, perm: Perm, explain: bool = False) -> None:
        self.graph = graph
        self.perms = (perm, inverse(perm))
        self.rank = len(perm)
        self.inputs = frozenset(graph.inputs)
        self.sides: dict[Value, int] = {}
        self.variables: dict[Op, Variable] = {}
        self.walls: dict[Op, str] = {}
        self.behind: dict[Op | None, int] = {}
        count = 0
        for op in reversed(graph.ops):
            self.behind[op] = count
            count += not isinstance(op, Transpose | Reshape)
        self.behind[None] = count  # behind an input

    def regions(self, transposes: list[Transpose]) -> Iterator[Region]:
        """The regions that ``transposes``, all by the permutation or its inverse, are in."""
        for op in transposes:
            perm = self.perm_of(op)
            if perm is not None and op.input not in self.sides and self.links(op):
                yield self.region(op.input, self.perms.index(perm))

    # -- transposes ----------------------------------------------------------------------------

    def far_side(self, op: Op, side: int, back: bool = False) -> int | None:
        """Where a transpose leads from ``side`` (``back``: from its result); None for any other operator."""
        if not isinstance(op, Transpose | Reshape):
            return None
        perm = self.perm_of(op)
        start = 1 - side if back else side
        if perm is None or perm != self.perms[start] or not self.links(op):
            return None
        return 1 - side

    def perm_of(self, op: Op) -> Perm | None:
        """The permutation by which ``op`` moves axes, if it does: a Reshape that moves those of 1, too."""
        if not isinstance(op, Reshape):
            return constant_perm(op)
        before, after = op.input.shape, op.output.shape
        if before is None or after is None or len(before) != self.rank or None in before:
            return None
        found = [p for p in self.perms if permuted_shape(before, p) == after and keeps_order(before, p)]
        return found[0] if found and before != after else None

    def links(self, op: Transpose | Reshape) -> bool:
        """Whether operand and result differ in the order of axes alone, and either may be replaced."""
        source, result, perm = op.input, op.output, self.perm_of(op)
        if perm is None or source.is_const or source.is_variable or result.is_variable:
            return False
        if not is_movable(source) or not is_movable(result) or not self.is_member(source):
            return False
        expected = permuted_quantization(source.quantization, perm)
        return source.dtype is result.dtype and result.quantization == expected

    def is_member(self, value: Value) -> bool:
        """Whether ``value`` is data that has a side."""
        shape = value.shape
        if value.is_const or shape is None or len(shape) != self.rank:
            return False
        return not keeps_shape(shape, self.perms[0])

    # -- tensors -------------------------------------------------------------------------------

    def region(self, value: Value, side: int) -> Region:
        """All that is connected with ``value``, which is on ``side``."""
        region = Region()
        self.add_tensor(region, value, side)
        for tensor in region.tensors:  # the list grows meanwhile
            if tensor.root.producer is not None:
                self.visit(region, tensor.root.producer, tensor.side)
            for value, side in tensor.sides.items():
                for user in value.users:
                    self.visit(region, user, side)
        return region

    def add_tensor(self, region: Region, value: Value, side: int) -> None:
        """Put the tensor that ``value`` belongs to into the region."""
        root, root_side = value, side
        while root.producer is not None:
            far = self.far_side(root.producer, root_side, back=True)
            source = next(iter(root.producer.inputs), None)
            if far is None or source is None or source in self.sides:
                break
            root, root_side = source, far
        region.tensors.append(self.explore(root, root_side))
        if value not in self.sides:  # a transpose on the way makes an output of the graph, and has to stay
            region.tensors.append(self.explore(value, side))

    def explore(self, root: Value, side: int) -> Tensor:
        """All that transposes make of ``root``.

        One value on either side may be part of the interface: a second one needs an operator of its own.
        """
        tensor = Tensor(root, {root: side}, early=self.behind[root.producer])
        self.sides[root] = side
        bound = [False, False]
        bound[side] = root in self.inputs or self.graph.is_output(root) or root.is_variable
        for value in (queue := [root]):
            for op in value.users:
                far = self.far_side(op, tensor.sides[value])
                if far is None or op.inputs[0] is not value or op.results[0] in self.sides:
                    continue
                result = op.results[0]
                if self.graph.is_output(result):
                    if bound[far]:
                        continue
                    bound[far] = True
                tensor.sides[result] = self.sides[result] = far
                assert isinstance(op, Transpose | Reshape)
                tensor.moves.append(op)
                queue.append(result)
        return tensor

    # -- operators -----------------------------------------------------------------------------

    def visit(self, region: Region, op: Op, side: int) -> None:
        """Make ``op``, which has data on ``side``, a variable of the region, or note why it cannot be."""
        if op in self.variables or op in self.walls:
            return
        found = self.flexible(region, op, side)
        if isinstance(found, str):
            self.walls[op] = found
        else:
            self.variables[op] = found
            region.variables.append(found)

    def flexible(self, region: Region, op: Op, side: int) -> Variable | str:
        """``op`` as a variable, or why it works in one order alone.  Brings in the tensors around it."""
        kind = type(op).__name__
        if not op.pure or not op.layout_operands:
            return f"{kind} works in its own layout alone"
        operands = frozenset(_layout_indices(op))
        values = [op.inputs[i] for i in sorted(operands)]
        data: list[Value] = []
        for value in (*(v for v in values if v is not None), *op.results):
            if not self.can_follow(value):
                return f"{kind} has %{value.name}, which cannot be permuted"
            if self.is_member(value):
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
                return f"{kind} reads data in both orders"
        return Variable(op, len(region.variables), side, operands, changes)

    def can_follow(self, value: Value) -> bool:
        """Whether ``value`` has a side, or can be permuted for nothing, or needs not be."""
        if value.is_const:
            return is_movable_constant(value, self.rank)
        if value.shape is None or not is_movable(value):
            return False
        return len(value.shape) == self.rank or keeps_shape(value.shape, self.perms[0])

    # -- the problem ---------------------------------------------------------------------------

    def problem(self, region: Region) -> Problem:
        """The choice of sides for the variables of ``region``."""
        return Problem([v.side for v in region.variables], [self.demand(tensor) for tensor in region.tensors])

    def demand(self, tensor: Tensor) -> Demand:
        maker = self.variables.get(tensor.root.producer) if tensor.root.producer is not None else None
        producer = FIXED[tensor.side] if maker is None else maker.number
        moves = set(tensor.moves)
        consumers: list[int] = []
        for value, side in tensor.sides.items():
            if self.graph.is_output(value):
                consumers.append(FIXED[side])
            for op, index in value.uses:
                if op not in moves and not self.reads_either(tensor, op, index):
                    consumers.append(self.reader(op, index, side))
        return Demand(producer, consumers, self.cost(tensor))

    def reader(self, op: Op, index: int, side: int) -> int:
        """Who wants the value that ``op`` reads: a variable, or FIXED."""
        variable = self.variables.get(op)
        return FIXED[side] if variable is None or index not in variable.operands else variable.number

    def reads_either(self, tensor: Tensor, op: Op, index: int) -> bool:
        """Whether operand ``index`` of ``op`` may be on any side: a Reshape of what lies in one order."""
        return isinstance(op, Reshape) and index == 0 and self.lies_still(tensor)

    def lies_still(self, tensor: Tensor) -> bool:
        """Whether both sides have their elements in the same places."""
        shape = tensor.root.shape
        if shape is None or shape.count(None) > 1:  # which a Reshape cannot say
            return False
        return keeps_order(shape, self.perms[tensor.side])

    def cost(self, tensor: Tensor) -> Cost:
        """What a new copy on the other side costs: no bytes where a Reshape does."""
        return Cost(0 if self.lies_still(tensor) else size_of(tensor.root), 1, tensor.early)


def _layout_indices(op: Op) -> Iterator[int]:
    last = len(op.operands) - 1
    for index in range(len(op.inputs)):
        if op.operands[min(index, last)].name in op.layout_operands:
            yield index
