# SPDX-License-Identifier: Apache-2.0
"""Lower the version that a file states for an operator to the version that the operator needs.

The version of an operator tells a runtime which features of the operator the model uses.
"""

from __future__ import annotations

from circlekit.ir.graph import Graph
from circlekit.ir.op import Op
from circlekit.passes.engine.legalize import Legalization
from circlekit.rewrite.base import Context


class LowerVersion(Legalization):
    """Lower a stated version that a runtime refuses, if the runtime runs the version that the operator needs.

    Some converters state a higher version than an operator needs.
    """

    kinds = (Op,)

    def run_graph(self, graph: Graph, context: Context) -> int:
        return sum(map(self._lower, graph.ops))

    def _lower(self, op: Op) -> bool:
        """Lower the stated version of ``op`` if the targets then run it; return whether it did."""
        stated = op.version  # None: the writer will state the required version
        if stated is None or self.obstacle(op) is None:
            return False
        op.version = op.required_version()
        is_taken = self.obstacle(op) is None
        op.version = stated
        if is_taken:
            op.touch()  # records a change and forgets the stated version
        return is_taken
