# SPDX-License-Identifier: Apache-2.0
"""Find data movement that only moves channels, the indices of the last axis: joins, splits, shuffles."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate
from typing import NamedTuple

import numpy as np

from circlekit.index_maps.chains import Origin, origins
from circlekit.index_maps.index_map import IndexMap
from circlekit.index_maps.of_operators import movement_of
from circlekit.index_maps.unknown_dim import dims_of, has_known_channels, size_of
from circlekit.index_maps.write_back import by_axis
from circlekit.ir.graph import Graph
from circlekit.ir.op import Op
from circlekit.ir.value import Value
from circlekit.ops.dimensions import normalized_axis
from circlekit.ops.movement.join import Concatenation


class Channel(NamedTuple):
    """One channel of a value."""

    value: Value
    number: int


Channels = list[Channel]
"""For each channel of a value, the channel of another value that it copies."""


class ChannelMoves:
    """The operators of a graph that only move channels, and the channels that they copy.

    The graph must not change while this object is in use.

    ``movements``: for each operator whose data movement is known, the operands and elements that it copies.
    ``sources``: the values whose channels are copies of channels of other values, each with these channels.
    The channels are traced back to values that are not in ``sources`` themselves.
    ``movers``: the operators whose needed results (``is_needed``) are all in ``sources``.  An operator whose
    results nothing reads is not a mover, because ``movers_for`` would not find it.
    ``sinks``: the results of movers that are outputs of the graph or have a user that is not a mover.
    ``suppliers``: the values whose channels the sinks copy.
    ``position``: the index of each operator in the graph; empty if there are no sinks.
    """

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        found = ((op, movement_of(op)) for op in graph.ops if op.data_movement)
        self.movements = {op: movement for op, movement in found if movement is not None}
        self.sources: dict[Value, Channels] = {}
        self.movers: set[Op] = set()
        self.sinks: list[Value] = []
        self.suppliers: set[Value] = set()
        for op in self.movements:
            for result in op.results:
                channels = self.channels_of(result)
                if channels is not None:
                    self.sources[result] = channels
        # backwards: whether an operator is a mover depends on the operators after it
        for op in reversed(self.movements) if self.sources else ():
            needed = [value for value in op.results if self.is_needed(value)]
            is_read = any(value.use_count or graph.is_output(value) for value in op.results)
            if is_read and all(value in self.sources for value in needed):
                self.movers.add(op)
                self.sinks += reversed(needed)
                self.suppliers.update(channel.value for value in needed for channel in self.sources[value])
        self.sinks.reverse()
        self.position = {op: index for index, op in enumerate(graph.ops)} if self.sinks else {}

    def is_needed(self, value: Value) -> bool:
        """Return whether ``value`` is a supplier or a graph output, or is read by a non-mover."""
        if value in self.suppliers:
            return True
        return self.graph.is_output(value) or any(user not in self.movers for user in value.users)

    def channels_of(self, result: Value) -> Channels | None:
        """Return, for each channel of ``result``, the channel that it copies; None if no copies are known."""
        op = result.producer
        if not has_known_channels(result):
            return None
        found = self._joined(op) if isinstance(op, Concatenation) else None
        if found is None:
            for origin in origins(result, self.movements.get):  # the last one that fits is the farthest
                found = _channels(origin, dims_of(result)) or found
        if found is None:
            return None
        return [self.sources[value][k] if value in self.sources else Channel(value, k) for value, k in found]

    def movers_for(self, sinks: Sequence[Value]) -> list[Op]:
        """Return the movers that compute ``sinks`` from their suppliers."""
        suppliers = {channel.value for sink in sinks for channel in self.sources[sink]}
        ops: dict[Op, None] = {}
        for value in (queue := list(sinks)):
            op = value.producer
            if op is not None and op in self.movers and value not in suppliers and op not in ops:
                ops[op] = None
                queue += self.movements[op].sources
        return list(ops)

    def _joined(self, op: Concatenation) -> Channels | None:
        """Return the channels of a concatenation along the last axis, also of unequal parts."""
        sources, rank = self.movements[op].sources, op.output.known_rank
        if normalized_axis(op.axis, rank) != rank - 1 or not all(map(has_known_channels, sources)):
            return None
        return [Channel(value, k) for value in sources for k in range(dims_of(value)[-1])]


def _channels(origin: Origin, shape: Sequence[int]) -> Channels | None:
    """Return, for each channel of the result of ``origin``, the channel of a source that it copies.

    ``origin``: a way to compute a result by copying elements of sources.  Its index map gives the position
    that each element copies: an offset plus, for each factor (extent, stride), a digit times stride.  A digit
    is a number from 0 to extent - 1; the digit of the last factor varies fastest.
    ``shape``: the shape of the result.  Return None if ``origin`` moves more than channels.

    Example: a [4, 6] result has the channels 2 to 7 of x [4, 8].  The offset is 2, the factors are (4, 8),
    which runs over the rows, and (6, 1), which runs over the channels.  The channels are (x, 2) to (x, 7).
    """
    leading = tuple(shape[:-1])
    rows = math.prod(leading)
    if not all(map(has_known_channels, origin.sources)):
        return None
    first = dims_of(origin.sources[0])
    if any(dims_of(value)[:-1] != leading for value in origin.sources):
        return None
    axes = by_axis(origin.map.factors, (rows, shape[-1]))
    # the rows must stay in order: their factors must equal (rows, channels of the first source), which the
    # other sources also have, unless they are joined along the last axis; then there is only one row
    if axes is None or IndexMap.of(1, axes[0]) != IndexMap.of(1, [(rows, first[-1])]):
        return None
    # the places of the channels of the first row
    places = np.array([origin.map.offset], object)  # exact: an unknown dimension is a large number
    for extent, stride in axes[1]:
        places = (places[:, None] + np.arange(extent, dtype=object) * stride).reshape(-1)
    # a place counts the elements of all sources, one source after the other
    starts = list(accumulate(map(size_of, origin.sources), initial=0))
    widths = [dims_of(value)[-1] for value in origin.sources]
    channels = []
    for place in places.tolist():
        number = bisect_right(starts, place) - 1
        index = place - starts[number]
        if index >= widths[number]:
            return None  # the channel would come from another row
        channels.append(Channel(origin.sources[number], index))
    return channels
