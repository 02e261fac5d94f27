# SPDX-License-Identifier: Apache-2.0
"""The custom operator MatMul as FULLY_CONNECTED."""

from __future__ import annotations

from typing import ClassVar

from circlekit.ops.program.flexbuffer import options_of
from circlekit.rewrite.match import Match
from circlekit.rewrite.rewrite import Rewrite, Rules, condition


class Direct(Rewrite):
    """mat_mul(x, transposed y)  ==  fully_connected(x, y)."""

    transposed: ClassVar[tuple[bool, bool]] = (False, True)

    before = """
        z = Custom("MatMul", x: f32[_, _], y: f32[_, _])
    """
    after = """
        z = FullyConnected(x, y)
    """

    @condition
    def transposed_so(self, match: Match) -> str | None:
        options = options_of(match.ops["z"])
        found = tuple(bool(options.get(name)) for name in ("transpose_a", "transpose_b"))
        return None if found == self.transposed else f"%{match.value('z').name}: is transposed otherwise"


class Right(Direct):
    """mat_mul(x, y)  ==  fully_connected(x, transpose(y))."""

    transposed = (False, False)

    after = """
        w = Transpose(y, [1, 0])
        z = FullyConnected(x, w)
    """


class Left(Direct):
    """The same with x transposed."""

    transposed = (True, True)

    after = """
        t = Transpose(x, [1, 0])
        z = FullyConnected(t, y)
    """


class Both(Direct):
    """The same with both transposed."""

    transposed = (True, False)

    after = """
        t = Transpose(x, [1, 0])
        w = Transpose(y, [1, 0])
        z = FullyConnected(t, w)
    """


class ResolveCustomMatMul(Rules):
    """TensorFlow's MatMul is FULLY_CONNECTED with the second operand as the weights, transposed."""

    name = "resolve_customop_matmul"
    rules = (Direct, Right, Left, Both)
