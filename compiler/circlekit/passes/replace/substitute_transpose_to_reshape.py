# SPDX-License-Identifier: Apache-2.0
"""TRANSPOSE that moves dimensions of 1 alone as RESHAPE."""

from __future__ import annotations

from circlekit.ir.value import Array, Value
from circlekit.ops.movement.shape import checked_perm
from circlekit.passes.replace.to_reshape import ToReshape
from circlekit.rewrite.rewrite import condition


class SubstituteTransposeToReshape(ToReshape):
    """transpose(x, perm)  ==  reshape(x, shape) where all dimensions above 1 keep their order."""

    name = "substitute_transpose_to_reshape"

    before = """
        z = Transpose(x, perm: const)
    """

    @condition
    def moves_ones_alone(self, x: Value, z: Value, perm: Array) -> str | None:
        if x.shape is None:
            return f"%{x.name}: has an unknown rank"
        moved = [a for a in checked_perm(perm.tolist(), len(x.shape)) if x.shape[a] != 1]
        if moved != sorted(moved):
            return f"%{z.name}: perm {perm.tolist()} changes the order of dimensions of %{x.name}, {x.type}"
        return None
