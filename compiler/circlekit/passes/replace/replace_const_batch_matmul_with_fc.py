# SPDX-License-Identifier: Apache-2.0
"""Replace BATCH_MATMUL by FULLY_CONNECTED if its right operand is one constant matrix."""

from __future__ import annotations

from circlekit.ir.value import Array, Value
from circlekit.ops.matmul.dense import BatchMatMul
from circlekit.rewrite.match import Match
from circlekit.rewrite.rewrite import Rewrite, condition


class ReplaceConstBatchMatMul(Rewrite):
    """x @ y  ==  fc(x, transpose(y)) for a constant matrix y.

    A FULLY_CONNECTED, in contrast to a BATCH_MATMUL, can have a bias, an activation and a scale per channel.
    """

    name = "replace_const_batch_matmul_with_fc"

    before = "z = BatchMatMul(x: f32, y: const f32[*, _, _])   {adj_y: any = adj_y}"
    after = "z = FullyConnected(x, w)                          {keep_num_dims: true}"

    @condition
    def matrix_stays_single(self, match: Match, adj_y: bool) -> str | None:
        """The old form of the constant is not needed any more; else the model would contain it twice.

        That is, this pass also rewrites all other operators that read it, and it is no graph output.
        """
        y, root = match.value("y"), match.ops["z"]
        if adj_y and y.rank == 2:
            return None
        if root.graph is not None and root.graph.is_output(y):
            return f"%{y.name}: is also an output of the graph, so the model would contain it twice"
        for user in y.users:
            if isinstance(user, BatchMatMul) and user.y is y and user.x is not y:
                keeps_rank = user is root or user.x.rank == user.output.rank  # the engine checks the root
                if keeps_rank and not user.adj_x and user.adj_y == adj_y:
                    continue
            return f"%{y.name}: is also read by {user.code}, so the model would contain it twice"
        return None

    def constants(self, match: Match, y: Array, adj_y: bool) -> dict[str, Array | Value]:
        if adj_y and y.ndim == 2:
            return {"w": match.value("y")}
        matrix = y.reshape(y.shape[-2:])
        return {"w": matrix if adj_y else matrix.T}
