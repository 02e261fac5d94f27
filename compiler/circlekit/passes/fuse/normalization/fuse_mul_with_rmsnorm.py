# SPDX-License-Identifier: Apache-2.0
"""Fold learned factors after a root-mean-square normalization into its gamma."""

from __future__ import annotations

from circlekit.ir.value import Array, Value
from circlekit.rewrite.rewrite import Rewrite, condition


class FuseMulWithRmsNorm(Rewrite):
    """rms_norm(x, gamma) * w  ==  rms_norm(x, gamma * w)."""

    name = "fuse_mul_with_rmsnorm"
    formats = frozenset({"circle"})

    before = """
        n = RmsNorm(x: f32, gamma: const f32[_])
        z = Mul(n, w: const f32[*, D])
    """
    after = """
        z = RmsNorm(x, gamma2)  {like n}
    """

    @condition
    def one_factor_per_channel(self, x: Value, w: Array) -> str | None:
        last = None if not x.shape else x.shape[-1]
        return (
            None if w.size == last else f"%{x.name}: expected {last} factors, one per channel, got {w.size}"
        )

    def constants(self, gamma: Array, w: Array) -> dict[str, Array]:
        return {"gamma2": w.reshape(-1) * gamma}
