# SPDX-License-Identifier: Apache-2.0
"""Remove a Transpose before a reduction that leaves the other axes in their order."""

from __future__ import annotations

import numpy as np

from circlekit.ir.value import Array, Value
from circlekit.ops.dimensions import normalized_axis
from circlekit.passes.fuse.reduction.fuse_reshape_with_mean import REDUCTIONS
from circlekit.rewrite.rewrite import Rewrite, condition


class FuseTransposeWithMean(Rewrite):
    """mean(transpose(x), axes)  ==  mean(x, the axes that these were before)."""

    name = "fuse_transpose_with_mean"
    undoes = frozenset({"convert_nchw_to_nhwc"})

    before = f"""
        t = Transpose(x, perm: const)
        z = {REDUCTIONS}(t, axis: const)     {{keep_dims: false}}
    """
    after = f"""
        z = {REDUCTIONS}(x, axis2)       {{like z, keep_dims: false}}
    """

    @condition
    def keeps_the_order(self, z: Value, perm: Array, axis: Array) -> str | None:
        rank = perm.size
        reduced = {normalized_axis(int(a), rank) for a in axis.reshape(-1)}
        left = [normalized_axis(int(a), rank) for i, a in enumerate(perm) if i not in reduced]
        return None if left == sorted(left) else f"%{z.name}: leaves the axes {left} in another order"

    def constants(self, perm: Array, axis: Array) -> dict[str, Array]:
        return {"axis2": np.asarray(perm % perm.size, axis.dtype)[axis]}
