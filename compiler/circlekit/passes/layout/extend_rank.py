# SPDX-License-Identifier: Apache-2.0
"""Let operators work on data with further axes of dimension 1 where that needs fewer reshapes.

The terms region, tensor, variable, side and move are those of ``region.py``; for the sides see
``rank_finder.py``.  A list of labels has the chosen side of each variable (``region_problem.py``).
"""

from __future__ import annotations

from circlekit.ir.graph import Graph
from circlekit.passes.layout.rank_finder import MAX_EXTENDED_RANK, RankFinder
from circlekit.passes.layout.region import Region, Tensor
from circlekit.passes.layout.region_problem import problem_of
from circlekit.passes.layout.region_rewriter import Applier, Constants
from circlekit.rewrite.base import Context, GraphPass


class ExtendRank(GraphPass):
    """op(reshape(x))  ==  reshape(op(x)) for whole regions of operators, where that leaves fewer reshapes.

    The reshapes only insert axes of dimension 1 or remove them, as those around the 2-D convolutions that
    stand for 1-D ones.  Minimum cuts choose the operators that get further axes.  Of choices with equally few
    reshapes, one with the fewest transposes of lower rank is taken, because ``optimize_layout`` then sees
    these transposes together with those of higher rank.  Constants follow; inputs and outputs keep their
    shapes.
    """

    name = "extend_rank"

    def run_graph(self, graph: Graph, context: Context) -> int:
        # from high to low ranks, so that one run extends an operator only once
        return sum(self.extend(graph, rank, context) for rank in reversed(range(1, MAX_EXTENDED_RANK)))

    def extend(self, graph: Graph, rank: int, context: Context) -> int:
        """Extend operators on data of ``rank``; return the number of regions in which some were extended."""
        finder, changes = RankFinder(graph, rank), 0
        found = [(region, improved_ranks(finder, region)) for region in list(finder.regions())]
        applier = Applier(finder, Constants(graph))
        for region, labels in found:
            # a region is one rewrite, which is reported at its first reshape; without a reshape it stays
            move = next((move for tensor in region.tensors for move in tensor.moves), None)
            if labels is not None and move is not None and context.accepts(self.name, move, None):
                applier.apply(region, labels)
                changes += 1
        if context.refusals is not None:
            self.explain(RankFinder(graph, rank), context)
        return changes

    def explain(self, finder: RankFinder, context: Context) -> None:
        """Record why reshapes remain."""
        for region in finder.regions():
            for tensor in region.tensors:
                for move in tensor.moves:
                    sentence = f"%{move.output.name}: {_obstacle(finder, tensor)}"
                    context.refuse(self.name, move, sentence)


def improved_ranks(finder: RankFinder, region: Region) -> list[int] | None:
    """Return the best side for each variable of ``region``; None if the present sides are as good."""
    problem = problem_of(region, finder)
    labels = problem.solve()
    return labels if problem.cost(labels) < region.current_cost() else None


def _obstacle(finder: RankFinder, tensor: Tensor) -> str:
    """Return why a value of ``tensor`` keeps its rank."""
    for value in (v for v, side in tensor.sides.items() if side == 0):
        if value in finder.inputs or finder.graph.is_output(value):
            return f"an {'input' if value in finder.inputs else 'output'} keeps its shape"
        for op in (value.producer, *value.users):
            if op is not None and op in finder.fixed:
                return finder.fixed[op]
    return "no other ranks of the operators need fewer reshapes"
