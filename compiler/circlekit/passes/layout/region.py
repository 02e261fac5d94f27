# SPDX-License-Identifier: Apache-2.0
"""Regions of a graph whose operators can work on data with permuted axes.

A *side* is a number that stands for an order of axes, for example 0 for NCHW and 1 for NHWC.  Values that
transposes, or reshapes that do the same, produce from each other are one *tensor*; each of these values is on
a side.  An operator that can work on several sides is a *variable*: its side can be chosen.  The operands and
results of a variable are on its side.  A *region* is a connected set of tensors and variables.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from circlekit.ir.declaration import NEW_AXIS
from circlekit.ir.graph import Graph
from circlekit.ir.op import Op
from circlekit.ir.value import Value
from circlekit.ops.movement.shape import Reshape, Transpose
from circlekit.passes.layout.labels import Cost
from circlekit.passes.support.axes import Perm
from circlekit.targets.cost import value_bytes

Move = Transpose | Reshape
"""An operator that leads from one side to another: a Transpose, or a Reshape that does the same as one."""


@dataclass(eq=False, repr=False)
class Tensor:
    """``root`` and the values that ``moves`` produce from it, directly or indirectly.

    ``sides``: all these values with their sides.
    ``moves``: the transposes between these values, and reshapes that do the same.
    ``ops_after``: how many operators of the graph, except transposes and reshapes, come after the producer of
    ``root``.  Of two equally cheap places for a transpose, the one with fewer operators after it is better.
    ``shapes``: a number for each side of the region; two sides with the same number need no move, because
    the tensor is the same array on both.
    ``orders``: a number for each side of the region; between two sides with the same number a Reshape is
    enough, because the elements have the same order in memory on both.
    """

    root: Value
    sides: dict[Value, int]
    ops_after: int
    moves: list[Move] = field(default_factory=list)
    shapes: dict[int, int] = field(default_factory=dict)
    orders: dict[int, int] = field(default_factory=dict)

    @property
    def side(self) -> int:
        """The side of ``root``."""
        return self.sides[self.root]

    @property
    def has_one_order(self) -> bool:
        """Whether the elements have the same order in memory on all sides."""
        return len({*self.orders.values()}) == 1


@dataclass(eq=False, repr=False)
class Variable:
    """An operator that can work on several sides, and now works on ``side``.

    ``number``: the index of this variable in the region.
    ``operands``: the indices of the operands that depend on the side.
    ``changes``: for each side on which ``op`` can work, the new attributes and constant operands, by name.
    ``charges``: for each of these sides, what ``op`` itself costs there, in addition to the transposes around
    it; for most operators nothing.
    """

    op: Op
    number: int
    side: int
    operands: frozenset[int]
    changes: dict[int, dict[str, Any]] = field(default_factory=dict)
    charges: dict[int, Cost] = field(default_factory=dict)


@dataclass(eq=False, repr=False)
class Region:
    """A connected set of tensors and variables, each in the order in which they were found.

    ``sides``: all sides on which tensors and variables of the region may be.
    """

    sides: list[int]
    tensors: list[Tensor] = field(default_factory=list)
    variables: list[Variable] = field(default_factory=list)

    def current_cost(self) -> Cost:
        """Return the cost of the present transposes and reshapes, and of the variables on their sides."""
        total = Cost(  # a Reshape counts as a move of no bytes
            sum(value_bytes(t.root) * sum(isinstance(m, Transpose) for m in t.moves) for t in self.tensors),
            sum(len(t.moves) for t in self.tensors),
            sum(t.ops_after * len(t.moves) for t in self.tensors),
        )
        for variable in self.variables:
            total = total.plus(variable.charges[variable.side])
        return total


class Finder:
    """Base of RegionFinder and RankFinder: the operators of ``graph`` that the search has examined so far.

    ``orders[side]``: the axes of side 0 in the order of ``side``, with NEW_AXIS for an axis of dimension 1
    that side 0 does not have.
    ``variables``: the variables found so far, by operator.
    ``fixed``: why an operator next to a region is not a variable, as a sentence.
    """

    def __init__(self, graph: Graph, orders: Sequence[Perm]) -> None:
        self.graph = graph
        self.orders = list(orders)
        self.variables: dict[Op, Variable] = {}
        self.fixed: dict[Op, str] = {}

    def perm(self, start: int, end: int) -> Perm:
        """Return the permutation of a transpose from side ``start`` to side ``end``.

        For sides of different ranks, it inserts the axes that only ``end`` has; those that only ``start`` has
        are missing.
        """
        order = self.orders[start]
        return tuple(axis if axis == NEW_AXIS else order.index(axis) for axis in self.orders[end])
