# SPDX-License-Identifier: Apache-2.0
"""A batch norm before RELU without negative factors."""

from __future__ import annotations

import numpy as np

from circlekit.ir.value import Array
from circlekit.rewrite.rewrite import Rewrite, condition

TINY = np.float32(1e-10)
"""What takes the place of a negative factor."""


class MakeBatchNormGammaPositive(Rewrite):
    """relu(x * gamma + beta)  with 1e-10 for each negative gamma: these channels become relu(beta).

    fuse_preactivation_batchnorm can then move what it could not.
    """

    name = "make_batchnorm_gamma_positive"
    changes_values = True

    before = """
        m = Mul(x: f32[_, _, _, C], gamma: const f32[*, C])
        z = Add(m, beta: const f32[*, C])           {act: RELU}
    """
    after = """
        p = Mul(x, positive)
        z = Add(p, beta)                            {like z}
    """

    @condition
    def some_negative(self, gamma: Array) -> str | None:
        return None if (gamma < 0).any() else "no factor is negative"

    def constants(self, gamma: Array) -> dict[str, Array]:
        return {"positive": np.where(gamma < 0, TINY, gamma)}
