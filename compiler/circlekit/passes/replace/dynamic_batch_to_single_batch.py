# SPDX-License-Identifier: Apache-2.0
"""A model for any batch becomes one for a batch of 1."""

from __future__ import annotations

from circlekit.ir.graph import Model
from circlekit.ir.inference import infer_shapes
from circlekit.rewrite.base import Context, Pass


class DynamicBatchToSingleBatch(Pass):
    """The first dimension of every input, where it is unknown, becomes 1 (shapes of the interface change)."""

    name = "dynamic_batch_to_single_batch"
    changes_interface = True

    def run(self, model: Model, context: Context) -> int:
        open_ones = [v for v in model.main.inputs if v.shape and v.shape[0] is None]
        for value in open_ones:
            assert value.shape is not None
            value.shape = (1, *value.shape[1:])
        if open_ones:
            model.main.epoch += 1
            infer_shapes(model)
        return len(open_ones)
