# SPDX-License-Identifier: Apache-2.0
"""Find the changes of an operator, and its cost, if the axes of its data are permuted.

The data of an operator are the operands and results whose axes are permuted; other operands, such as the axis
numbers of a Mean, are not data.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from typing import Any

from circlekit.errors import CirclekitError
from circlekit.ir.declaration import kept_rank
from circlekit.ir.op import Op
from circlekit.ir.shape_inference import misfit
from circlekit.ir.value import Shape, Value
from circlekit.ops.movement.join import Concatenation
from circlekit.ops.movement.shape import Transpose
from circlekit.passes.layout.labels import Cost
from circlekit.passes.layout.movement_op import MovementOp
from circlekit.passes.support.axes import (
    Perm,
    is_movable,
    is_movable_constant,
    keeps_order,
    keeps_shape,
    permuted_shape,
)
from circlekit.targets.cost import value_bytes


def layout_indices(op: Op) -> frozenset[int]:
    """Return the indices of the ``layout_operands`` of ``op``."""
    specs = ((index, op.operand_spec(index)) for index in range(len(op.inputs)))
    return frozenset(i for i, spec in specs if spec is not None and spec.name in op.layout_operands)


def data_values(op: Op, operands: Collection[int]) -> list[Value]:
    """Return the operands of ``op`` with these indices, and all its results."""
    values = [*(op.inputs[index] for index in sorted(operands)), *op.results]
    return [value for value in values if value is not None]


def changes_of(op: Op, values: Sequence[Value], perm: Perm) -> dict[str, Any] | str:
    """Return the new attributes and constants of ``op``, by name, if its data are transposed by ``perm``.

    ``values``: the data.  If ``op`` cannot work on transposed data, return why as a sentence.
    """
    kind = type(op).__name__
    if (sentence := misfit(op)) is not None:
        return f"{kind} breaks its shape rule: {sentence}"
    for value in values:
        if not _can_follow(value, perm):
            return f"{kind} has %{value.name}, which cannot be transposed"
    try:
        changes = op.permuted(perm)
    except CirclekitError as error:
        return f"{kind} cannot work on permuted axes: {error.message}"
    return f"{kind} cannot work on permuted axes" if changes is None else changes


def _can_follow(value: Value, perm: Perm) -> bool:
    """Return whether ``value``, data of an operator, can stay valid if the data are transposed by ``perm``.

    Either ``value`` can be transposed, too.  Or ``value`` has a lower rank and stays as it is, because a
    transpose would change neither its shape nor the places of its elements.
    """
    if value.is_const:
        return is_movable_constant(value, kept_rank(perm))
    if value.shape is None or not is_movable(value):
        return False
    return len(value.shape) == kept_rank(perm) or keeps_shape(value.shape, perm)


def charge_of(op: Op, data: Sequence[Value], perm: Perm, run_bytes: int) -> Cost | None:
    """Return the cost of ``op`` itself if its data are permuted by ``perm``.

    Return None if ``op`` must not be permuted by ``perm``; the caller then does not choose this layout.
    ``data``: the operands whose order of axes can be chosen.
    ``run_bytes``: the fixed cost of copying one run of contiguous elements, as a number of bytes.

    - A MovementOp stands for a chain of operators that move data.  It costs what these would cost on permuted
      axes; return None if no operators do the same on permuted axes.
    - A Transpose costs one move and the bytes that it moves (0 if a Reshape can replace it).
    - A join or a split costs ``run_bytes`` for each run that it copies.  Return None for a Concatenation
      whose axis the pass ``merge_data_movement`` would change back.
    - Other operators cost nothing; nor does a slice, because ``merge_data_movement`` swaps a slice and a
      Transpose without regard to runs.
    """
    identity = tuple(range(len(perm)))
    if isinstance(op, MovementOp):
        cost = op.cost_on(None if perm == identity else perm)
        return None if cost is None else Cost(cost.bytes, cost.ops)
    if isinstance(op, Transpose):
        changes, shape = op.permuted(perm), permuted_shape(op.input.known_shape, perm)
        is_view = changes is not None and keeps_order(shape, tuple(changes["perm"].tolist()))
        return Cost(0 if is_view else value_bytes(op.input), 1)
    # If only axes of size 1 move, Reshapes and a Concatenation along another axis do the same.  Of these
    # axes, merge_data_movement takes the one with the fewest runs, so an axis with more runs would not stay.
    are_views = all(keeps_order(value.known_shape, perm) for value in data)
    if isinstance(op, Concatenation) and are_views and _runs(op, data, perm) > _runs(op, data, identity):
        return None
    copies_parts = op.data_movement and (len(data) > 1 or len(op.results) > 1)
    return Cost(run_bytes * _runs(op, data, perm)) if run_bytes and copies_parts else Cost()


def _runs(op: Op, data: Sequence[Value], perm: Perm) -> int:
    """Return how many runs of contiguous elements ``op`` copies if its data are permuted by ``perm``."""
    pairs = [(permuted_shape(v.known_shape, perm), r.known_shape) for v in data for r in op.results]
    return sum(_copied_runs(a, permuted_shape(b, perm)) for a, b in pairs)


def _copied_runs(source: Shape, result: Shape) -> int:
    """Return the number of runs of contiguous elements that are copied between tensors of these shapes.

    Let k be the last axis in which the shapes differ.  A run has min(source[k], result[k]) indices of axis k,
    each with all elements along the later axes.  For [2, 3, 4] and [2, 6, 4], for example, k is 1: there are
    2 runs of 3 * 4 elements.  If the shapes do not differ, the number of runs is 0.  Unknown dimensions, and
    those of 0, count as 1.
    """
    different = [axis for axis, (a, b) in enumerate(zip(source, result, strict=True)) if a != b]
    before = [min(a or 1, b or 1) for a, b in zip(source, result, strict=True)][: max(different, default=0)]
    return math.prod(before) if different else 0
