# SPDX-License-Identifier: Apache-2.0
"""Convert a model from NCHW to NHWC as far as possible."""

from __future__ import annotations

from circlekit.ir.graph import Graph, Model
from circlekit.ir.op import Op
from circlekit.ops.movement.shape import Transpose
from circlekit.passes.engine.driver import run_passes
from circlekit.passes.layout.apply import Applier, Constants
from circlekit.passes.layout.labels import FIXED
from circlekit.passes.layout.nhwc import NHWC, nhwc_regions
from circlekit.passes.layout.reductions import move_reductions
from circlekit.passes.layout.region import Finder, Region
from circlekit.rewrite.base import Context, GraphPass

MOVED = frozenset(
    {
        "ADD", "CONCATENATION", "DIV", "ELU", "GELU", "LEAKY_RELU", "LOGISTIC", "MAXIMUM", "MEAN", "MINIMUM",
        "MIRROR_PAD", "MUL", "NEG", "PAD", "PADV2", "REDUCE_MAX", "REDUCE_MIN", "RELU", "RELU6", "RSQRT",
        "SPLIT_V", "SQUARED_DIFFERENCE", "SUB",
    }
)  # fmt: skip
"""Operators that always become NHWC: those of ONE's pass of this name."""


RESOLVED = (
    "resolve_customop_add",
    "resolve_customop_batchmatmul",
    "resolve_customop_matmul",
    "resolve_customop_max_pool_with_argmax",
    "resolve_customop_splitv",
    "resolve_former_customop",
)
"""Passes that run first, because custom operators cannot move."""


class ConvertNchwToNhwc(GraphPass):
    """Operators on NCHW data work on NHWC data where they can; transposes remain only around the others.

    Unlike optimize_layout it does not need a gain: it is for runtimes that are fast only in NHWC.  Data whose
    layout no transpose and no convolution shows is assumed to be NCHW.  Known custom operators become builtin
    ones first.  It runs once.
    """

    name = "convert_nchw_to_nhwc"

    def __init__(self) -> None:
        self.done: set[Graph] = set()

    def run(self, model: Model, context: Context) -> int:
        has_custom = any(op.code == "CUSTOM" for op in model.ops())
        records = run_passes(model, RESOLVED, context) if has_custom else []
        return sum(record.changes for record in records) + super().run(model, context)

    def run_graph(self, graph: Graph, context: Context) -> int:
        if graph in self.done:  # other passes may undo some of it for fewer bytes
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
            self._explain_fixed(finder.fixed, context)
        if context.partial_matches:
            self._explain_others(graph, context)
        return moved + move_reductions(graph, finder.sides, MOVED)

    def _explain_others(self, graph: Graph, context: Context) -> None:
        """Record why operators that are in no region do not move."""
        for op in graph:
            if op.results and op.output.rank != 4:
                rank = "unknown" if op.output.rank is None else op.output.rank
                context.refuse(self.name, op, f"%{op.output.name}: expected rank 4, got {rank}", 1)
            elif op.results and op.code not in MOVED:
                context.refuse(
                    self.name, op, f"%{op.output.name}: {op.code} moves only together with others", 1
                )

    def _explain_fixed(self, fixed: dict[Op, str], context: Context) -> None:
        for op, sentence in fixed.items():
            if not isinstance(op, Transpose):
                context.refuse(self.name, op, f"%{op.output.name}: {sentence}")


def _labels(finder: Finder, region: Region) -> list[int]:
    """Return NHWC for the operators in MOVED, and for the others what leaves the fewest bytes to move."""
    forced = {v.number for v in region.variables if v.op.code in MOVED}

    def pinned(number: int) -> int:
        return FIXED[NHWC] if number in forced else number

    problem = finder.problem(region)
    for demand in problem.demands:
        demand.producer = pinned(demand.producer)
        demand.consumers = [pinned(number) for number in demand.consumers]
    labels = problem.solve()
    return [NHWC if number in forced else label for number, label in enumerate(labels)]
