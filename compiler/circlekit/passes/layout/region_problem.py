# SPDX-License-Identifier: Apache-2.0
"""Express the choice of a side for each operator of a region as a ``Problem``, which labels.py solves.

The terms side, tensor, variable and region are those of region.py.  The sides are the labels of the problem.
"""

from __future__ import annotations

from circlekit.ir.op import Op
from circlekit.ops.movement.shape import Reshape
from circlekit.passes.layout.labels import Cost, Demand, Problem
from circlekit.passes.layout.region import Region, Tensor
from circlekit.passes.layout.region_finder import RegionFinder
from circlekit.passes.support.axes import size_in_bytes


def problem_of(region: Region, finder: RegionFinder) -> Problem:
    """Return the problem of choosing the sides of the variables of ``region``, which ``finder`` has found."""
    return Problem(
        [v.side for v in region.variables],
        [demand for tensor in region.tensors for demand in demands_of(tensor, finder)],
        [v.charges for v in region.variables],
        region.sides,
    )


def demands_of(tensor: Tensor, finder: RegionFinder) -> list[Demand]:
    """Return the demands of ``tensor``: where it is produced and used, and the cost of a copy.

    A copy to a side with another order in memory is a Transpose: one move of all bytes.  A copy to a side
    with the same order but another shape is a Reshape: one move of no bytes.  If there may be both kinds, one
    demand counts the moves, and another one counts the bytes.
    """
    producer, consumers = ends_of(tensor, finder)
    size, one = size_in_bytes(tensor.root), Cost(0, 1, tensor.ops_after)
    if tensor.orders == tensor.shapes:
        return [Demand(producer, consumers, one._replace(bytes=size), tensor.shapes)]
    views = Demand(producer, consumers, one, tensor.shapes)
    if tensor.has_one_order:
        return [views]
    return [views, Demand(producer, consumers, Cost(size), tensor.orders)]


def ends_of(tensor: Tensor, finder: RegionFinder) -> tuple[int, list[int]]:
    """Return producer and consumers of ``tensor``: numbers of variables, or ``~side`` for a fixed side."""
    op = tensor.root.producer
    variable = None if op is None else finder.variables.get(op)
    moves = set(tensor.moves)
    consumers: list[int] = []
    for value, side in tensor.sides.items():
        if finder.graph.is_output(value):
            consumers.append(~side)
        for op, index in value.uses:
            if op not in moves and not accepts_all_sides(op, index, tensor):
                consumers.append(_consumer(op, index, side, finder))
    return ~tensor.side if variable is None else variable.number, consumers


def _consumer(op: Op, index: int, side: int, finder: RegionFinder) -> int:
    """Return the number of ``op`` as a variable; ``~side`` if operand ``index`` must stay on ``side``."""
    variable = finder.variables.get(op)
    return ~side if variable is None or index not in variable.operands else variable.number


def accepts_all_sides(op: Op, index: int, tensor: Tensor) -> bool:
    """Return whether ``op`` is a Reshape whose result is the same, whichever side of ``tensor`` it reads."""
    return isinstance(op, Reshape) and index == 0 and tensor.has_one_order
