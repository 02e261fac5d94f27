# SPDX-License-Identifier: Apache-2.0
"""Replace negative factors of a batch norm before a RELU."""

from __future__ import annotations

import numpy as np

from circlekit.ir.value import Array
from circlekit.rewrite.rewrite import Rewrite, condition

REPLACEMENT = np.float32(1e-10)
"""The factor that replaces a negative one."""


class MakeBatchNormGammaPositive(Rewrite):
    """Replace each negative gamma in relu(x * gamma + beta) by 1e-10: these channels become relu(beta).

    fuse_preactivation_batchnorm, which requires positive factors, then applies.
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
        return None if (gamma < 0).any() else "expected a negative factor"

    def constants(self, gamma: Array) -> dict[str, Array]:
        return {"positive": np.where(gamma < 0, REPLACEMENT, gamma)}
