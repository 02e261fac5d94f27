# SPDX-License-Identifier: Apache-2.0
"""Merge equal constants, and operators that compute the same value."""

from __future__ import annotations

from collections.abc import Hashable
from itertools import count

from circlekit.index_maps.of_operators import movement_of
from circlekit.ir.graph import Graph
from circlekit.ir.op import Op
from circlekit.ir.text.literal_printing import is_storage_key
from circlekit.ir.value import Value
from circlekit.ops.movement.shape import Reshape
from circlekit.passes.support.equality import (
    different_constants,
    different_operators,
    equal_constants,
    frozen,
    graph_constants,
)
from circlekit.passes.support.insertion import Inserter
from circlekit.rewrite.base import Context, GraphPass


class CommonSubexpressionElimination(GraphPass):
    """Keep the first of equal pure operators with equal operands, and replace the others by it.

    Operands are equal if they are the same value, equal constants, or results of equal operators; results
    must agree in dtype, shape and quantization.  Operators that move the same elements to the same places are
    equal, whatever they are called: a PACK of one operand and an EXPAND_DIMS, for example.  The operands of
    commutative operators may be exchanged; if an operand of MAXIMUM or MINIMUM is NaN, this may change the
    result.  Operators that read or write a variable stay.

    Two outputs of a graph never become one: the second becomes a copy of the first, by a Reshape to the same
    shape.  But both operators stay in these cases:

    - A dimension is unknown.
    - The operators have several results.
    - The second operator is a Reshape already, so a copy would not be cheaper.
    """

    name = "common_subexpression_elimination"

    def run_graph(self, graph: Graph, context: Context) -> int:
        numbers = ValueNumbers(graph)
        firsts: dict[Hashable, Op] = {}
        merged = 0
        if context.partial_matches:  # a user asks for near misses
            for op, refusal, progress in different_operators(graph):
                context.refuse(self.name, op, refusal, progress)
        for op in graph.ops:
            key = numbers.key(op)
            if key is None:
                continue
            first = firsts.setdefault(key, op)
            if first is op:
                continue
            # equal results get equal numbers, so that operators that read them may be equal, too
            for value, same in zip(op.results, first.results, strict=True):
                numbers.known[value] = numbers.of(same)
            if not context.may_rewrite:
                break
            if all(graph.can_stand_for(old, new) for old, new in zip(op.results, first.results, strict=True)):
                context.count_rewrite(op)
                for old, new in zip(tuple(op.results), tuple(first.results), strict=True):
                    graph.replace(old, new)
                graph.remove(op)
                merged += 1
            elif len(op.results) == 1 and op.output.is_static and not isinstance(op, Reshape):
                context.count_rewrite(op)
                inserter = Inserter(graph, op)
                inserter.finish(inserter.reshaped(first.output, op.output.static_shape))
                merged += 1
            else:
                pairs = zip(op.results, first.results, strict=True)
                old, new = next((old, new) for old, new in pairs if not graph.can_stand_for(old, new))
                names = f"%{old.name} and %{new.name}"
                reason = "both are outputs of the graph, and a copy is not possible or not cheaper"
                context.refuse(self.name, op, f"{names} are equal, but {reason}")
        return merged


class ValueNumbers:
    """Numbers for the values of a graph; values that are known to be equal have the same number."""

    def __init__(self, graph: Graph) -> None:
        self.known: dict[Value, int] = {}
        groups = equal_constants(graph_constants(graph))  # lists of equal constants
        for number, group in enumerate(groups):
            self.known.update(dict.fromkeys(group, number))
        self._numbers = count(len(groups))

    def of(self, value: Value | None) -> int:
        """Return the number of ``value``, a new number if it has none; -1 for an absent operand."""
        if value is None:
            return -1
        number = self.known.get(value)
        if number is None:
            number = self.known[value] = next(self._numbers)
        return number

    def key(self, op: Op) -> Hashable | None:
        """Return a key that is equal for equal operators; None for an operator that must not be merged."""
        if not op.pure:
            return None
        if any(v is not None and v.is_variable for v in (*op.inputs, *op.results)):
            return None
        types = tuple((v.dtype, v.shape, v.quantization) for v in op.results)
        extra = frozen({key: item for key, item in op.extra.items() if not is_storage_key(key)})
        movement = movement_of(op)  # ``maps``: for each result its index map into ``sources``, or None
        if movement is not None and None not in movement.maps:
            return "moved", tuple(map(self.of, movement.sources)), movement.maps, types, extra
        operands = [self.of(v) for v in op.inputs]
        while operands and operands[-1] == -1:
            operands.pop()  # trailing absent operands may be omitted
        if op.commutative:
            operands.sort()
        return op.code, tuple(operands), frozen(op.attribute_items()), types, extra


class RemoveDuplicateConst(GraphPass):
    """Merge constants of equal dtype, shape, quantization and bit pattern; outputs of the graph stay.

    The users of such an output read the first of the equal constants.  The pass does not ask ``may_rewrite``:
    a merge changes no number, so a bisection need not find it.
    """

    name = "remove_duplicate_const"
    has_conditions = False

    def run_graph(self, graph: Graph, context: Context) -> int:
        if context.partial_matches:
            for value, refusal, progress in different_constants(graph):
                context.refuse(self.name, value.users[0], refusal, progress)
        merged, removed = 0, set[int]()
        for first, *others in equal_constants(graph_constants(graph)):
            for other in others:
                graph.replace_uses(other, first)
                merged += 1
                if not graph.is_output(other):
                    removed.add(id(other))
        if removed:  # the file no longer lists these constants
            graph.table = [value for value in graph.table if id(value) not in removed]
        return merged
