# SPDX-License-Identifier: Apache-2.0
"""Write data movement in the operators that cost least after legalization for the target."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from circlekit.index_maps.chains import present_cost
from circlekit.index_maps.index_map import IndexMap
from circlekit.index_maps.steps import MovementCost, Plan, Shape, built, cost_of, sum_of
from circlekit.index_maps.unknown_dim import is_unknown
from circlekit.index_maps.write_back import plans_for
from circlekit.ir.graph import Graph
from circlekit.ir.op import Op
from circlekit.ir.value import Value
from circlekit.passes.engine.written_form import rules_for
from circlekit.rewrite.base import Context

MORE_IS_WRITTEN = "the target lacks an operator of the cheaper form, and its replacement costs more"
"""The refusal of new operators that, after legalization, would cost more than the old ones."""


class MovementWriter:
    """Chooses and makes operators that move data in ``graph``.

    Legalization replaces an operator that the target lacks by others; the operator then costs what the others
    cost.  If legalization cannot replace it, the operator is refused.  If ``context`` has no target, the
    default target of the format is used, so that the file still runs where the original did.
    """

    def __init__(self, graph: Graph, context: Context) -> None:
        self.graph, self.rules = graph, rules_for(context)
        self._costs: dict[Op, MovementCost] = {}

    def cost(self, ops: Iterable[Op]) -> MovementCost:
        """Return the cost of ``ops`` after legalization."""
        return sum_of(map(self._cost, ops))

    def _cost(self, op: Op) -> MovementCost:
        if op not in self._costs:
            self._costs[op] = sum_of(map(present_cost, self.rules.written(op)))
        return self._costs[op]

    def refusal(self, old: Iterable[Op], new: Iterable[Op]) -> str | None:
        """Return why the target does not take the operators ``new``, which replace ``old``.

        Return None if the target takes ``new``, or if it did not take ``old`` either.
        """
        return self.rules.refusal(old, new)

    def cheapest(self, forms: Iterable[Sequence[Op]]) -> list[Op]:
        """Return the operators of the best of ``forms``, which all compute the same.

        Forms that the target runs come first, then forms with fewer operators after legalization; of equally
        good forms, the first is taken.  The operators of the other forms lose their operands, so that they
        do not count as users.
        ``forms``: at least one.  If a form is a single operator that the target runs, no further form is
        taken, so an iterator that makes the forms one by one saves work.
        """
        made: list[tuple[bool, int, list[Op]]] = []
        for form in forms:
            ops = list(form)
            made.append((self.refusal((), ops) is not None, self.cost(ops).ops, ops))
            if made[-1][:2] == (False, 1):  # not refused, and a single operator: none is better
                break
        best = min(made, key=lambda item: item[:2])
        for item in made:
            if item is not best:
                drop(item[2])
        return best[2]

    def _choose(self, ops: Iterable[Op]) -> Op:
        """Return the best of ``ops``, each of which computes the same."""
        return self.cheapest([op] for op in ops)[0]

    def built(self, plan: Plan, source: Value, result: Value) -> list[Op]:
        """Return new operators that apply the steps of ``plan`` to ``source``.

        The operators are in no graph yet.  ``result``: the value that the caller will replace; new values are
        named after it, and have its quantization.
        """
        return built(plan, source, result, self.graph, self._choose)

    def best_plan(
        self, index_map: IndexMap, source: Value, shapes: tuple[Shape, Shape], must_run: bool
    ) -> tuple[Plan, MovementCost] | None:
        """Return the cheapest plan for ``index_map`` and its cost after legalization; None if there is none.

        ``index_map``: for each element of the result, the source element that it copies.  A plan is a
        sequence of steps, each for one operator that moves data.
        ``source``: a value with the dtype and the quantization of the data.  ``shapes``: the shapes of the
        operand and the result.  ``must_run``: whether to consider only plans that the target runs.
        """
        bits = source.dtype.bits
        best: tuple[Plan, MovementCost] | None = None
        for plan in plans_for(index_map, *shapes, bits):
            if best is not None and best[1] <= cost_of(plan, bits):
                break  # the plans are sorted by this cost, and legalization never makes a plan cheaper
            dims = tuple(None if is_unknown(dim) else dim for dim in shapes[0])
            # ``data`` stands for the operand, and also for the result, which gives names and quantization
            data = Value(source.name, source.dtype, dims, None, source.quantization)
            ops = self.built(plan, data, data)
            if must_run and self.refusal((), ops) is not None:
                continue
            cost = self.cost(ops)
            if best is None or cost < best[1]:
                best = plan, cost
        return best


def drop(ops: Sequence[Op]) -> None:
    """Disconnect the new operators ``ops``, which are not needed, from their operands."""
    for op in reversed(ops):
        op.drop_inputs()
