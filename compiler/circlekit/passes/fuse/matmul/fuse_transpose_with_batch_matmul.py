# SPDX-License-Identifier: Apache-2.0
"""Fold a Transpose of a matrix operand of BATCH_MATMUL into its adj attribute."""

from __future__ import annotations

from circlekit.ir.value import Array, Value
from circlekit.ops.dimensions import normalized_axis
from circlekit.rewrite.rewrite import Rewrite, Rules, condition


class _Transposed(Rewrite):
    """batch_matmul($old), where t = transpose($side)  ==  batch_matmul(x, y) with the other $adj."""

    before = """
        t = Transpose($side, perm: const)
        z = BatchMatMul($old)       {$adj: any = adj}
    """
    after = """
        z = BatchMatMul(x, y)       {like z, $adj: flipped}
    """

    @condition
    def only_the_matrices(self, t: Value, perm: Array) -> str | None:
        axes = [normalized_axis(a, perm.size) for a in perm.tolist()]
        batch = list(range(len(axes) - 2))
        if axes == [*batch, len(axes) - 1, len(axes) - 2]:
            return None
        return f"%{t.name}: expected a perm that swaps the last two axes alone, got {axes}"

    def constants(self, adj: bool) -> dict[str, bool]:
        return {"flipped": not adj}


class FuseTransposeWithBatchMatMul(Rules):
    """A Transpose that swaps rows and columns of an operand becomes the adj attribute of that operand."""

    name = "fuse_transpose_with_batch_matmul"
    rules = (
        _Transposed.member(side="x", old="t, y", adj="adj_x"),
        _Transposed.member(side="y", old="x, t", adj="adj_y"),
    )
