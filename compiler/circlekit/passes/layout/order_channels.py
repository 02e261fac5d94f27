# SPDX-License-Identifier: Apache-2.0
"""Order the channels of layers so that only joins and splits of contiguous channels have to move them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, pairwise
from typing import NamedTuple

import numpy as np

from circlekit.index_maps.chains import present_cost
from circlekit.index_maps.steps import MovementCost, run_cost, sum_of
from circlekit.index_maps.unknown_dim import dims_of, known_count, written
from circlekit.ir.graph import Graph
from circlekit.ir.op import Op
from circlekit.ir.value import Value
from circlekit.ops.constant_operands import static_int_vector
from circlekit.ops.movement.gather import Gather
from circlekit.ops.movement.join import Concatenation, Split, SplitV, Unpack
from circlekit.ops.movement.slice import Slice, StridedSlice
from circlekit.passes.layout.channel_groups import ChannelGroup, GroupFinder, permute_group
from circlekit.passes.layout.channel_moves import Channel, ChannelMoves
from circlekit.passes.layout.channel_orders import orders_of
from circlekit.passes.layout.movement_writer import MORE_IS_WRITTEN, MovementWriter, drop
from circlekit.passes.support.conditions import remove_unused
from circlekit.rewrite.base import Context, GraphPass


class Part(NamedTuple):
    """The channels of ``value`` from ``start`` up to, but not including, ``stop``."""

    value: Value
    start: int
    stop: int

    @property
    def is_whole(self) -> bool:
        return self.stop - self.start == dims_of(self.value)[-1]


class OrderChannels(GraphPass):
    """Let layers compute and read channels in an order in which fewer bytes are moved between them.

    A shuffle, split or join of channels between layers only decides which layer reads which channels.  Each
    layer orders its channels by the layers that read them, so that each reading layer gets contiguous
    channels.  The orders go into the weights, and into the per-channel constants of operators in between.
    Of the number of operators and the cost of movement, one decreases and the other does not increase.  The
    cost is the moved bytes, plus a fixed number of bytes for each run of contiguous elements, because the
    start of a copy takes time.
    """

    name = "order_channels"
    obeys_target = True

    def run_graph(self, graph: Graph, context: Context) -> int:
        moves = ChannelMoves(graph)
        moved = {value for value in moves.sources if value.producer in moves.movers}
        finder = GroupFinder(graph, moved, moves.movers)
        regions = [_Region(graph, moves, finder, sinks) for sinks in _connected(moves, finder)]
        writer = MovementWriter(graph, context)
        return sum(region.rewrite(context, writer) for region in regions)


def _connected(moves: ChannelMoves, finder: GroupFinder) -> Iterator[list[Value]]:
    """Yield lists of connected sinks.

    A sink is a value whose channels are copies of channels of other values, its suppliers.  It must be an
    output of the graph, or be read by an operator that does more than move channels.  A group is the values
    whose channels must have the same order.  A sink connects its group with the groups of its suppliers.
    Sinks are connected if their groups are, directly or through other groups.
    """
    parent: dict[ChannelGroup, ChannelGroup] = {}  # a forest: the groups of a tree are connected

    def root(group: ChannelGroup) -> ChannelGroup:
        """Return the group that stands for all groups that are connected with ``group`` so far."""
        while (above := parent.setdefault(group, group)) is not group:
            parent[group] = parent[above]
            group = above
        return group

    for sink in moves.sinks:
        for value in {channel.value for channel in moves.sources[sink]}:
            parent[root(finder.group_of(value))] = root(finder.group_of(sink))
    regions: dict[ChannelGroup, list[Value]] = {}
    for sink in moves.sinks:
        regions.setdefault(root(finder.group_of(sink)), []).append(sink)
    yield from regions.values()


class _Plan(NamedTuple):
    """The orders of the channels, and the joins and cuts that then move them.

    ``orders``: for each group and each new channel, the old channel.  ``parts``: the parts that each sink is
    joined from.  ``cuts``: for each operator that cuts a value, the parts that it takes.
    """

    orders: Mapping[ChannelGroup, Sequence[int]]
    parts: Mapping[Value, list[Part]]
    cuts: Sequence[list[Part]]

    @property
    def cost(self) -> MovementCost:
        joins = (_cost_of_join(sink, parts) for sink, parts in self.parts.items() if len(parts) > 1)
        return sum_of([*map(_cost_of_cut, self.cuts), *joins])


class _Region:
    """Connected ``sinks``, and their ``suppliers``, the values whose channels they copy.

    ``sources``: for each sink, the channels that it copies.  ``old``: the operators that move these channels
    now.  ``groups``: the group of each sink and supplier.  ``position``: the index of each operator.
    """

    def __init__(self, graph: Graph, moves: ChannelMoves, finder: GroupFinder, sinks: list[Value]) -> None:
        self.graph, self.sinks = graph, sinks
        self.sources = {sink: moves.sources[sink] for sink in sinks}
        self.old = moves.movers_for(sinks)
        self.suppliers = list(dict.fromkeys(c.value for sink in sinks for c in moves.sources[sink]))
        self.groups = {value: finder.group_of(value) for value in (*self.suppliers, *sinks)}
        self.position = moves.position

    def rewrite(self, context: Context, writer: MovementWriter) -> bool:
        """Put the channels in a cheaper order if possible; return whether this was done."""
        first = self.sinks[0].producer
        assert first is not None  # a sink is computed from channels of other values
        if any(sink.producer is None or sink.producer.graph is not self.graph for sink in self.sinks):
            return False  # the rewrite of another region left a sink without users, so it was removed
        obstacles = [self.groups[value].obstacle for value in (*self.sinks, *self.suppliers)]
        plan = None if all(obstacles) else self.plan()  # all: no group is free to take another order
        if plan is None or not plan.cost.improves_on(sum_of(map(_cost_of_old, self.old))):
            why = next(filter(None, obstacles), f"%{first.output.name}: no order of channels is cheaper")
            context.refuse(OrderChannels.name, first, why)
            return False
        made = {part: value for cut in plan.cuts for part, value in self.cut(cut).items()}
        results = {sink: self.joined(sink, parts, made) for sink, parts in plan.parts.items()}
        values = (*made.values(), *(results[sink] for sink, parts in plan.parts.items() if len(parts) > 1))
        new = list(dict.fromkeys(value.producer for value in values if value.producer is not None))
        if not context.accepts(OrderChannels.name, first, self.refusal(writer, new, results), len(self.old)):
            drop(new)
            return False
        self.replace(made, results)
        for group, order in plan.orders.items():
            if list(order) != sorted(order):
                permute_group(self.graph, group, order)
        return True

    def plan(self) -> _Plan:
        """Return the best orders, and how the sinks are then computed."""
        orders = orders_of(self.groups, self.sources, self.position)
        # for each group and each old channel, the new channel
        places = {group: np.argsort(order).tolist() for group, order in orders.items()}
        parts = {}
        for sink, channels in self.sources.items():
            ordered = [channels[k] for k in orders[self.groups[sink]]]
            parts[sink] = _longest_parts(Channel(v, places[self.groups[v]][k]) for v, k in ordered)
        partial: dict[Value, set[Part]] = {}
        for part in chain(*parts.values()):
            if not part.is_whole:
                partial.setdefault(part.value, set()).add(part)
        cuts = [cut for value, some in partial.items() for cut in _cuts(value, sorted(some))]
        return _Plan(orders, parts, cuts)

    def refusal(
        self, writer: MovementWriter, new: Sequence[Op], results: Mapping[Value, Value]
    ) -> str | None:
        """Return why the operators ``new`` must not replace the old ones; None if they may.

        ``results``: for each sink, the value that takes its place.
        """
        taken = set[Value]()  # values that take the place of an output of the graph
        for sink, value in results.items():
            fits = value not in taken and (value.producer in new or self.graph.can_stand_for(sink, value))
            if self.graph.is_output(sink):
                if not fits:
                    is_taken = "takes the place of another output"
                    kind = is_taken if value in taken else "is an input, an output, a variable or a constant"
                    return f"%{sink.name}: is an output of the graph, and %{value.name} {kind}"
                taken.add(value)
        sentence = writer.refusal(self.old, new)
        if sentence is None and writer.cost(new).ops > writer.cost(self.old).ops:
            sentence = MORE_IS_WRITTEN
        return sentence

    def cut(self, parts: Sequence[Part]) -> dict[Part, Value]:
        """Return the results of a new operator that takes ``parts`` of one value."""
        source, sizes = parts[0].value, [part.stop - part.start for part in parts]
        axis = len(dims_of(source)) - 1

        def vector(name: str, numbers: int | Sequence[int]) -> Value:
            return Value.constant(
                self.graph.unique_name(f"{source.name}/{name}"), np.array(numbers, np.int32)
            )

        op: Op
        if len(parts) == 1:
            begin, size = [0] * axis + [parts[0].start], [*written(dims_of(source)[:-1]), *sizes]
            op = Slice(source, vector("begin", begin), vector("size", size))
        elif len({*sizes}) == 1:
            op = Split(vector("split_dim", axis), source, num_splits=len(parts))
        else:
            numbers = vector("size_splits", sizes), vector("split_dim", axis)
            op = SplitV(source, *numbers, num_splits=len(parts))
        for value in op.results:
            value.name = self.graph.unique_name(f"{source.name}/{type(op).__name__}")
            value.quantization = source.quantization
        return dict(zip(parts, op.results, strict=True))

    def joined(self, sink: Value, parts: Sequence[Part], made: Mapping[Part, Value]) -> Value:
        """Return a value with the channels of ``sink``: the only one of ``parts``, or a join of several.

        ``made``: the values of the parts that are cut out.  The operator of the join is in no graph yet.
        """
        values = [part.value if part.is_whole else made[part] for part in parts]
        if len(values) == 1:
            return values[0]
        op = Concatenation(*values, axis=len(dims_of(sink)) - 1)
        op.output.name = self.graph.unique_name(f"{sink.name}/{type(op).__name__}")
        op.output.quantization = sink.quantization
        return op.output

    def replace(self, made: Mapping[Part, Value], results: Mapping[Value, Value]) -> None:
        """Insert the operators that cut out the parts ``made``, and compute each sink as in ``results``."""
        for part, value in made.items():
            if value.producer is not None and value.producer.graph is None:
                self.graph.insert_after(part.value.producer, value.producer)
        outputs: dict[Value, Value] = {}  # for a value, the output of the graph that took its place
        for sink, result in results.items():
            value = outputs.get(result, result)
            op, old = value.producer, sink.producer
            if op is not None and old is not None and op.graph is None:
                self.graph.insert_before(old, op)
                op.take_result(0, sink)
            else:
                self.graph.replace(sink, value)
                if self.graph.is_output(sink):
                    outputs[result] = sink
        remove_unused(self.graph, *(value for op in self.old for value in op.results))


def _longest_parts(channels: Iterable[Channel]) -> list[Part]:
    """Return ``channels``, in their order, as the fewest parts of contiguous channels."""
    parts: list[Part] = []
    for value, number in channels:
        if parts and parts[-1].value is value and parts[-1].stop == number:
            parts[-1] = parts[-1]._replace(stop=number + 1)
        else:
            parts.append(Part(value, number, number + 1))
    return parts


def _cuts(value: Value, parts: list[Part]) -> list[list[Part]]:
    """Return the sorted ``parts`` of ``value`` as lists: one operator cuts out all parts of a list.

    If the parts are the whole value, each channel once, there is one list (a split).  Otherwise each part has
    a list of its own (a slice).
    """
    # (start, stop) of the parts, between an empty part at the start and an empty part at the end of the value
    bounds = [(0, 0), *(part[1:] for part in parts), (dims_of(value)[-1],) * 2]
    if all(before[1] == after[0] for before, after in pairwise(bounds)):
        return [parts]
    return [[part] for part in parts]


def _cost_of_old(op: Op) -> MovementCost:
    """Return the cost of an operator that moves channels now, with that of copying runs.

    For joins, ``present_cost`` includes the latter.
    """
    return present_cost(op).plus(MovementCost(_run_cost_of_cut(op), 0))


def _run_cost_of_cut(op: Op) -> int:
    """Return the cost of copying runs of an operator that takes parts of a value; 0 for any other operator.

    As measured with LiteRT, STRIDED_SLICE copies element by element, even if all strides are 1; GATHER and
    UNPACK along the last axis do so, too.  They are 6 to 30 times as slow as SPLIT and SLICE.
    """
    shapes = [dims_of(value) for value in op.results]
    match op:
        case Split() | SplitV():
            axes = static_int_vector(op.split_dim)
            return run_cost(shapes, axes[0] % len(shapes[0])) if axes else 0
        case Slice():
            pairs = enumerate(zip(dims_of(op.input), shapes[0], strict=True))
            return max(
                (run_cost(shapes, axis) for axis, (before, after) in pairs if before != after), default=0
            )
        case StridedSlice():
            return run_cost(shapes, len(shapes[0]))
        case Gather():
            rank = len(dims_of(op.params))
            inner = rank - 1 - op.axis % rank  # the number of axes behind the gathered one
            return run_cost(shapes, len(shapes[0]) - inner)
        case Unpack():
            return run_cost(shapes, op.axis % (len(shapes[0]) + 1))
    return 0


def _cost_of_cut(parts: Sequence[Part]) -> MovementCost:
    """Return the cost of the operator that takes ``parts`` of one value, with that of copying runs."""
    shape, bits = dims_of(parts[0].value), parts[0].value.dtype.bits
    moved = known_count(shape[:-1]) * sum(part.stop - part.start for part in parts)
    return MovementCost((moved * bits + 7) // 8 + run_cost([shape] * len(parts), len(shape) - 1), 1)


def _cost_of_join(sink: Value, parts: Sequence[Part]) -> MovementCost:
    """Return the cost of the operator that joins ``parts`` to ``sink``, with that of copying runs."""
    shape = dims_of(sink)
    bits = known_count(shape) * sink.dtype.bits
    return MovementCost((bits + 7) // 8 + run_cost([shape] * len(parts), len(shape) - 1), 1)
