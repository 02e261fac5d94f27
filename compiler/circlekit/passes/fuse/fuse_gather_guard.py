# SPDX-License-Identifier: Apache-2.0
"""Recognize the guard that lets negative indices of an embedding count from the end."""

from __future__ import annotations

from circlekit.ir.value import Array, Value
from circlekit.ops.dimensions import normalized_axis
from circlekit.rewrite.rewrite import Rewrite, condition


class FuseGatherGuard(Rewrite):
    """gather(p, select(i < 0, i + n, i))  ==  gather(p, floor_mod(i, n)), if p has n rows.

    The rows lie along the axis of the GATHER.  Both sides are equal for indices from -n to n - 1.  Other
    indices make the old GATHER fail; the new GATHER takes them modulo n.
    """

    name = "fuse_gather_guard"

    before = """
        l = Less(i, 0)
        a = Add(i, n: const [*, 1])
        s = SelectV2|Select(l, a, i)
        z = Gather(p, s)                    {axis: any = axis, batch_dims: any}
    """
    after = """
        m = FloorMod(i, n)
        z = Gather(p, m)                    {like z}
    """

    @condition
    def counts_the_rows(self, p: Value, n: Array, axis: int) -> str | None:
        rows, added = p.known_shape[normalized_axis(axis, p.known_rank)], int(n.reshape(-1)[0])
        if rows == 0:
            return f"%{p.name}: has 0 rows, expected 1 or more"  # FLOOR_MOD refuses to divide by 0
        if added == rows:
            return None
        found = "an unknown number of" if rows is None else rows
        return f"%{p.name}: has {found} rows, but the number added to i is {added}"
