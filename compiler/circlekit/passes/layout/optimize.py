# SPDX-License-Identifier: Apache-2.0
"""Choose the layout in which transposes move the fewest bytes ("Layout is one problem" in docs/design.md)."""

from __future__ import annotations

from collections.abc import Sequence

from circlekit.ir.graph import Graph
from circlekit.ir.op import Op
from circlekit.ops.movement.shape import Reshape, Transpose
from circlekit.passes.layout.exchange import exchanged
from circlekit.passes.layout.movement_op import MovementOp, collapse, expand
from circlekit.passes.layout.movement_writer import MovementWriter
from circlekit.passes.layout.region import Move, Region
from circlekit.passes.layout.region_finder import RegionFinder
from circlekit.passes.layout.region_problem import problem_of
from circlekit.passes.layout.region_rewriter import Applier, Constants
from circlekit.passes.support.axes import Perm, inverse, move_perm
from circlekit.rewrite.base import Context, GraphPass

MAX_SWEEPS = 10
"""The largest number of sweeps over all ranks.

One sweep may not be enough: an operator that regroups axes, such as a Reshape from rank 4 to rank 5, may
change in the sweeps of both ranks.
"""


class OptimizeLayout(GraphPass):
    """Let operators work on permuted axes if that leaves fewer bytes to transpose.

    Of all layouts that occur, minimum cuts choose one for each operator.  The bytes moved and the
    number of operators that move them do not increase.  Where the target states a fixed cost of each run of
    contiguous elements, this cost of joins and splits counts as bytes.  Constants are permuted; inputs and
    outputs keep their layout.  If a remaining Transpose changes the shape, but moves only dimensions of 1, it
    becomes a Reshape; at most one dimension may be unknown.
    A Transpose and a Reshape after it are exchanged if the result is only reduced, as in a group norm.
    """

    name = "optimize_layout"
    undoes = frozenset({"convert_nchw_to_nhwc"})

    def run_graph(self, graph: Graph, context: Context) -> int:
        changes = 0
        run_bytes = 0 if context.target is None else context.target.run_bytes
        writer = MovementWriter(graph, context)
        for _ in range(MAX_SWEEPS):
            changed = sum(self.sweep(writer, perms, run_bytes) for perms in perms_of_ranks(graph))
            changed += self.exchange(writer, run_bytes)
            changes += changed
            if not changed:
                break
        if context.refusals is not None:
            for perms in perms_of_ranks(graph):
                self.explain(graph, perms, context)
        return changes

    def sweep(self, writer: MovementWriter, perms: Sequence[Perm], run_bytes: int = 0) -> int:
        """Choose layouts around transposes by ``perms``, which have one rank.

        If data meets its own transpose (as in x + x^T), layouts are chosen for each permutation alone, and
        then for all together.  ``run_bytes``: the fixed cost of copying one run of contiguous elements, as a
        number of bytes.  Return the number of changed operators and transposes.
        """
        changes = self._choose(writer, perms, run_bytes, accepts_frustrated=len(perms) == 1)
        if changes is not None:
            return changes
        return sum(self._choose(writer, chosen, run_bytes) or 0 for chosen in (*([p] for p in perms), perms))

    def _choose(
        self, writer: MovementWriter, perms: Sequence[Perm], run_bytes: int, accepts_frustrated: bool = True
    ) -> int | None:
        """Choose layouts for all ``perms`` together; return the number that ``sweep`` returns.

        If data meets its own transpose and ``accepts_frustrated`` is false, return None and change nothing.
        """
        graph = writer.graph
        # the epoch counts the changes of a graph; ``collapse`` and then ``expand`` must not count as changes
        epoch, moved, changes = graph.epoch, set[Op](), 0
        collapse(graph, perms, writer)
        finder = RegionFinder(graph, perms, run_bytes)
        better = []
        regions = list(finder.regions(moves_by(graph, perms)))
        if finder.is_frustrated and not accepts_frustrated:
            expand(graph, moved)
            graph.epoch = epoch
            return None
        for region in regions:
            labels = improved_labels(finder, region)
            if labels is not None:
                better.append((region, labels))
        if better:
            applier = Applier(finder, Constants(graph))
            for region, labels in better:
                applier.apply(region, labels)
                changed = [v.op for v in region.variables if labels[v.number] != v.side]
                moved.update(changed)
                changes += len(changed) + sum(len(tensor.moves) for tensor in region.tensors)
        expand(graph, moved)
        if not better:
            graph.epoch = epoch
        return changes

    def exchange(self, writer: MovementWriter, run_bytes: int) -> int:
        """Exchange Transposes and the Reshapes after them, where this saves a Transpose.

        Return the number of changes; 0 if every exchange was undone: the next call would only repeat them.
        """
        graph, epoch = writer.graph, writer.graph.epoch
        candidates = (exchanged(graph, op) for op in graph.ops if isinstance(op, Reshape))
        found = [exchange for exchange in candidates if exchange is not None]
        ranks = {exchange.result.known_rank for exchange in found}
        perms_by_rank = [perms for perms in perms_of_ranks(graph) if len(perms[0]) in ranks]
        changes = sum(self.sweep(writer, perms, run_bytes) for perms in perms_by_rank)
        stays = [exchange.finish(graph) for exchange in found]
        if not changes:
            graph.epoch = epoch
        return changes if any(stays) else 0

    def explain(self, graph: Graph, perms: Sequence[Perm], context: Context) -> None:
        """Record why transposes remain: operators with a fixed layout, inputs and outputs."""
        finder = RegionFinder(graph, perms)
        for region in finder.regions(moves_by(graph, perms)):
            for op in (v.op for v in region.variables if isinstance(v.op, Transpose)):
                need = "other operators need the operand and the result of this Transpose in one layout"
                sentence = f"%{op.output.name}: {need}"
                context.refuse(self.name, op, sentence)
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
        """Record why the layout of ``op`` is fixed, if the finder has found it to be fixed."""
        sentence = finder.fixed.pop(op, None)  # removed, so that each operator is reported once
        if sentence is not None:
            name = "".join(f"%{value.name}: " for value in op.results[:1])
            context.refuse(self.name, op, f"{name}{sentence}")


