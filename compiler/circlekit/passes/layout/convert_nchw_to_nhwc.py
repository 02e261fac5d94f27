# SPDX-License-Identifier: Apache-2.0
"""Everything that can work with channels last does so."""

from __future__ import annotations

from circlekit.ir.graph import Graph, Model
from circlekit.ir.op import Op
from circlekit.ops.movement.shape import Transpose
from circlekit.passes.layout.apply import Applier, Constants
from circlekit.passes.layout.labels import FIXED
from circlekit.passes.layout.nhwc import NHWC, nhwc_regions
from circlekit.passes.layout.reductions import move_reductions
from circlekit.passes.layout.region import Finder, Region
from circlekit.passes.replace.custom.resolve_customop_add import ResolveCustomAdd
from circlekit.passes.replace.custom.resolve_customop_batchmatmul import ResolveCustomBatchMatMul
from circlekit.passes.replace.custom.resolve_customop_matmul import ResolveCustomMatMul
from circlekit.passes.replace.custom.resolve_customop_max_pool_with_argmax import (
    ResolveCustomMaxPoolWithArgmax,
)
from circlekit.passes.replace.custom.resolve_customop_splitv import ResolveCustomSplitV
from circlekit.passes.replace.custom.resolve_former_customop import ResolveFormerCustomOp
from circlekit.rewrite.base import Context, GraphPass

MOVED = frozenset(
    {
        "ADD", "CONCATENATION", "DIV", "ELU", "GELU", "LEAKY_RELU", "LOGISTIC", "MAXIMUM", "MEAN", "MINIMUM",
        "MIRROR_PAD", "MUL", "NEG", "PAD", "PADV2", "REDUCE_MAX", "REDUCE_MIN", "RELU", "RELU6", "RSQRT",
        "SPLIT_V", "SQUARED_DIFFERENCE", "SUB",
    }
)  # fmt: skip
"""Operators that are moved at any cost: those of ONE's pass of this name."""


RESOLVED = (
    ResolveCustomAdd,
    ResolveCustomBatchMatMul,
    ResolveCustomMatMul,
    ResolveCustomMaxPoolWithArgmax,
    ResolveCustomSplitV,
    ResolveFormerCustomOp,
)


class ConvertNchwToNhwc(GraphPass):
    """Operators on NCHW data that can work on NHWC data do; transposes stay only at what cannot.

    Unlike optimize_layout it asks for no gain: it is for a runtime that is fast in NHWC alone.  What no
    transpose and no convolution tells the layout of is taken for NCHW.  Custom operators that are known
    become operators of the schema first: what is custom cannot move.  Runs once.
    """

    name = "convert_nchw_to_nhwc"

    def __init__(self) -> None:
        self.done: set[Graph] = set()

    def run(self, model: Model, context: Context) -> int:
        custom = any(op.code == "CUSTOM" for op in model.ops())
        resolved = sum(item().run(model, context) for item in RESOLVED) if custom else 0
        return resolved + super().run(model, context)

    def run_graph(self, graph: Graph, context: Context) -> int:
        if graph in self.done:  # passes that move transposes may undo some of it, for fewer bytes
            return 0
        self.done.add(graph)
        finder, regions = nhwc_regions(graph)
        applier = Applier(finder, Constants(graph))
        moved = 0
        for region in regions:
            if any(v.side != NHWC and v.op.code in MOVED for v in region.variables):
                labels = _labels(finder, region)
                moved += sum(v.side != labels[v.number] for v in region.variables)
                applier.apply(region, labels)
        if context.refusals is not None:
            self._explain(finder.walls, context)
        if context.partial_matches:
            self._explain_others(graph, context)
        return moved + move_reductions(graph, finder.sides, MOVED)

    def _explain_others(self, graph: Graph, context: Context) -> None:
        """What is said of operators that were nowhere near."""
        for op in graph:
            if op.results and op.output.rank != 4:
                rank = "unknown" if op.output.rank is None else op.output.rank
                context.refuse(self.name, op, f"%{op.output.name}: the rank is {rank}, 4 is wanted", 1)
            elif op.results and op.code not in MOVED:
                context.refuse(self.name, op, f"%{op.output.name}: {op.code} moves with others alone", 1)

    def _explain(self, walls: dict[Op, str], context: Context) -> None:
        for op, sentence in walls.items():
            if not isinstance(op, Transpose):
                context.refuse(self.name, op, f"%{op.output.name}: {sentence}")


def _labels(finder: Finder, region: Region) -> list[int]:
    """NHWC for those of MOVED; the others stand where that leaves the fewest bytes to transpose."""
    forced = {v.number for v in region.variables if v.op.code in MOVED}

    def pinned(number: int) -> int:
        return FIXED[NHWC] if number in forced else number

    problem = finder.problem(region)
    for demand in problem.demands:
        demand.producer = pinned(demand.producer)
        demand.consumers = [pinned(number) for number in demand.consumers]
    labels = problem.solve()
    return [NHWC if number in forced else label for number, label in enumerate(labels)]
