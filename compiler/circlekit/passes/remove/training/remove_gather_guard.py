# SPDX-License-Identifier: Apache-2.0
"""Remove the arithmetic that supports negative indices."""

from __future__ import annotations

from circlekit.ir.value import Value
from circlekit.ops.dimensions import normalized_axis
from circlekit.rewrite.match import Match
from circlekit.rewrite.rewrite import Rewrite, condition


class RemoveGatherGuard(Rewrite):
    """gather(p, (i + n) mod n)  becomes  gather(p, i) for n rows of p; i must then be from 0 to n - 1."""

    name = "remove_gather_guard"
    changes_values = True
    shared = ("a", "m")

    before = """
        a = Add(i, n: const [*, 1])
        m = FloorMod(a, n2: const [*, 1])
        z = Gather(p, m)                    {axis: any = axis, batch_dims: any}
    """
    after = """
        z = Gather(p, i)                    {like z}
    """

    @condition
    def counts_the_rows(self, match: Match, p: Value, i: Value, axis: int) -> str | None:
        if p.shape is None or i.dtype.numpy is None:
            return f"%{p.name}: expected a known rank"
        rows = p.shape[normalized_axis(axis, len(p.shape))]
        added, modulus = (int(match.value(n).array().reshape(-1)[0]) for n in ("n", "n2"))
        if added == modulus == rows:
            return None
        return f"%{p.name}: expected {rows}, its rows, as addend and as modulus, got {added} and {modulus}"
