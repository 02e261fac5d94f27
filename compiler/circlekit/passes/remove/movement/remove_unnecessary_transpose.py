# SPDX-License-Identifier: Apache-2.0
"""Transposes that move nothing, and those that, with the Reshapes beside them, do no more than a Reshape."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from circlekit.ir.value import Array, Value, format_shape
from circlekit.ops.dimensions import normalized_axis
from circlekit.passes.support.conditions import same_quantization
from circlekit.passes.support.element_order import Moves
from circlekit.rewrite.match import Match
from circlekit.rewrite.rewrite import Rewrite, Rules, condition


class Identity(Rewrite):
    """transpose(x, [0, 1, 2, ...])  ==  x."""

    quantized = True

    before = """
        y = Transpose(x, perm: const)
    """
    after = "x"

    @condition
    def moves_nothing(self, y: Value, perm: Array) -> str | None:
        axes = [normalized_axis(a, perm.size) for a in perm.tolist()]
        return None if axes == sorted(axes) else f"%{y.name}: perm is {axes}, which moves axes"


class OneReshape(Rewrite):
    """What the pictures with Reshapes share: z has the elements of x in their order."""

    quantized = True
    after = """
        z = Reshape(x, shape)       {new_shape: new_shape}
    """

    @condition
    def keeps_the_order(self, match: Match) -> str | None:
        values = [match.value(name) for name in ("x", *self.steps())]
        if not all(v.is_static for v in values):
            return f"%{values[0].name}: has shape {format_shape(values[0].shape)}, expected a static shape"
        if 0 in values[0].static_shape:
            return f"%{values[0].name}: is empty"
        return same_quantization(*values) or self._order(match, values)

    def steps(self) -> Sequence[str]:
        """The results of the picture, in order."""
        return [node.results[0] for node in self.definition().before.nodes]

    def _order(self, match: Match, values: Sequence[Value]) -> str | None:
        moves = Moves(values[0].static_shape)
        for node, value in zip(self.definition().before.nodes, values[1:], strict=True):
            perm = node.operands[1].name
            if node.kinds[0].code == "TRANSPOSE" and perm is not None:
                moves.transpose(match.value(perm).array().tolist())
            elif not moves.reshape(value.static_shape):
                return f"%{value.name}: cuts across the axes of %{values[0].name}"
        return None if moves.in_order() else f"%{values[-1].name}: has its elements in another order"

    def constants(self, match: Match) -> dict[str, Any]:
        shape = match.value("z").static_shape
        return {"shape": np.asarray(shape, np.int32), "new_shape": shape}


class TransposeReshape(OneReshape):
    """The Transpose moves only dimensions of 1, or what the Reshape merges at once."""

    before = """
        y = Transpose(x, perm: const)
        z = Reshape(y, to?)         {new_shape: any}
    """


class ReshapeTranspose(OneReshape):
    """The same with the Reshape first."""

    before = """
        y = Reshape(x, to?)         {new_shape: any}
        z = Transpose(y, perm: const)
    """


class TransposeReshapeTranspose(OneReshape):
    """The second Transpose undoes what the first does, past the Reshape."""

    before = """
        w = Transpose(x, first: const)
        y = Reshape(w, to?)         {new_shape: any}
        z = Transpose(y, second: const)
    """


class RemoveUnnecessaryTranspose(Rules):
    """Transposes that, alone or with Reshapes beside them, leave all elements in their order."""

    name = "remove_unnecessary_transpose"
    rules = (Identity, TransposeReshape, ReshapeTranspose, TransposeReshapeTranspose)
