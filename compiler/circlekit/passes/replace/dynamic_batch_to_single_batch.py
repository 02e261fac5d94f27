# SPDX-License-Identifier: Apache-2.0
"""Fix an unknown batch size to 1."""

from __future__ import annotations

from circlekit.ir.graph import Model
from circlekit.ir.shape_inference import infer_shapes
from circlekit.rewrite.base import Context, Pass


class DynamicBatchToSingleBatch(Pass):
    """Set the first dimension of every input to 1 where it is unknown.

    Inputs are those of the main graph and of all graphs with a signature.
    """

    name = "dynamic_batch_to_single_batch"
    changes_interface = True

    def run(self, model: Model, context: Context) -> int:
        count = 0
        for graph in dict.fromkeys([model.main, *(s.graph for s in model.signatures)]):
            open_ones = [v for v in graph.inputs if v.shape and v.shape[0] is None]
            for value in open_ones:
                assert value.shape is not None
                value.shape = (1, *value.shape[1:])
            graph.epoch += bool(open_ones)
            count += len(open_ones)
        if count:
            infer_shapes(model)
        return count
