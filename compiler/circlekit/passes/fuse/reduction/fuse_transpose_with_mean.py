# SPDX-License-Identifier: Apache-2.0
"""Transposes before reductions that leave the other axes in their order."""

from __future__ import annotations

import numpy as np

from circlekit.ir.value import Array, Value
from circlekit.ops.dimensions import normalized_axis
from circlekit.passes.fuse.reduction.fuse_reshape_with_mean import KINDS
from circlekit.rewrite.rewrite import Rewrite, condition


class FuseTransposeWithMean(Rewrite):
    """mean(transpose(x), axes)  ==  mean(x, the axes that they were before)."""

    name = "fuse_transpose_with_mean"
    undoes = frozenset({"convert_nchw_to_nhwc"})

    before = f"""
        t = Transpose(x, perm: const)
        z = {KINDS}(t, axis: const)     {{keep_dims: false}}
    """
    after = f"""
        z = {KINDS}(x, axis2)       {{like z, keep_dims: false}}
    """

    @condition
    def others_stay_in_order(self, z: Value, perm: Array, axis: Array) -> str | None:
        rank = perm.size
        gone = {normalized_axis(int(a), rank) for a in axis.reshape(-1)}
        left = [normalized_axis(int(a), rank) for i, a in enumerate(perm) if i not in gone]
        return None if left == sorted(left) else f"%{z.name}: leaves the axes {left} in another order"

    def constants(self, perm: Array, axis: Array) -> dict[str, Array]:
        return {"axis2": np.asarray(perm % perm.size, axis.dtype)[axis]}
