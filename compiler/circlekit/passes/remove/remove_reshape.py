# SPDX-License-Identifier: Apache-2.0
"""Remove Reshapes that change nothing, or that neighboring operators make unnecessary."""

from __future__ import annotations

from typing import Any

import numpy as np

from circlekit.ir.value import Value, format_shape
from circlekit.passes.remove.remove_neutral import Removed
from circlekit.passes.remove.remove_reshape_around_elementwise import RemoveReshapeAroundUnaryOp
from circlekit.passes.support.conditions import same_quantization, same_shape
from circlekit.rewrite.match import Match
from circlekit.rewrite.rewrite import Rewrite, Rules, condition


class _Reshaped(Rewrite):
    """reshape($move(x), shape)  ==  reshape(x, shape); the first operator stays if it has other users."""

    quantized = True
    shared = ("y",)

    before = """
        y = $move(x$operands)       $attributes
        z = Reshape(y, shape?)
    """
    after = "z = Reshape(x, shape)  {like z}"

    @condition
    def one_quantization(self, x: Value, y: Value, z: Value) -> str | None:
        """``x``, ``y`` and ``z`` have the same quantization parameters."""
        return same_quantization(x, y, z)


class RemoveRedundantReshape(Rules):
    """Merge a Reshape with the Reshape, Squeeze or ExpandDims before it."""

    name = "remove_redundant_reshape"
    rules = (
        _Reshaped.member(move="Reshape", operands=", first?", attributes="{new_shape: any}"),
        _Reshaped.member(move="Squeeze", operands="", attributes="{squeeze_dims: any}"),
        _Reshaped.member(move="ExpandDims", operands=", dim", attributes=""),
    )


class SameShapeReshape(Removed, call="Reshape(x, shape?)  {new_shape: any}"):
    """reshape(x, the shape of x)  ==  x."""

    @condition
    def one_shape(self, x: Value, y: Value) -> str | None:
        """``y`` has the shape of ``x``."""
        return same_shape(x, y)


class ReshapeAndBack(RemoveReshapeAroundUnaryOp):
    """reshape(f(reshape(x)), the shape of x)  ==  f(x) for elementwise functions f."""

    name = ""  # a rule of remove_unnecessary_reshape, not a pass of its own
    back = True  # only if the last Reshape gives the shape of x again


class RemoveUnnecessaryReshape(Rules):
    """reshape(x, the shape of x)  ==  x, and reshape(f(reshape(x)), the shape of x)  ==  f(x).

    The second rule has the conditions of remove_reshape_around_unaryop on the elementwise function f.
    """

    name = "remove_unnecessary_reshape"
    rules = (SameShapeReshape, ReshapeAndBack)


class RemoveReshapeBeforeFullyConnected(Rewrite):
    """fc(reshape(x), w)  ==  fc(x, w): FULLY_CONNECTED reads its input as rows of the width of w.

    This holds if keep_num_dims is false.  x must have two dimensions or more.
    """

    name = "remove_reshape_before_fullyconnected"
    quantized = True

    before = """
        y = Reshape(x, shape?)      {new_shape: any}
        z = FullyConnected(y, w: [_, _], b?) {keep_num_dims: false}
    """
    after = "z = FullyConnected(x, w, b) {like z}"

    @condition
    def has_rows(self, x: Value, y: Value) -> str | None:
        """``x`` has two dimensions or more, which runtimes require, and the quantization of ``y``."""
        if x.shape is None or len(x.shape) < 2:
            return f"%{x.name}: expected two dimensions or more, got shape {format_shape(x.shape)}"
        return same_quantization(x, y)


MAX_MATMUL_RANK = 4
"""Highest rank of a BATCH_MATMUL that ONE's runtime supports."""


class _BatchReshaped(Rewrite):
    """$left @ $right  ==  reshape($old_left @ $old_right), with u = reshape(a) and v = reshape(b).

    a and b have the shape [batch dimensions, rows, columns]; the Reshapes change only batch dimensions.
    Instead of a reshape, u or v may be a constant.  Then the new product reads the constant w: the same
    matrices with the batch dimensions of a or b.  A single matrix gets batch dimensions of 1.
    """

    before = """
        $reshapes
        z = BatchMatMul($left, $right)
    """
    after = """
        p = BatchMatMul($old_left, $old_right)       {like z}
        z = Reshape(p, shape)       {new_shape: new_shape}
    """

    @condition
    def only_the_batch(self, match: Match, z: Value) -> str | None:
        """The Reshapes change only batch dimensions, and all shapes are static."""
        pairs = [(match.values.get(o), match.values.get(n)) for o, n in (("a", "u"), ("b", "v"))]
        reshaped = [(old, new) for old, new in pairs if old is not None and new is not None]
        refusals = (s for old, new in reshaped if (s := _batch_refusal(old, new)) is not None)
        return next(refusals, None if z.is_static else f"%{z.name}: expected a static shape, got {z.type}")

    def constants(self, match: Match) -> dict[str, Any]:
        shape = match.value("z").static_shape
        return {"shape": np.asarray(shape, np.int32), "new_shape": shape}


