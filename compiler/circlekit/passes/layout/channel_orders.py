# SPDX-License-Identifier: Apache-2.0
"""Choose the order of the channels of each group, so that channels with the same users are contiguous.

A channel is an index of the last axis.  A group is the values whose channels must have the same order.  A
sink is a value whose channels are copies of channels of other values, its suppliers.  The order of a group is
free if constants can be permuted to change it.

Example: the supplier x has 4 channels, the sink p copies the channels 0 and 2 of x, and the sink q copies 1
and 3.  In the order [0, 2, 1, 3] of x, both p and q are a single slice of x.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from circlekit.ir.op import Op
from circlekit.ir.value import Value
from circlekit.passes.layout.channel_groups import ChannelGroup
from circlekit.passes.layout.channel_moves import Channel, Channels


def orders_of(
    groups: Mapping[Value, ChannelGroup],
    sources: Mapping[Value, Channels],
    position: Mapping[Op, int],
) -> dict[ChannelGroup, list[int]]:
    """Return the order of the channels of each group: for each new channel, the old one.

    ``groups``: the group of each sink and supplier.  ``sources``: for each sink, the channels that it copies.
    ``position``: the index of each operator in the graph.

    The channels of a group are divided into classes.  Where the order is fixed, each channel is a class.
    Where it is free, two channels are in one class if they go to the same classes of the same sinks; so a
    free group without suppliers is one class.  The channels are ordered by class, so that a class is
    contiguous wherever it goes.  Within a class they are ordered by the channels that the first sink of the
    group copies: first by supplier, then by the new place in the supplier.  In a group without a sink, they
    keep their order.  The first sink and the order of the suppliers are those in ``groups``.
    """
    users: dict[Channel, list[tuple[Value, int]]] = {}  # by channel: its copies, as (sink, channel)
    for sink, channels in sources.items():
        for k, channel in enumerate(channels):
            users.setdefault(channel, []).append((sink, k))
    ranked = _suppliers_first(groups, sources, position)
    number = {value: k for k, value in enumerate(groups)}  # values as numbers, which can be sorted
    members: dict[ChannelGroup, list[Value]] = {}
    for value, group in groups.items():
        members.setdefault(group, []).append(value)
    classes = {group: list(range(group.channels)) for group in ranked}
    for group, is_free in reversed(ranked.items()):  # backwards: the classes of the sinks are known
        if is_free:
            suppliers = [value for value in members[group] if value not in sources]
            # for each channel c, the classes to which it goes
            keys = [
                tuple(
                    (number[sink], classes[groups[sink]][k])
                    for value in suppliers
                    for sink, k in users.get(Channel(value, c), [])
                )
                for c in range(group.channels)
            ]
            ranks = {key: rank for rank, key in enumerate(sorted({*keys}))}
            classes[group] = [ranks[key] for key in keys]
    orders: dict[ChannelGroup, list[int]] = {}
    places: dict[Channel, tuple[int, int]] = {}  # by channel: the number of its value, its new place there
    for group, is_free in ranked.items():
        sinks = [value for value in members[group] if value in sources]
        # for each channel, its place in a supplier of the first sink, which is ordered already
        arrival = (
            [places[channel] for channel in sources[sinks[0]]]
            if sinks and is_free
            else [(0, 0)] * group.channels
        )
        order = sorted(range(group.channels), key=lambda c: (classes[group][c], arrival[c], c))
        orders[group] = order
        for value in members[group]:
            places.update({Channel(value, c): (number[value], place) for place, c in enumerate(order)})
    return orders


def _suppliers_first(
    groups: Mapping[Value, ChannelGroup],
    sources: Mapping[Value, Channels],
    position: Mapping[Op, int],
) -> dict[ChannelGroup, bool]:
    """Return {group: whether its order is free}, where each group comes before the free groups that copy it.

    The order of a group counts as not free, too, if one of its sinks is computed after one of its suppliers.
    Such a sink might copy channels of the supplier, so that the order of the group would depend on itself.
    """
    last_sink: dict[ChannelGroup, float] = {}
    first_supplier: dict[ChannelGroup, float] = {}
    for value, group in groups.items():
        place = -1 if value.producer is None else position[value.producer]
        if value in sources:
            last_sink[group] = max(last_sink.get(group, -1), place)
        else:
            first_supplier[group] = min(first_supplier.get(group, math.inf), place)
    ranked = sorted(dict.fromkeys(groups.values()), key=lambda group: first_supplier.get(group, math.inf))
    return {
        group: group.is_free and last_sink.get(group, -1) <= first_supplier.get(group, math.inf)
        for group in ranked
    }
