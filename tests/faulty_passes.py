# SPDX-License-Identifier: Apache-2.0
"""What the faulty passes of several tests do."""

from __future__ import annotations

import numpy as np

from circlekit.ir.graph import Model


def scale_weights_once(model: Model, factor: float) -> int:
    """Multiply the second operand of the first operator by ``factor``, and return 1, the number of changes.

    The next call for the same model changes nothing and returns 0, so that the pass is not run again.
    """
    if model.extra.pop("is_scaled", None):
        return 0
    model.extra["is_scaled"] = True
    weights = model.main.ops[0].inputs[1]
    assert weights is not None
    weights.data = weights.array() * np.float32(factor)
    model.main.epoch += 1
    return 1