def perms_of_ranks(graph: Graph) -> list[list[Perm]]:
    """Return, for each rank, the permutations that operators of ``graph`` apply (``move_perm``).

    Of two permutations that are inverse to each other, only the first is in the list.
    """
    ranks: dict[int, dict[Perm, None]] = {}
    for op in graph:
        perm = move_perm(op)
        if perm is not None and inverse(perm) not in ranks.setdefault(len(perm), {}):
            ranks[len(perm)][perm] = None
    return [list(perms) for perms in ranks.values()]


def moves_by(graph: Graph, perms: Sequence[Perm]) -> list[Move]:
    """Return the operators of ``graph`` that apply one of ``perms`` or its inverse.

    These are Transposes, and Reshapes with the effect of one.
    """
    found = ((op, move_perm(op)) for op in graph if isinstance(op, Transpose | Reshape))
    return [op for op, perm in found if perm is not None and (perm in perms or inverse(perm) in perms)]


def improved_labels(finder: RegionFinder, region: Region) -> list[int] | None:
    """Return the best label for each variable of ``region``; None if the present labels are as good.

    A variable is an operator whose layout can be chosen; a label is the number of a layout (a side).
    """
    problem, current = problem_of(region, finder), region.current_cost()
    labels = problem.solve()
    cost = problem.cost(labels)
    if cost.moves > current.moves:  # fewer bytes in more moves: look for fewer moves first
        labels = problem.solve(moves_first=True)
        cost = problem.cost(labels)
    if cost[:2] == current[:2] and (
        not current.bytes
        or any(
            isinstance(v.op, MovementOp | Transpose) and labels[v.number] != v.side for v in region.variables
        )
    ):
        # equal bytes and moves: reshapes would only come later, away from data movement with which they may
        # merge; or a transpose and a chain of data movement (a MovementOp) would change places, and change
        # back in the next sweep
        return None
    return labels if cost.improves_on(current) else None
