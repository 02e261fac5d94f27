# SPDX-License-Identifier: Apache-2.0
"""Remove Transposes that, alone or together with Reshapes beside them, keep the order of the elements."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from circlekit.ir.value import Array, Value, format_shape
from circlekit.ops.dimensions import normalized_axis
from circlekit.passes.support.conditions import same_quantization
from circlekit.passes.support.element_order import ElementOrder
from circlekit.rewrite.match import Match
from circlekit.rewrite.rewrite import Rewrite, Rules, condition


class IdentityPerm(Rewrite):
    """transpose(x, [0, 1, 2, ...])  ==  x."""

    quantized = True

    before = """
        y = Transpose(x, perm: const)
    """
    after = "x"

    @condition
    def moves_nothing(self, y: Value, perm: Array) -> str | None:
        axes = [normalized_axis(a, perm.size) for a in perm.tolist()]
        return None if axes == sorted(axes) else f"%{y.name}: expected a perm that moves no axis, got {axes}"


class _OneReshape(Rewrite):
    """Transposes and Reshapes that together keep the order of the elements  ==  one Reshape."""

    quantized = True

    before = """
        $moves
    """
    after = """
        z = Reshape(x, shape)       {new_shape: new_shape}
    """

    @condition
    def keeps_the_order(self, match: Match) -> str | None:
        values = [match.value(name) for name in ("x", *self.steps())]
        if not all(v.is_static for v in values):
            return f"%{values[0].name}: expected static shapes, got {format_shape(values[0].shape)}"
        if 0 in values[0].static_shape:
            return f"%{values[0].name}: is empty"
        return same_quantization(*values) or self._order(match, values)

    def steps(self) -> Sequence[str]:
        """The results in the picture, in order."""
        return [node.results[0] for node in self.definition().before.nodes]

    def _order(self, match: Match, values: Sequence[Value]) -> str | None:
        order = ElementOrder(values[0].static_shape)
        for node, value in zip(self.definition().before.nodes, values[1:], strict=True):
            perm = node.operands[1].name
            if node.kinds[0].code == "TRANSPOSE" and perm is not None:
                order.transpose(match.value(perm).array().tolist())
            elif not order.reshape(value.static_shape):
                return f"%{value.name}: splits or merges axes of %{values[0].name} irregularly"
        return (
            None if order.is_unchanged() else f"%{values[-1].name}: does not keep the order of the elements"
        )

    def constants(self, match: Match) -> dict[str, Any]:
        shape = match.value("z").static_shape
        return {"shape": np.asarray(shape, np.int32), "new_shape": shape}


TRANSPOSE_RESHAPE = """y = Transpose(x, perm: const)
        z = Reshape(y, to?)         {new_shape: any}"""
RESHAPE_TRANSPOSE = """y = Reshape(x, to?)         {new_shape: any}
        z = Transpose(y, perm: const)"""
TRANSPOSE_RESHAPE_TRANSPOSE = """w = Transpose(x, first: const)
        y = Reshape(w, to?)         {new_shape: any}
        z = Transpose(y, second: const)"""


class RemoveUnnecessaryTranspose(Rules):
    """Remove Transposes that, alone or together with Reshapes beside them, keep the order of the elements."""

    name = "remove_unnecessary_transpose"
    rules = (
        IdentityPerm,
        _OneReshape.member(moves=TRANSPOSE_RESHAPE),
        _OneReshape.member(moves=RESHAPE_TRANSPOSE),
        _OneReshape.member(moves=TRANSPOSE_RESHAPE_TRANSPOSE),
    )
