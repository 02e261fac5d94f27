# SPDX-License-Identifier: Apache-2.0
"""Choose the layout in which transposes move the fewest bytes ("Layout is one problem" in docs/design.md)."""

from __future__ import annotations

from circlekit.ir.graph import Graph
from circlekit.ir.op import Op
from circlekit.ops.movement.shape import Transpose
from circlekit.passes.layout.apply import Applier, Constants
from circlekit.passes.layout.movement_op import MovementOp, collapse, expand
from circlekit.passes.layout.movement_writer import MovementWriter
from circlekit.passes.layout.region import Region, RegionFinder
from circlekit.passes.support.axes import Perm, constant_perm, inverse
from circlekit.rewrite.base import Context, GraphPass

MAX_SWEEPS = 10
"""The pass ends after this many sweeps, in case two layouts alternate; then the pipeline reports an error."""


class OptimizeLayout(GraphPass):
    """Let operators work on permuted axes if that leaves fewer bytes to transpose.

    For each permutation among the transposes of the graph, a minimum cut finds the layouts (labels.py).
    Neither the bytes moved nor the number of operators that move them increases.  Constants are permuted;
    inputs and outputs keep their layout.  A remaining Transpose that only moves dimensions of 1 becomes a
    Reshape.
    """

    name = "optimize_layout"
    undoes = frozenset({"convert_nchw_to_nhwc"})

    def run_graph(self, graph: Graph, context: Context) -> int:
        changes = 0
        run_bytes = 0 if context.target is None else context.target.run_bytes
        writer = MovementWriter(graph, context)
        for _ in range(MAX_SWEEPS):
            changed = self.sweep(writer, run_bytes)
            changes += changed
            if not changed:
                break
        if context.refusals is not None:
            for perm, transposes in transposes_of(graph).items():
                self.explain(graph, perm, transposes, context)
        return changes

    def sweep(self, writer: MovementWriter, run_bytes: int = 0) -> int:
        """Optimize for each permutation once; return the number of changed operators, transposes included.

        ``run_bytes``: as for RegionFinder.
        """
        graph, changes = writer.graph, 0
        constants = Constants(graph)
        for perm in transposes_of(graph):
            epoch, moved = graph.epoch, set[Op]()
            collapse(graph, perm, writer)
            transposes = transposes_of(graph).get(perm, [])
            finder = RegionFinder(graph, perm, run_bytes)
            better = []
            for region in finder.regions(transposes):
                labels = improved_labels(finder, region)
                if labels is not None:
                    better.append((region, labels))
            if better:
                applier = Applier(finder, constants)
                for region, labels in better:
                    applier.apply(region, labels)
                    changed = [v.op for v in region.variables if labels[v.number] != v.side]
                    moved.update(changed)
                    changes += len(changed)
                    changes += sum(len(tensor.moves) for tensor in region.tensors)
            expand(graph, moved)
            if not better:
                graph.epoch = epoch  # the graph is what it was
        return changes

    def explain(self, graph: Graph, perm: Perm, transposes: list[Transpose], context: Context) -> None:
        """Record why transposes remain: operators with a fixed layout, inputs and outputs."""
        finder = RegionFinder(graph, perm)
        for region in finder.regions(transposes):
            for tensor in region.tensors if any(t.moves for t in region.tensors) else ():
                root, move = tensor.root, tensor.moves[0] if tensor.moves else None
                if root.producer is not None:
                    self.note(finder, root.producer, context)
                elif move is not None:
                    context.refuse(self.name, move, f"%{root.name}: an input keeps its layout")
                for value in tensor.sides:
                    for user in value.users:
                        self.note(finder, user, context)
                    if graph.is_output(value) and value.producer is not None:
                        sentence = f"%{value.name}: an output keeps its layout"
                        context.refuse(self.name, value.producer, sentence)

    def note(self, finder: RegionFinder, op: Op, context: Context) -> None:
        """Record why the layout of ``op`` is fixed, if it is."""
        sentence = finder.fixed.pop(op, None)  # removed, so that each operator is reported once
        if sentence is not None and finder.perm_of(op) not in finder.perms:
            context.refuse(self.name, op, f"%{op.output.name}: {sentence}")


def transposes_of(graph: Graph) -> dict[Perm, list[Transpose]]:
    """Return the transposes of ``graph`` by permutation; those of the inverse are in the same list."""
    groups: dict[Perm, list[Transpose]] = {}
    for op in graph:
        perm = constant_perm(op)
        if perm is not None and isinstance(op, Transpose):
            groups.setdefault(min(perm, inverse(perm)), []).append(op)
    return groups


def improved_labels(finder: RegionFinder, region: Region) -> list[int] | None:
    """Return the best label for each variable of ``region``; None if that is no better than the graph now."""
    problem, current = finder.problem(region), region.current_cost()
    labels = problem.solve()
    cost = problem.cost(labels)
    if cost.moves > current.moves:  # fewer bytes in more moves: look for fewer moves first
        labels = problem.solve(moves_first=True)
        cost = problem.cost(labels)
    if cost[:2] == current[:2] and any(
        isinstance(v.op, MovementOp) and labels[v.number] != v.side for v in region.variables
    ):
        return None  # a transpose and a chain that change places: for the axes of the chain they change back
    return labels if cost.improves_on(current) else None
