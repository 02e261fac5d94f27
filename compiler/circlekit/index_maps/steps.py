# SPDX-License-Identifier: Apache-2.0
"""The steps of data movement that compute an index map: operators, result shape and cost of each.

An index map says for each element of a result which element of the source it copies.  A plan is a list of
steps in order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np

from circlekit.index_maps.unknown_dim import dims_of, is_unknown, known_count, written
from circlekit.ir.graph import Graph
from circlekit.ir.op import Op
from circlekit.ir.value import Value
from circlekit.ops.movement.gather import ReverseV2
from circlekit.ops.movement.repeat import BroadcastTo, Tile
from circlekit.ops.movement.shape import Reshape, Transpose
from circlekit.ops.movement.slice import Slice, StridedSlice
from circlekit.ops.movement.space import DepthToSpace, SpaceToDepth

Shape = tuple[int, ...]  # has a large prime in place of an unknown dimension: see ``unknown_dim``
Vector = Callable[[str, Sequence[int]], Value]
"""A function that makes a constant int32 vector from its role, such as "perm", and its elements."""


class MovementCost(NamedTuple):
    """The cost of data movement: bytes and the number of operators.

    ``bytes``: the bytes copied (a reshape copies none), plus, for a CONCATENATION or PACK, the extra cost of
    each contiguous part that it copies (``run_cost``).
    """

    bytes: int = 0
    ops: int = 0

    def plus(self, other: MovementCost) -> MovementCost:
        """Return the sum of both costs."""
        return MovementCost(self.bytes + other.bytes, self.ops + other.ops)

    def improves_on(self, other: MovementCost) -> bool:
        """Return whether this cost has fewer bytes or operators than ``other``, and not more of either."""
        return self != other and self.bytes <= other.bytes and self.ops <= other.ops


RUN_BYTES = 64
"""The extra cost of a join (CONCATENATION, PACK) for each run of contiguous elements, as bytes copied.

