# SPDX-License-Identifier: Apache-2.0
"""Two Transposes in a row."""

from __future__ import annotations

import numpy as np

from circlekit.ir.value import Array, Value
from circlekit.passes.remove.movement.remove_unnecessary_transpose import Identity
from circlekit.passes.support.conditions import same_quantization
from circlekit.rewrite.rewrite import Rewrite, Rules, condition

PAIR = """
    y = Transpose(x, first: const)
    z = Transpose(y, second: const)
"""


def composed(first: Array, second: Array) -> Array:
    """The perm of a transpose by ``first`` and then by ``second``."""
    return np.asarray((first % first.size)[second % second.size], first.dtype)


class Cancel(Rewrite):
    """The second undoes the first."""

    quantized = True
    shared = ("y",)

    before = PAIR
    after = "x"

    @condition
    def back_again(self, x: Value, y: Value, z: Value, first: Array, second: Array) -> str | None:
        axes = composed(first, second).tolist()
        if axes != sorted(axes):
            return f"%{z.name}: does not undo %{y.name}, both together have perm {axes}"
        return same_quantization(x, y, z)


class Merge(Rewrite):
    """The second of what the first was made of; where others read the first too, it stays for them."""

    quantized = True
    shared = ("y",)

    before = PAIR
    after = """
        z = Transpose(x, perm)
    """

    @condition
    def plain_or_alike(self, x: Value, y: Value, z: Value) -> str | None:
        return same_quantization(x, y, z)

    def constants(self, first: Array, second: Array) -> dict[str, Array]:
        return {"perm": composed(first, second)}


class Nothing(Identity):
    """What is left of several that, together, do nothing."""


class RemoveRedundantTranspose(Rules):
    """Two Transposes in a row cancel, or become one; one that does nothing goes."""

    name = "remove_redundant_transpose"
    rules = (Cancel, Merge, Nothing)
