# SPDX-License-Identifier: Apache-2.0
"""Replace chains of data movement by single operators while layouts are chosen.

A channel shuffle is a Reshape to five axes, a Transpose, and a Reshape back.  A Reshape that regroups axes
cannot work on permuted axes, so it would keep other layouts of the four axes out of the whole chain.  A
single operator with the index map of all three can work on permuted axes: only its map changes.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Any

from circlekit.index_maps.index_map import IndexMap
from circlekit.index_maps.of_operators import movement_of
from circlekit.index_maps.steps import MovementCost, Plan, Reshaped
from circlekit.index_maps.unknown_dim import dims_of
from circlekit.ir.graph import Graph
from circlekit.ir.op import Op, attribute, operand
from circlekit.ir.value import TensorType, Value
from circlekit.ops.operand_dtypes import ANY
from circlekit.passes.layout.movement_writer import MovementWriter
from circlekit.passes.support.axes import Perm, inverse, perms_of


class MovementOp(Op, data_movement=True, layout_operands=("input",)):
    """The elements of ``input`` in the order of ``map``; this operator never appears in a file.

    ``map``: for each element of the result, the element of ``input`` that it copies.
    ``chain``: the operators that the MovementOp stands for, each with the version that the file states; these
    operators are in no graph.
    ``cost``: the cost of these operators.  ``runs``: whether the target runs them.
    ``writer``: chooses the operators for another map.
    """

    input = operand(*ANY)

    map: IndexMap = attribute(IndexMap.identity(1))
    chain: tuple[tuple[Op, int | None], ...] = attribute(())
    cost: MovementCost = attribute(MovementCost())
    runs: bool = attribute(True)
    writer: MovementWriter | None = attribute(None)

    def infer(self) -> TensorType:
        return self.output.type

    def permuted(self, perm: tuple[int, ...]) -> dict[str, Any] | None:
        """Return {"map": the map from the permuted operand to the permuted result}; None if none is found."""
        changed = self.permuted_map(perm)
        return None if changed is None else {"map": changed}

    def permuted_map(self, perm: Perm) -> IndexMap | None:
        """Return the map from transpose(input, perm) to transpose(output, perm); None if none is found."""
        back = inverse(perm)  # transpose back, apply ``map``, then transpose again
        source = [dims_of(self.input)[axis] for axis in perm]
        changed = self.map.after(IndexMap.transposed(source, back))
        moved = IndexMap.transposed(dims_of(self.output), perm)
        return None if changed is None else moved.after(changed)

    def cost_on(self, perm: Perm | None) -> MovementCost | None:
        """Return the cost of the operators if operand and result are transposed by ``perm``.

        If ``perm`` is None, return the present cost.  Return None if no operators compute the transposed map.
        """
        if perm is None:
            return self.cost
        changed = self.permuted_map(perm)
        found = None if changed is None else self.best_plan(changed, perm)
        if found is None:
            return None
        # an empty plan may still need a Reshape, to copy an input of the graph to an output: 0 bytes, 1 op
        return found[1] if found[0] else MovementCost(0, 1)

    def best_plan(self, index_map: IndexMap, perm: Perm) -> tuple[Plan, MovementCost] | None:
        """Return the cheapest plan (operators) for ``index_map``, and its cost; None if there is none.

        The map leads from transpose(input, perm) to transpose(output, perm).  If the target runs the present
        operators, it must run those of the plan, too.
        """
        shape, result = (tuple(dims_of(v)[axis] for axis in perm) for v in (self.input, self.output))
        assert self.writer is not None  # collapse has set it
        return self.writer.best_plan(index_map, self.input, (shape, result), self.runs)


def collapse(graph: Graph, perms: Sequence[Perm], writer: MovementWriter) -> None:
    """Replace chains of operators that move data by one MovementOp each.

    The first operand and the last result of a chain must have the rank of ``perms``, and one index map must
    describe the chain.  Transposes by ``perms`` or their inverses, and reshapes that do the same, are cut off
    at both ends and stay: another layout can remove them.  A single operator stays if it can itself work on
    permuted axes.  If all operators that move data, except for such transposes and reshapes, can work on
    permuted axes, the graph stays as it is.
    ``perms``: the permutations of axes by which layouts may change: at least one, all of the same rank.
    ``writer``: writes the operators that replace a chain if its layout changes.
    """
    perms = [p for perm in perms for p in (perm, inverse(perm))]
    if all(not op.data_movement or op.layout_operands or perms_of(op, perms) for op in graph):
        return  # the usual case: nothing regroups axes
    for chain in list(_chains(graph)):
        while chain and perms_of(chain[0], perms):
            chain.pop(0)
        while chain and perms_of(chain[-1], perms):
            chain.pop()
        if len(chain) > 1 or (chain and not chain[0].layout_operands):
            _replace(graph, chain, len(perms[0]), writer)


def _chains(graph: Graph) -> Iterator[list[Op]]:
    """Yield the longest chains of operators that move data; all results but the last one have one use.

    The MovementOp will stand in the place of the first operator.  So the later operators of a chain must read
    only the chain and constants: another operand might be computed after that place.
    """
    seen: set[Op] = set()
    for op in graph.ops:
        if op in seen or _link(op) is None:
            continue
        chain = [op]
        while len(users := chain[-1].output.uses) == 1 and not graph.is_output(chain[-1].output):
            user, index = users[0]
            others = (v for i, v in enumerate(user.inputs) if v is not None and i != index)
            if _link(user) is None or not all(v.is_const for v in others):
                break
            chain.append(user)
        seen.update(chain)
        yield chain


def _link(op: Op) -> tuple[Value, IndexMap] | None:
    """Return the one operand of ``op`` that it moves to its one result, and the index map; else None."""
    movement = movement_of(op)
    if movement is None or not len(movement.sources) == len(movement.maps) == 1:
        return None
    index_map = movement.maps[0]
    return None if index_map is None else (movement.sources[0], index_map)


def _replace(graph: Graph, chain: list[Op], rank: int, writer: MovementWriter) -> None:
    """Replace ``chain`` by a MovementOp if both its ends have ``rank`` and one index map describes it."""
    (source, whole), *steps = filter(None, map(_link, chain))
    result = chain[-1].output
    if source.rank != rank or result.rank != rank:
        return
    for _, step in steps:
        following = step.after(whole)
        if following is None:
            return
        whole = following
    versions = tuple((op, op.version) for op in chain)
    cost, runs = writer.cost(chain), writer.refusal((), chain) is None
    index = chain[0].inputs.index(source)
    chain[-1].take_result(0, Value.of_type(result))
    move = MovementOp(
        source, results=[result], map=whole, chain=versions, cost=cost, runs=runs, writer=writer
    )
    graph.insert_before(chain[0], move)
    chain[0].set_input(index, None)
    for op in chain:
        graph.unlink(op)


def expand(graph: Graph, ops: Collection[Op]) -> None:
    """Replace the MovementOps of ``graph`` by operators that can be written to a file.

    ``ops``: the operators whose layout has changed.  A MovementOp among them becomes new operators; any other
    MovementOp becomes the operators of its ``chain`` again.
    """
    for move in [op for op in graph.ops if isinstance(op, MovementOp)]:
        if move in ops:
            _write_new(graph, move)
        else:
            _restore(graph, move)


def _restore(graph: Graph, move: MovementOp) -> None:
    """Replace ``move`` by the operators of its chain, with the versions that the file states."""
    first, last = move.chain[0][0], move.chain[-1][0]
    first.set_input(first.inputs.index(None), move.input)
    for op, _ in move.chain:
        graph.insert_before(move, op)
    last.take_result(0, move.output)
    for op, version in move.chain:
        op.version = version
    graph.remove(move)


def _write_new(graph: Graph, move: MovementOp) -> None:
    """Replace ``move`` by the cheapest operators for its map."""
    source, result = move.input, move.output
    found = move.best_plan(move.map, tuple(range(source.known_rank)))
    assert found is not None  # it was chosen by its cost
    plan = found[0]
    if not plan and not graph.can_stand_for(result, source):
        plan = (Reshaped(dims_of(result)),)
    for op, _ in move.chain:
        op.drop_inputs()
    ops = move.writer.built(plan, source, result) if move.writer is not None else []
    for op in ops:
        graph.insert_before(move, op)
    if ops:
        ops[-1].take_result(0, result)
    else:
        graph.replace(result, source)
    graph.remove(move)
