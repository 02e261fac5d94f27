# SPDX-License-Identifier: Apache-2.0
"""Remove, merge and cancel Transposes; replace them by a Reshape where the elements keep their order."""

from __future__ import annotations

import math
from itertools import chain
from typing import Any

import numpy as np

from circlekit.index_maps.index_map import Factor, IndexMap, strides_of
from circlekit.index_maps.write_back import by_axis
from circlekit.ir.value import Array, Value
from circlekit.ops.dimensions import normalized_axis
from circlekit.passes.remove.remove_neutral import Removed
from circlekit.passes.support.conditions import same_quantization
from circlekit.rewrite.match import Match
from circlekit.rewrite.rewrite import Rewrite, Rules, condition


class IdentityPerm(Removed, call="Transpose(x, perm: const)"):
    """transpose(x, [0, 1, 2, ...])  ==  x."""

    @condition
    def moves_nothing(self, y: Value, perm: Array) -> str | None:
        """The permutation moves no axis."""
        axes = [normalized_axis(a, perm.size) for a in perm.tolist()]
        return None if axes == sorted(axes) else f"%{y.name}: expected a perm that moves no axis, got {axes}"


class _OneReshape(Rewrite):
    """Transposes and Reshapes that together keep the order of the elements  ==  one Reshape."""

    quantized = True

    before = "$moves"
    after = "z = Reshape(x, shape)  {new_shape: new_shape}"

    @condition
    def keeps_the_order(self, match: Match) -> str | None:
        """The elements keep their order, and all values have the same quantization parameters."""
        nodes = self.definition().before.nodes
        values = [match.value(name) for name in ("x", *(node.results[0] for node in nodes))]
        shape = values[0].static_shape
        if 0 in shape:
            return f"%{values[0].name}: is empty"
        sentence = same_quantization(*values)
        if sentence is not None:
            return sentence
        axes: list[list[Factor]] | None
        axes = [[Factor(*pair)] for pair in zip(shape, strides_of(shape), strict=True)]
        for node, value in zip(nodes, values[1:], strict=True):  # each operator and its result
            perm = node.operands[1].name
            if node.kinds[0].code == "TRANSPOSE" and perm is not None:
                axes = [axes[axis] for axis in match.value(perm).array().tolist()]
            else:
                axes = by_axis([*chain.from_iterable(axes)], value.static_shape)
            if axes is None:
                return f"%{value.name}: splits or merges axes of %{values[0].name} irregularly"
        unchanged = IndexMap.of(math.prod(shape), chain.from_iterable(axes)).is_identity
        return None if unchanged else f"%{values[-1].name}: does not keep the order of the elements"

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
    """Remove Transposes that move no axis; replace other Transposes and Reshapes by one Reshape if possible.

    The replaced operators are a Transpose and a Reshape in either order, or a Transpose, a Reshape and a
    second Transpose.  Together they must keep the order of the elements.
    """

    name = "remove_unnecessary_transpose"
    rules = (
        IdentityPerm,
        _OneReshape.member(moves=TRANSPOSE_RESHAPE),
        _OneReshape.member(moves=RESHAPE_TRANSPOSE),
        _OneReshape.member(moves=TRANSPOSE_RESHAPE_TRANSPOSE),
    )


def composed(first: Array, second: Array) -> Array:
    """Return the perm of one Transpose that does the same as Transposes by ``first``, then by ``second``."""
    return np.asarray((first % first.size)[second % second.size], first.dtype)


class Merge(Rewrite):
    """transpose(transpose(x))  ==  transpose(x); the first Transpose stays if it has other users."""

    quantized = True
    shared = ("y",)

    before = """
        y = Transpose(x, first: const)
        z = Transpose(y, second: const)
    """
    after = "z = Transpose(x, perm)"

    @condition
    def one_quantization(self, x: Value, y: Value, z: Value) -> str | None:
        """``x``, ``y`` and ``z`` have the same quantization parameters."""
        return same_quantization(x, y, z)

    def constants(self, first: Array, second: Array) -> dict[str, Array]:
        return {"perm": composed(first, second)}


class Cancel(Merge):
    """transpose(transpose(x))  ==  x if the second Transpose undoes the first."""

    after = "x"

    @condition
    def undoes_the_first(self, y: Value, z: Value, first: Array, second: Array) -> str | None:
        """The second Transpose undoes the first."""
        axes = composed(first, second).tolist()
        if axes == sorted(axes):
            return None
        return f"%{z.name}: does not undo %{y.name}, together they have perm {axes}"


class Identity(IdentityPerm):
    """transpose(x, [0, 1, 2, ...])  ==  x."""

    # a class of its own, because a rule belongs to only one pass


class RemoveRedundantTranspose(Rules):
    """Cancel or merge two Transposes in a row; remove a Transpose that moves no axis."""

    name = "remove_redundant_transpose"
    rules = (Cancel, Merge, Identity)
