# SPDX-License-Identifier: Apache-2.0
"""Replace chains of operators that only move data by the cheapest operators with the same effect."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain
from typing import NamedTuple

from circlekit.index_maps.chains import Origin, origins, present_cost, removable
from circlekit.index_maps.joins import Join, joins_for
from circlekit.index_maps.of_operators import movement_of
from circlekit.index_maps.steps import MovementCost, Plan, Reshaped, cost_of, sum_of
from circlekit.index_maps.unknown_dim import dims_of
from circlekit.index_maps.write_back import plans_for
from circlekit.ir.graph import Graph
from circlekit.ir.op import Op
from circlekit.ir.text.lines import short_op
from circlekit.ir.value import Array, Value
from circlekit.passes.layout.held_in_place import route_of, why_no_map
from circlekit.passes.layout.movement_writer import MORE_IS_WRITTEN, MovementWriter, drop
from circlekit.passes.layout.permute_channels import (
    orders_of_producer,
    orders_of_user,
    permute_inputs,
    permute_outputs,
)
from circlekit.passes.support.conditions import remove_unused
from circlekit.rewrite.base import Context, GraphPass


class MergeDataMovement(GraphPass):
    """Replace reshapes, transposes, slices, joins and others by operators that are fewer or move fewer bytes.

    A chain of such operators is one index map.  The pass writes this map as the cheapest operators that the
    target runs.  The number of operators and the bytes that they move do not increase.  A fixed cost of each
    run of contiguous elements that a join copies counts as bytes.
    """

    name = "merge_data_movement"
    obeys_target = True

    def run_graph(self, graph: Graph, context: Context) -> int:
        # A chain may pass through a Split.  A chain that ends after the Split is longer than one that ends
        # at the Split, so operators with several results come last.
        ops = sorted((op for op in graph.ops if op.data_movement), key=lambda op: len(op.results) > 1)
        ends = [result for op in ops for result in _only_result(graph, op)]
        writer = MovementWriter(graph, context)
        count = 0
        for result in ends:
            op = result.producer
            count += op is not None and op.graph is graph and _Chain(writer, op, result, context).shorten()
        if context.refusals is not None:
            self._explain_parts(graph, context)
        return count

    def _explain_parts(self, graph: Graph, context: Context) -> None:
        """Record a refusal for each operator at which no chain ends.

        Such an operator has several results, of which several or none are used.
        """
        for op in graph.ops:
            if op.data_movement and not _only_result(graph, op):
                sentence = why_no_map(op) if movement_of(op) is None else route_of(graph, op)
                context.refuse(self.name, op, f"%{op.results[0].name}: {sentence}", EXPLAINED_PROGRESS)


EXPLAINED_PROGRESS = 12
"""The progress of a refusal that says why data movement stays; it is high, so the refusal is listed early."""


class Order(NamedTuple):
    """A new order of the channels between a layer and the chain; the weights of the layer absorb it.

    ``channels``: the old index of each new channel.  ``of_producer``: whether the layer produces the source
    of the chain; otherwise it uses the result.
    """

    of_producer: bool
    channels: Array


_Form = tuple[Join | None, Plan, Order | None]
"""A way to write a map: the fields ``join``, ``steps`` and ``order`` of ``_Way``."""


class _Way(NamedTuple):
    """A cheaper way to compute the result of a chain.

    ``new``: the cost of the way.  ``_Chain.ways`` ignores legalization (the replacement of operators that the
    target lacks); ``cheapest`` then sets the cost after legalization.
    ``old``: the cost, after legalization, of the operators that the way replaces.
    ``is_simpler``: whether the way costs less if legalization is ignored for the new and the old operators.
    Where ``new`` equals ``old``, this decides whether the way pays.
    ``origin``: the sources of the chain, its index map and its operators.
    ``join``: the operator that joins the sources; None if there is only one.
    ``steps``: the operators after the join.
    ``order``: the new order of the channels of a layer at one end; None for the old order.
    """

    new: MovementCost
    old: MovementCost
    is_simpler: bool
    origin: Origin
    join: Join | None
    steps: Plan
    order: Order | None = None

    @property
    def change(self) -> MovementCost:
        """New cost minus old cost, in bytes and in operators; neither is above 0 if the way pays."""
        return MovementCost(self.new.bytes - self.old.bytes, self.new.ops - self.old.ops)

    @property
    def pays(self) -> bool:
        """Whether the way costs less, or costs as much and ``is_simpler``."""
        return self.new.improves_on(self.old) or (self.new == self.old and self.is_simpler)

    @property
    def is_alias(self) -> bool:
        """Whether the source itself takes the place of the result, without an operator."""
        return self.join is None and not self.steps


class _Chain:
    """A chain of operators that move data, up to ``last``; ``result`` is the result that it computes."""

    def __init__(self, writer: MovementWriter, last: Op, result: Value, context: Context) -> None:
        self.graph, self.writer, self.last, self.context = writer.graph, writer, last, context
        self.result = result

    def shorten(self) -> bool:
        """Replace the chain by the cheapest operators that the target runs; return whether it changed."""
        if movement_of(self.last) is None:
            if self.context.refusals is not None:
                self.refuse(why_no_map(self.last))
            return False
        ways = sorted(self.ways(), key=lambda way: way.change)
        best = self.cheapest(ways)
        if best is not None and self.context.accepts(MergeDataMovement.name, self.last, None):
            self.replace(*best)
            return True
        if best is not None:
            drop(best[1])
        elif not ways and self.context.refusals is not None:
            self.refuse(self.obstacle())
        return False

    def cheapest(self, ways: Sequence[_Way]) -> tuple[_Way, list[Op]] | None:
        """Return the way that is cheapest after legalization, and its operators.

        Only ways that the target can run and that still pay are considered; return None if there are none.
        ``ways``: sorted by their ``change`` before legalization.  The operators made for other ways are
        dropped.
        """
        best: tuple[_Way, list[Op]] | None = None
        for way in ways:
            if best is not None and best[0].change <= way.change:
                break  # legalization makes no way cheaper
            ops = [] if way.is_alias else self.built(way)
            unused = ops  # dropped below: these operators, or those of the old best way if this one is better
            written = way._replace(new=self.writer.cost(ops))
            sentence = self.writer.refusal(way.origin.ops, ops)
            if sentence is None and not written.pays:
                sentence = MORE_IS_WRITTEN
            if sentence is not None:
                self.refuse(sentence, len(way.origin.ops) + 2)  # a longer chain is a nearer miss
            elif best is None or written.change < best[0].change:
                unused = [] if best is None else best[1]
                best = written, ops
            drop(unused)
        return best

    def refuse(self, sentence: str, progress: int = EXPLAINED_PROGRESS) -> None:
        """Record why the chain stays."""
        self.context.refuse(MergeDataMovement.name, self.last, sentence, progress)

    def ways(self, keep_used: bool = True) -> Iterator[_Way]:
        """Yield all cheaper ways; the chain may begin at any of its values.

        If the result is an output of the graph and equals a source that cannot take its place, a Reshape
        copies the source.
        ``keep_used``: True: an operator counts as replaced only if nothing else needs its results.  False:
        all operators of the chain count as replaced, as if no others read their results.
        """
        for origin in origins(self.result):
            is_copied = not self.graph.can_stand_for(self.result, origin.sources[0])
            ops = removable(self.graph, self.result, origin.ops) if keep_used else origin.ops
            old, plain = self.writer.cost(ops), sum_of(map(present_cost, ops))
            forms = _forms(origin, self.result)
            if len(ops) == len(origin.ops) and len(origin.sources) == 1:
                forms = chain(forms, self.forms_with_other_channels(origin))
            for join, steps, order in forms:
                if join is None and not steps and is_copied:
                    steps = (Reshaped(dims_of(self.result)),)
                new = cost_of(steps, self.result.dtype.bits)
                if join is not None:
                    new = join.cost(origin.sources)
                way = _Way(new, old, new.improves_on(plain), origin, join, steps, order)
                if way.pays:
                    yield way

    def forms_with_other_channels(self, origin: Origin) -> Iterator[_Form]:
        """Yield ways in which the weights of a layer absorb a part of the map, as a new order of channels.

        The layer produces the source or uses the result; the steps compute the rest of the map.
        """
        source, result = origin.sources[0], self.result
        if source.producer in origin.ops:
            return
        shape, bits = dims_of(result), result.dtype.bits
        for is_producer in (True, False):
            value, orders = (source, orders_of_producer) if is_producer else (result, orders_of_user)
            for rest, order in orders(origin.map, value, self.graph):
                for plan in plans_for(rest, dims_of(source), shape, bits):
                    yield None, plan, Order(is_producer, order)

    def obstacle(self) -> str:
        """Return why no other operators are cheaper.

        The reason may be that operators outside the chain use a value inside it; then name one of them.
        """
        blocked = next(self.ways(keep_used=False), None)
        if blocked is None:
            route = route_of(self.graph, self.last)
            return f"%{self.result.name}: {route}; no operators that do so are cheaper"
        dead = removable(self.graph, self.result, blocked.origin.ops)
        held = next(op for op in blocked.origin.ops if op not in dead)
        value = next(v for v in held.results if v.use_count or self.graph.is_output(v))
        if self.graph.is_output(value):
            return f"%{value.name}: is an output of the graph"
        user = next((user for user in value.users if user not in blocked.origin.ops), value.users[0])
        return f"%{value.name}: is also read by {short_op(user)}"

    def replace(self, way: _Way, ops: Sequence[Op]) -> None:
        """Let ``ops`` compute the result; if there are none, the source takes the place of the result.

        If the way has an ``order``, also permute the weights of the layer.
        """
        graph, result, source = self.graph, self.result, way.origin.sources[0]
        if way.order is not None and not way.order.of_producer:
            permute_inputs(graph, result.users[0], way.order.channels)
        elif way.order is not None and source.producer is not None:
            permute_outputs(graph, source.producer, way.order.channels)
            renamed = Value.of_type(source, graph.unique_name(source.name))
            source.producer.take_result(0, renamed)
            graph.replace_uses(source, renamed)
            source = renamed
        if way.is_alias:
            graph.replace(result, source)
        for op in ops:
            graph.insert_before(self.last, op)
        if ops:
            ops[-1].take_result(0, result)
        remove_unused(graph, *(value for op in way.origin.ops for value in op.results))

    def built(self, way: _Way) -> list[Op]:
        """Return new operators for ``way``, which are not in the graph yet."""
        ops: list[Op] = []
        if way.join is not None:
            ops.append(way.join.op(way.origin.sources))
            ops[0].output.name = self.graph.unique_name(f"{self.result.name}/{type(ops[0]).__name__}")
            ops[0].output.quantization = self.result.quantization
        source = ops[0].output if ops else way.origin.sources[0]
        return ops + self.writer.built(way.steps, source, self.result)


def _only_result(graph: Graph, op: Op) -> list[Value]:
    """Return a list with the only result of ``op``, or the only used one of several results; else []."""
    used = [value for value in op.results if value.use_count or graph.is_output(value)]
    return list(op.results) if len(op.results) == 1 else used if len(used) == 1 else []


def _forms(origin: Origin, result: Value) -> Iterator[_Form]:
    """Yield all ways to write the map of ``origin``."""
    shape = dims_of(result)
    if len(origin.sources) > 1:
        yield from ((join, join.rest, None) for join in joins_for(origin.map, origin.sources, shape))
    else:
        source = origin.sources[0]
        plans = plans_for(origin.map, dims_of(source), shape, result.dtype.bits)
        yield from ((None, plan, None) for plan in plans)
