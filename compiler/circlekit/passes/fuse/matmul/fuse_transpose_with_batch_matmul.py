# SPDX-License-Identifier: Apache-2.0
"""Transposes of the matrices of a BATCH_MATMUL."""

from __future__ import annotations

from circlekit.ir.value import Array, Value
from circlekit.ops.dimensions import normalized_axis
from circlekit.rewrite.rewrite import Rewrite, Rules, condition


class Flip(Rewrite):
    """What both sides share: the Transpose is called t, its perm perm, and the flag of its operand adj."""

    @condition
    def only_the_matrices(self, t: Value, perm: Array) -> str | None:
        axes = [normalized_axis(a, perm.size) for a in perm.tolist()]
        batch = list(range(len(axes) - 2))
        if axes == [*batch, len(axes) - 1, len(axes) - 2]:
            return None
        return f"%{t.name}: perm is {axes}, the last two axes alone are wanted"

    def constants(self, adj: bool) -> dict[str, bool]:
        return {"flipped": not adj}


class FlipX(Flip):
    """transpose(x) @ y."""

    before = """
        t = Transpose(x, perm: const)
        z = BatchMatMul(t, y)       {adj_x: any = adj}
    """
    after = """
        z = BatchMatMul(x, y)       {like z, adj_x: flipped}
    """


class FlipY(Flip):
    """x @ transpose(y)."""

    before = """
        t = Transpose(y, perm: const)
        z = BatchMatMul(x, t)       {adj_y: any = adj}
    """
    after = """
        z = BatchMatMul(x, y)       {like z, adj_y: flipped}
    """


class FuseTransposeWithBatchMatMul(Rules):
    """A Transpose that exchanges rows and columns of an operand becomes its adj flag."""

    name = "fuse_transpose_with_batch_matmul"
    rules = (FlipX, FlipY)
