# SPDX-License-Identifier: Apache-2.0
"""Cancel or merge two Transposes in a row."""

from __future__ import annotations

import numpy as np

from circlekit.ir.value import Array, Value
from circlekit.passes.remove.movement.remove_unnecessary_transpose import IdentityPerm
from circlekit.passes.support.conditions import same_quantization
from circlekit.rewrite.rewrite import Rewrite, Rules, condition


def composed(first: Array, second: Array) -> Array:
    """The perm that is equal to a transpose by ``first`` and then by ``second``."""
    return np.asarray((first % first.size)[second % second.size], first.dtype)


class Merge(Rewrite):
    """transpose(transpose(x))  ==  transpose(x); the first one stays if it has other users."""

    quantized = True
    shared = ("y",)

    before = """
        y = Transpose(x, first: const)
        z = Transpose(y, second: const)
    """
    after = """
        z = Transpose(x, perm)
    """

    @condition
    def one_quantization(self, x: Value, y: Value, z: Value) -> str | None:
        return same_quantization(x, y, z)

    def constants(self, first: Array, second: Array) -> dict[str, Array]:
        return {"perm": composed(first, second)}


class Cancel(Merge):
    """transpose(transpose(x))  ==  x if the second one undoes the first."""

    after = "x"

    @condition
    def undoes_the_first(self, y: Value, z: Value, first: Array, second: Array) -> str | None:
        axes = composed(first, second).tolist()
        if axes == sorted(axes):
            return None
        return f"%{z.name}: does not undo %{y.name}, together they have perm {axes}"


class Identity(IdentityPerm):
    """What is left of several Transposes that cancel each other."""


class RemoveRedundantTranspose(Rules):
    """Cancel or merge two Transposes in a row; remove one that moves nothing."""

    name = "remove_redundant_transpose"
    rules = (Cancel, Merge, Identity)
