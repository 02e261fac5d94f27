# SPDX-License-Identifier: Apache-2.0
"""Replace the custom operators MatMul and BatchMatMulV2 by FULLY_CONNECTED and BATCH_MATMUL."""

from __future__ import annotations

from typing import Any, ClassVar

from circlekit.ir.value import Value
from circlekit.ops.program.flexbuffer import options_of
from circlekit.rewrite.match import Match
from circlekit.rewrite.rewrite import Rewrite, Rules, condition


class _MatMul(Rewrite):
    """mat_mul(x, y)  ==  fully_connected(x, y) if the option transpose_b is true and transpose_a is false.

    ``transposed``: transpose_a and transpose_b; FULLY_CONNECTED multiplies by transposed weights.
    """

    transposed: ClassVar[tuple[bool, bool]] = (False, True)

    before = """
        z = Custom("MatMul", x: f32[_, _], y: f32[_, _])
    """
    after = """
        z = FullyConnected(x, y)
    """

    @condition
    def has_these_options(self, match: Match) -> str | None:
        options = options_of(match.ops["z"])
        found = tuple(bool(options.get(name)) for name in ("transpose_a", "transpose_b"))
        return None if found == self.transposed else f"%{match.value('z').name}: has other transpose options"


class _Plain(_MatMul):
    """mat_mul(x, y)  ==  fully_connected(x, transpose(y))."""

    transposed = (False, False)

    after = """
        w = Transpose(y, [1, 0])
        z = FullyConnected(x, w)
    """


class _BothTransposed(_MatMul):
    """mat_mul(x, y) with both operands transposed  ==  fully_connected(transpose(x), y)."""

    transposed = (True, True)

    after = """
        t = Transpose(x, [1, 0])
        z = FullyConnected(t, y)
    """


class _LeftTransposed(_MatMul):
    """mat_mul(x, y) with x transposed  ==  fully_connected(transpose(x), transpose(y))."""

    transposed = (True, False)

    after = """
        t = Transpose(x, [1, 0])
        w = Transpose(y, [1, 0])
        z = FullyConnected(t, w)
    """


class ResolveCustomMatMul(Rules):
    """Replace TensorFlow's MatMul by FULLY_CONNECTED with the second operand, transposed, as weights."""

    name = "resolve_customop_matmul"
    rules = (_MatMul, _Plain, _BothTransposed, _LeftTransposed)


class ResolveCustomBatchMatMul(Rewrite):
    """batch_mat_mul_v2(x, y)  ==  batch_matmul(x, y), with its options adj_x and adj_y."""

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
        return None if flat is None else f"%{flat.name}: expected rank 2 or more, got {flat.type}"

    def constants(self, match: Match) -> dict[str, Any]:
        options = options_of(match.ops["z"])
        return {name: bool(options.get(name)) for name in ("adj_x", "adj_y")}
