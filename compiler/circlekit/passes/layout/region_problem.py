# SPDX-License-Identifier: Apache-2.0
"""Express the choice of a side for each operator of a region as a ``Problem``, which labels.py solves.

The terms of region.py:

- A side is a number that stands for an order of axes, for example 0 for NCHW and 1 for NHWC.
- A tensor is all values that transposes, or reshapes that do the same, produce from one value, the ``root``.
  Each of these values is on a side.
- A variable is an operator that can work on several sides; a region is connected tensors and variables.

Terms of labels.py: a label is a side here.  A problem is to choose a label for each variable so that the sum
of two costs is lowest: the cost of the copies of tensors, and the charges, which are the costs of the
variables with these labels.  A demand is the producer and the consumers of a tensor, with the cost of one
copy.
"""

from __future__ import annotations

from circlekit.ir.op import Op
from circlekit.ops.movement.shape import Reshape
from circlekit.passes.layout.labels import Cost, Demand, Problem
from circlekit.passes.layout.region import Finder, Region, Tensor
from circlekit.targets.cost import value_bytes


def problem_of(region: Region, finder: Finder) -> Problem:
    """Return the problem whose solution gives a side to each variable of ``region``.

    ``finder``: the finder that built the region.
    """
    return Problem(
        [v.side for v in region.variables],
        [demand for tensor in region.tensors for demand in demands_of(tensor, finder)],
        [v.charges for v in region.variables],
        region.sides,
    )


def demands_of(tensor: Tensor, finder: Finder) -> list[Demand]:
    """Return the demands of ``tensor``: where it is produced and used, and the cost of a copy.

    Two sides have the same number in ``tensor.shapes`` if the tensor is the same array on both, and in
    ``tensor.orders`` if its elements have the same order in memory on both.  Between sides with

    - the same array, no copy is needed.
    - the same order but another array, the copy is a Reshape: one move of no bytes.
    - another order, the copy is a Transpose: one move of all bytes.

    If both kinds of copies can occur, the costs of two demands add up: one for the moves, one for the bytes.
    """
    producer, consumers = ends_of(tensor, finder)
    size, one_move = value_bytes(tensor.root), Cost(0, 1, tensor.ops_after)  # bytes, moves, ops_after
    if tensor.orders == tensor.shapes:  # every copy is a Transpose
        return [Demand(producer, consumers, one_move._replace(bytes=size), tensor.shapes)]
    moves = Demand(producer, consumers, one_move, tensor.shapes)
    if tensor.has_one_order:  # every copy is a Reshape
        return [moves]
    return [moves, Demand(producer, consumers, Cost(size), tensor.orders)]


def ends_of(tensor: Tensor, finder: Finder) -> tuple[int, list[int]]:
    """Return producer and consumers of ``tensor``, each as a number.

    A variable has its own number.  Any other operator, an input or an output of the graph is bound to a
    side, and has the number ``~side``, which is negative.  Two kinds of users are left out: operators that
    accept all sides, and the transposes and reshapes between the values of the tensor (``tensor.moves``).
    """
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


def _consumer(op: Op, index: int, side: int, finder: Finder) -> int:
    """Return the number of the variable that stands for ``op``, which reads operand ``index`` on ``side``.

    Return ``~side`` if ``op`` is not a variable, or if this operand does not depend on the side of ``op``.
    """
    variable = finder.variables.get(op)
    return ~side if variable is None or index not in variable.operands else variable.number


def accepts_all_sides(op: Op, index: int, tensor: Tensor) -> bool:
    """Return whether ``op`` is a Reshape whose result is the same, whichever side of ``tensor`` it reads.

    ``index``: the operand of ``op`` that is a value of ``tensor``.
    """
    return isinstance(op, Reshape) and index == 0 and tensor.has_one_order