def _batch_refusal(old: Value, new: Value) -> str | None:
    """Return why the Reshape from ``old`` to ``new`` cannot move after the product; None if it can.

    The rank of ``old`` must be from 2 to MAX_MATMUL_RANK, and the Reshape may change only batch dimensions.
    Raise ModelError if a shape is not static; the pass then reports the message of the error as its refusal.
    """
    a, b = old.static_shape, new.static_shape
    if not 2 <= len(a) <= MAX_MATMUL_RANK:
        return f"%{old.name}: expected rank 2 to {MAX_MATMUL_RANK}, got {len(a)}"
    if a[-2:] != b[-2:]:
        return f"%{new.name}: expected the matrices of {format_shape(a)}, got shape {format_shape(b)}"
    return None


class _BothReshaped(
    _BatchReshaped,
    reshapes="u = Reshape(a, ua?) {new_shape: any}\n        v = Reshape(b, vb?) {new_shape: any}",
    left="u", right="v", old_left="a", old_right="b",
):  # fmt: skip
    """reshape(a) @ reshape(b)  ==  reshape(a @ b), if a and b have the same batch dimensions."""

    @condition
    def equal_batches(self, a: Value, b: Value, u: Value, v: Value) -> str | None:
        """``a`` and ``b`` have the same batch dimensions; so have ``u`` and ``v``."""
        for left, right in ((a, b), (u, v)):
            first, second = left.static_shape[:-2], right.static_shape[:-2]
            if first != second:
                expected = f"the batch dimensions of %{left.name}, {format_shape(first)}"
                return f"%{right.name}: expected {expected}, got {format_shape(second)}"
        return None


class _OneConstant(_BatchReshaped):
    """reshape(a) @ constant  ==  reshape(a @ constant), and the same with the constant on the left."""

    @condition
    def constant_fits(self, match: Match) -> str | None:
        """The constant has no other use, and has the batch dimensions of the other operand.

        A constant that is a single matrix fits any batch dimensions.
        """
        _, value, constant = self._operands(match)
        shape = constant.static_shape
        if constant.use_count != 1:
            uses = constant.use_count
            return f"%{constant.name}: has {uses} uses, so the model would contain the constant twice"
        if value.is_static and (_is_one_matrix(constant) or shape[:-2] == value.static_shape[:-2]):
            return None
        batch = None if value.shape is None else value.shape[:-2]
        expected = f"the batch dimensions of %{value.name}, {format_shape(batch)}"
        return f"%{constant.name}: expected {expected}, got {format_shape(shape[:-2])}"

    def constants(self, match: Match) -> dict[str, Any]:
        old, _, constant = self._operands(match)
        batch = old.static_shape[:-2]
        shape = (*([1] * len(batch) if _is_one_matrix(constant) else batch), *constant.static_shape[-2:])
        return {**super().constants(match), "w": constant.array().reshape(shape)}

    def _operands(self, match: Match) -> tuple[Value, Value, Value]:
        """Return (operand of the Reshape, result of the Reshape, constant): (a, u, v) or (b, v, u)."""
        old, new, constant = "auv" if "a" in match.values else "bvu"
        return match.value(old), match.value(new), match.value(constant)


def _is_one_matrix(constant: Value) -> bool:
    """Return whether all batch dimensions of ``constant`` are 1."""
    return all(d == 1 for d in constant.static_shape[:-2])


class RemoveReshapeAroundBatchMatMul(Rules):
    """Replace the Reshapes of batch dimensions before a BATCH_MATMUL by one Reshape after it."""

    name = "remove_reshape_around_batch_matmul"
    rules = (
        _BothReshaped,
        _OneConstant.member(
            reshapes="u = Reshape(a, ua?) {new_shape: any}",
            left="u", right="v: const", old_left="a", old_right="w",
        ),
        _OneConstant.member(
            reshapes="v = Reshape(b, vb?) {new_shape: any}",
            left="u: const", right="v", old_left="w", old_right="b",
        ),
    )  # fmt: skip
