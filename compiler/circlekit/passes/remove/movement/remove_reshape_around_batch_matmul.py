# SPDX-License-Identifier: Apache-2.0
"""Reshapes that merge or split the batch dimensions of a BATCH_MATMUL.

Over 120 lines because there are four places for the Reshapes, a picture for each.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from circlekit.ir.value import Array, Value, format_shape
from circlekit.rewrite.match import Match
from circlekit.rewrite.rewrite import Rewrite, Rules, condition

MOST_AXES = 4
"""ONE's runtime takes no BATCH_MATMUL of more."""


class BatchOnly(Rewrite):
    """What the pictures share: a and b, of shapes [..., rows, columns], are read through Reshapes u and v."""

    after = """
        p = BatchMatMul(a, b)       {like z}
        z = Reshape(p, shape)       {new_shape: new_shape}
    """

    @condition
    def only_the_batch(self, match: Match) -> str | None:
        pairs = [(match.values.get(o), match.values.get(n)) for o, n in (("a", "u"), ("b", "v"))]
        values = [(old, new) for old, new in pairs if old is not None and new is not None]
        return next((s for old, new in values if (s := _batch_refusal(old, new)) is not None), None)

    def constants(self, match: Match) -> dict[str, Any]:
        shape = match.value("z").static_shape
        return {"shape": np.asarray(shape, np.int32), "new_shape": shape}


def _batch_refusal(old: Value, new: Value) -> str | None:
    """Why the Reshape from ``old`` to ``new`` does more than to merge or split batch dimensions."""
    for value in (old, new):
        if not value.is_static:
            return f"%{value.name}: has shape {format_shape(value.shape)}, expected a static shape"
    a, b = old.static_shape, new.static_shape
    if not 2 <= len(a) <= MOST_AXES:
        return f"%{old.name}: has rank {len(a)}, 2 to {MOST_AXES} are wanted"
    if a[-2:] != b[-2:]:
        return f"%{new.name}: makes {format_shape(b)} of {format_shape(a)}, equal matrices are wanted"
    return None


class BothSides(BatchOnly):
    """reshape(a) @ reshape(b)  ==  reshape(a @ b), where a and b have the same batch dimensions."""

    before = """
        u = Reshape(a, ua?)         {new_shape: any}
        v = Reshape(b, vb?)         {new_shape: any}
        z = BatchMatMul(u, v)
    """

    @condition
    def equal_batches(self, a: Value, b: Value, u: Value, v: Value) -> str | None:
        for left, right in ((a, b), (u, v)):
            first, second = left.static_shape[:-2], right.static_shape[:-2]
            if first != second:
                return (
                    f"%{right.name}: has batch dimensions {format_shape(second)}, "
                    f"%{left.name} has {format_shape(first)}"
                )
        return None


class ConstantRight(BatchOnly):
    """reshape(a) @ constant  ==  reshape(a @ the constant with the batch dimensions of a)."""

    before = """
        u = Reshape(a, ua?)         {new_shape: any}
        z = BatchMatMul(u, v: const)
    """
    after = BatchOnly.after.replace("(a, b)", "(a, w)")

    @condition
    def fits(self, match: Match) -> str | None:
        return _constant_refusal(match.value("u"), match.value("v"))

    def constants(self, match: Match) -> dict[str, Any]:
        w = _with_batch(match.value("a"), match.value("v"))
        return {**super().constants(match), "w": w}


class ConstantLeft(BatchOnly):
    """constant @ reshape(b)  ==  reshape(the constant with the batch dimensions of b @ b)."""

    before = """
        v = Reshape(b, vb?)         {new_shape: any}
        z = BatchMatMul(u: const, v)
    """
    after = BatchOnly.after.replace("(a, b)", "(w, b)")

    @condition
    def fits(self, match: Match) -> str | None:
        return _constant_refusal(match.value("v"), match.value("u"))

    def constants(self, match: Match) -> dict[str, Any]:
        w = _with_batch(match.value("b"), match.value("u"))
        return {**super().constants(match), "w": w}


def _constant_refusal(value: Value, constant: Value) -> str | None:
    """Why ``constant`` cannot be arranged as ``value`` is before its Reshape."""
    shape = constant.static_shape
    if constant.use_count != 1:
        return f"%{constant.name}: has {constant.use_count} readers, the model would hold it twice"
    if value.is_static and (_is_one_matrix(constant) or shape[:-2] == value.static_shape[:-2]):
        return None
    batch = None if value.shape is None else value.shape[:-2]
    return (
        f"%{constant.name}: has batch dimensions {format_shape(shape[:-2])}, "
        f"%{value.name} has {format_shape(batch)}"
    )


def _is_one_matrix(constant: Value) -> bool:
    return all(d == 1 for d in constant.static_shape[:-2])


def _with_batch(like: Value, constant: Value) -> Array:
    """``constant`` with the batch dimensions of ``like``, or, if it is one matrix, with as many ones."""
    batch = like.static_shape[:-2]
    matrix = constant.static_shape[-2:]
    return constant.array().reshape(((1,) * len(batch) if _is_one_matrix(constant) else batch) + matrix)


class RemoveReshapeAroundBatchMatMul(Rules):
    """A BATCH_MATMUL of what was only reshaped in its batch dimensions: one Reshape behind it is enough."""

    name = "remove_reshape_around_batch_matmul"
    rules = (BothSides, ConstantRight, ConstantLeft)
