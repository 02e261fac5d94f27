# SPDX-License-Identifier: Apache-2.0
"""Replace the custom operator SplitV by SPLIT_V."""

from __future__ import annotations

import numpy as np

from circlekit.ir.graph import Graph
from circlekit.ir.op import OpaqueOp
from circlekit.ir.value import Value
from circlekit.ops.movement.join import SplitV
from circlekit.rewrite.base import Context, GraphPass


class ResolveCustomSplitV(GraphPass):
    """Replace TensorFlow's SplitV by SPLIT_V, with constant sizes and axis as int32."""

    name = "resolve_customop_splitv"

    def run_graph(self, graph: Graph, context: Context) -> int:
        found = [
            op for op in graph.ops if isinstance(op, OpaqueOp) and op.custom_code == "SplitV" and op.results
        ]
        return sum(self._resolve(graph, op, context) for op in found)

    def _resolve(self, graph: Graph, op: OpaqueOp, context: Context) -> bool:
        value, *rest = op.inputs if len(op.inputs) == 3 else (None,)
        sizes, axis = (_as_int32(graph, v) for v in rest) if rest else (None, None)
        if value is None or sizes is None or axis is None:
            sentence = f"%{op.output.name}: expected sizes and axis to be integer constants that fit int32"
            context.refuse(self.name, op, sentence, 2)
            return False
        if not context.may_rewrite:
            return False
        context.rewrites(op)
        split = SplitV(value, sizes, axis, results=[], num_splits=len(op.results))
        graph.insert_before(op, split)
        for result in list(op.results):
            result.producer = None
            split.add_result(result)
        op.results = []
        graph.remove(op)
        return True


def _as_int32(graph: Graph, value: Value | None) -> Value | None:
    """``value`` as a constant of int32; None if it is not constant or does not fit."""
    if value is None or not value.is_plain or value.is_variable or value.array().dtype.kind != "i":
        return None
    array = value.array()
    limits = np.iinfo(np.int32)
    if array.dtype == np.int32:
        return value
    if array.size and not limits.min <= array.min() <= array.max() <= limits.max:
        return None
    return Value.constant(graph.unique_name(f"{value.name}/S32"), array.astype(np.int32))
