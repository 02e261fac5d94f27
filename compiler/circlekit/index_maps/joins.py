# SPDX-License-Identifier: Apache-2.0
"""Write an index map from several sources as operators: a PACK or CONCATENATION, then the rest of the map.

An index map says for each element of a result which element of the sources it copies.  The rest of the map is
a plan: steps, such as a RESHAPE or a TRANSPOSE, that each become one operator.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from circlekit.index_maps.index_map import IndexMap
from circlekit.index_maps.of_operators import joined_map
from circlekit.index_maps.steps import MovementCost, Plan, Shape, cost_of, run_cost
from circlekit.index_maps.unknown_dim import dims_of, known_count
from circlekit.index_maps.write_back import plans_for
from circlekit.ir.op import Op
from circlekit.ir.value import Value
from circlekit.ops.movement.join import Concatenation, Pack


class Join(NamedTuple):
    """A PACK or CONCATENATION of several values along ``axis``, then the plan ``rest``.

    ``axis`` is not negative.  For a PACK, ``axis`` is the new axis of the result.
    """

    is_pack: bool
    axis: int
    rest: Plan

    def op(self, sources: tuple[Value, ...]) -> Op:
        """Return the operator that joins ``sources``."""
        if self.is_pack:
            return Pack(*sources, values_count=len(sources), axis=self.axis)
        return Concatenation(*sources, axis=self.axis)

    def cost(self, sources: tuple[Value, ...]) -> MovementCost:
        """Return the cost of the join of ``sources`` and of the operators after it."""
        bits = sources[0].dtype.bits
        moved = (sum(known_count(dims_of(value)) for value in sources) * bits + 7) // 8
        moved += run_cost([dims_of(value) for value in sources], self.axis)
        return MovementCost(moved, 1).plus(cost_of(self.rest, bits))


def joins_for(index_map: IndexMap, sources: tuple[Value, ...], result: Shape) -> list[Join]:
    """Return the ways to write ``index_map`` as a join of ``sources``; the cheapest first.

    ``index_map``: the map from the elements of all sources, one source after the other, to the result.
    ``result``: the shape of the result.  The list is empty if the sources have different shapes, or if no
    join followed by operators on one tensor computes the map.
    """
    return sorted(_joins(index_map, sources, result), key=lambda join: join.cost(sources))


def _joins(index_map: IndexMap, sources: tuple[Value, ...], result: Shape) -> Iterator[Join]:
    """Yield the joins of ``joins_for``, in any order."""
    shape, count = dims_of(sources[0]), len(sources)
    if any(dims_of(value) != shape for value in sources):
        return
    for is_pack in (True, False):
        for axis in range(len(shape) + is_pack):
            # PACK and CONCATENATION along one axis give the same elements in the same order: two tensors
            # [2,3] become [2,2,3] or [2,6] along axis 1.  So one ``joined_map`` holds for both.
            # The inverse leads from the result of the join back to the vector that ``index_map`` reads.
            rest_map = index_map.after(joined_map(shape, count, axis).inverse())
            if rest_map is None:
                continue
            whole = (count,) if is_pack else (count * shape[axis],)
            behind = shape[axis:] if is_pack else shape[axis + 1 :]
            plans = plans_for(rest_map, (*shape[:axis], *whole, *behind), result, sources[0].dtype.bits)
            yield from (Join(is_pack, axis, plan) for plan in plans)