Reason, measured with LiteRT: a PACK along the last axis copies element by element, and is slower than a
transpose of the same size.
"""


def run_cost(shapes: Sequence[Sequence[int]], axis: int) -> int:
    """Return the extra cost, in bytes, of joining tensors of ``shapes`` along ``axis`` (not negative).

    A tensor has one contiguous run for each combination of indices before ``axis``.
    """
    return RUN_BYTES * sum(known_count(shape[:axis]) for shape in shapes)


class Step(Protocol):
    """One step of a plan.  ``shape``: the shape of its result.  ``moves``: whether it copies elements."""

    @property
    def shape(self) -> Shape: ...

    @property
    def moves(self) -> bool: ...

    def ops(self, value: Value, vector: Vector) -> Iterator[Op]:
        """Yield alternatives: new operators that each apply the whole step to ``value``, the usual one first.

        ``vector`` makes their constant operands.
        """


@dataclass(frozen=True)
class Reshaped:
    """RESHAPE to ``shape``."""

    shape: Shape
    moves = False

    def ops(self, value: Value, vector: Vector) -> Iterator[Op]:
        yield Reshape(value, vector("shape", written(self.shape)), new_shape=written(self.shape))


@dataclass(frozen=True)
class Transposed:
    """TRANSPOSE of a tensor of shape ``source`` by ``perm``."""

    source: Shape
    perm: tuple[int, ...]
    moves = True

    @property
    def shape(self) -> Shape:
        return tuple(self.source[axis] for axis in self.perm)

    def ops(self, value: Value, vector: Vector) -> Iterator[Op]:
        yield Transpose(value, vector("perm", self.perm))


@dataclass(frozen=True)
class Sliced:
    """SLICE, STRIDED_SLICE or REVERSE_V2.

    ``ranges[k]``: the indices taken along axis k.  ``dropped``: axes that the result does not have; only one
    index along them is taken.
    """

    ranges: tuple[range, ...]
    dropped: frozenset[int] = frozenset()
    moves = True

    @property
    def shape(self) -> Shape:
        return tuple(len(taken) for axis, taken in enumerate(self.ranges) if axis not in self.dropped)

    def ops(self, value: Value, vector: Vector) -> Iterator[Op]:
        begin = vector("begin", [taken.start for taken in self.ranges])
        if not self.dropped and all(taken.step == 1 for taken in self.ranges):
            yield Slice(value, begin, vector("size", written([len(taken) for taken in self.ranges])))
        stops = [taken.stop for taken in self.ranges]
        # a stop below 0 (of a reversed axis) or of unknown size cannot be written as a number; the bit of the
        # axis in ``end_mask`` then says that the slice goes to the end
        is_end = [stop < 0 or bool(stop and is_unknown(stop)) for stop in stops]
        end = [0 if masked else stop for stop, masked in zip(stops, is_end, strict=True)]
        to_end = sum(masked << axis for axis, masked in enumerate(is_end))
        steps = vector("strides", [taken.step for taken in self.ranges])
        shrunk = sum(1 << axis for axis in self.dropped)
        yield StridedSlice(value, begin, vector("end", end), steps, end_mask=to_end, shrink_axis_mask=shrunk)
        backwards = [axis for axis, taken in enumerate(self.ranges) if taken.step == -1]
        if backwards and self.shape == dims_of(value):  # all indices are taken
            yield ReverseV2(value, vector("axis", backwards))


@dataclass(frozen=True)
class Tiled:
    """TILE or BROADCAST_TO of a tensor of shape ``source``: repeat axis i ``multiples[i]`` times."""

    source: Shape
    multiples: tuple[int, ...]
    moves = True

    @property
    def shape(self) -> Shape:
        return tuple(dim * times for dim, times in zip(self.source, self.multiples, strict=True))

    def ops(self, value: Value, vector: Vector) -> Iterator[Op]:
        yield Tile(value, vector("multiples", self.multiples))
        is_broadcast = all(1 in pair for pair in zip(self.source, self.multiples, strict=True))
        if is_broadcast and not any(map(is_unknown, self.shape)):
            yield BroadcastTo(value, vector("shape", self.shape))


@dataclass(frozen=True)
class BlocksMoved:
    """SPACE_TO_DEPTH if ``to_depth``, else DEPTH_TO_SPACE.

    ``shape``: the shape of the result.  ``block``: the block size.
    """

    shape: Shape
    block: int
    to_depth: bool
    moves = True

    def ops(self, value: Value, vector: Vector) -> Iterator[Op]:
        kind = SpaceToDepth if self.to_depth else DepthToSpace
        yield kind(value, block_size=self.block)


Plan = tuple[Step, ...]
"""Steps in order: each reads the result of the step before it.  An empty plan leaves its source as it is."""


def cost_of(plan: Plan, element_bits: int) -> MovementCost:
    """Return the cost of ``plan`` on a tensor whose elements have ``element_bits`` bits."""
    moved = sum(known_count(step.shape) for step in plan if step.moves)
    return MovementCost((moved * element_bits + 7) // 8, len(plan))


def sum_of(costs: Iterable[MovementCost]) -> MovementCost:
    """Return the sum of ``costs``."""
    total = MovementCost()
    for cost in costs:
        total = total.plus(cost)
    return total


def built(
    plan: Plan, source: Value, result: Value, graph: Graph, choose: Callable[[Iterator[Op]], Op]
) -> list[Op]:
    """Return new operators that apply ``plan`` to ``source``; the caller inserts them into ``graph``.

    ``result``: the value that the plan computes; the caller makes it the result of the last operator.  New
    values are named after ``result``; the results of the new operators have its quantization.
    ``choose``: returns one of the operators that apply the same step.
    """
    ops: list[Op] = []

    def vector(name: str, numbers: Sequence[int]) -> Value:
        return Value.constant(graph.unique_name(f"{result.name}/{name}"), np.array(numbers, np.int32))

    for step in plan:
        op = choose(step.ops(ops[-1].output if ops else source, vector))
        op.output.name = graph.unique_name(f"{result.name}/{type(op).__name__}")
        op.output.quantization = result.quantization
        ops.append(op)
    return ops
