# SPDX-License-Identifier: Apache-2.0
"""The custom operator BatchMatMulV2 as BATCH_MATMUL."""

from __future__ import annotations

from typing import Any

from circlekit.ir.value import Value
from circlekit.ops.program.flexbuffer import options_of
from circlekit.rewrite.match import Match
from circlekit.rewrite.rewrite import Rewrite, condition


class ResolveCustomBatchMatMul(Rewrite):
    """batch_mat_mul_v2(x, y)  ==  batch_matmul(x, y), each transposed or not as its options say."""

    name = "resolve_customop_batchmatmul"

    before = """
        z = Custom("BatchMatMulV2", x: f32, y: f32)
    """
    after = """
        z = BatchMatMul(x, y)           {adj_x: adj_x, adj_y: adj_y}
    """

    @condition
    def matrices(self, x: Value, y: Value) -> str | None:
        flat = next((v for v in (x, y) if (v.rank or 0) < 2), None)
        return None if flat is None else f"%{flat.name}: is {flat.type}, matrices are wanted"

    def constants(self, match: Match) -> dict[str, Any]:
        options = options_of(match.ops["z"])
        return {name: bool(options.get(name)) for name in ("adj_x", "adj_y")}
