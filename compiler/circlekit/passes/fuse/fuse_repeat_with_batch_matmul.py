# SPDX-License-Identifier: Apache-2.0
"""Let BATCH_MATMUL broadcast matrices that the model copies for several matrices of the left operand.

In grouped-query attention, several heads of queries share one head of keys and one of values.  Exporters copy
each head of the keys and values for its group of queries.
"""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from circlekit.ir.value import Value, format_shape
from circlekit.rewrite.match import Match
from circlekit.rewrite.rewrite import Rewrite, Rules, condition


class _Repeated(Rewrite):
    """x @ reshape(repeat(k))  ==  reshape(reshape(x) @ reshape(k)), if repeat copies each matrix R times.

    There are G matrices in k.  The new product has the batch dimensions [G,R] for x and [G,1] for k.
    ``$repeated``: the name of the copies.  ``$reshape``: the line of the Reshape, if there is one.
    """

    before = """
        $repeated = BroadcastTo|Tile(k, how: const)
        $reshape
        z = BatchMatMul(x, y)      {adj_x: any, adj_y: any}
    """
    after = """
        x2 = Reshape(x, xs)        {new_shape: new_xs}
        k2 = Reshape(k, ks)        {new_shape: new_ks}
        p = BatchMatMul(x2, k2)    {like z}
        z = Reshape(p, zs)         {new_shape: new_zs}
    """

    @condition
    def repeats_whole_matrices(self, match: Match) -> str | None:
        k, x, y, z = map(match.value, "kxyz")
        t = match.value("t") if "t" in match.values else y
        if (value := next((v for v in (k, t, x, y, z) if not v.is_static), None)) is not None:
            return f"%{value.name}: expected a static shape, got {value.type}"
        if _groups(k, t, y) is None:
            matrices = format_shape(y.static_shape[-2:])
            return f"%{t.name}: expected copies of matrices {matrices} that follow each other"
        if x.static_shape[:-2] != y.static_shape[:-2]:
            batch = format_shape(y.static_shape[:-2])
            return f"%{x.name}: expected the batch dimensions {batch}, got shape {format_shape(x.shape)}"
        return None

    def constants(self, match: Match) -> dict[str, Any]:
        k, x, y, z = map(match.value, "kxyz")
        groups = _groups(k, match.value("t") if "t" in match.values else y, y)
        assert groups is not None  # the condition holds
        new = {
            "new_xs": (*groups, *x.static_shape[-2:]),
            "new_ks": (groups[0], 1, *y.static_shape[-2:]),
            "new_zs": z.static_shape,
        }
        return {
            **new,
            **{name.removeprefix("new_"): np.array(shape, np.int32) for name, shape in new.items()},
        }


def _groups(k: Value, t: Value, y: Value) -> tuple[int, int] | None:
    """Return (G, R) if ``t`` has R copies of each of G matrices of ``k``, one after the other; else None.

    The matrices are those of ``y``, which has the elements of ``t`` in the same order.
    """
    before, after = k.static_shape, t.static_shape
    before = (*[1] * (len(after) - len(before)), *before)
    axes = [axis for axis, (a, b) in enumerate(zip(before, after, strict=True)) if a != b]
    if len(axes) != 1 or before[axes[0]] != 1 or len(y.static_shape) < 2:
        return None
    (axis,) = axes
    if prod(after[axis + 1 :]) != prod(y.static_shape[-2:]):
        return None
    return prod(after[:axis]), after[axis]


class FuseRepeatWithBatchMatMul(Rules):
    """BATCH_MATMUL broadcasts its right operand instead of reading copies of it."""

    name = "fuse_repeat_with_batch_matmul"
    rules = (
        _Repeated.member(repeated="t", reshape="y = Reshape(t, s?)    {new_shape: any}"),
        _Repeated.member(repeated="y", reshape=""),
    )
