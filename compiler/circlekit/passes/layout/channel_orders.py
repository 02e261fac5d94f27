# SPDX-License-Identifier: Apache-2.0
"""The order of the channels of each group: such that channels with the same way are contiguous."""

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
    """Return the order of the channels of each group, the old channel for each new one.

    ``groups``: of all doors and exits.  ``sources``: of each door.  ``position``: of each operator in the
    graph.  Channels of a group are of one class if they go to the same classes of the same doors.  They are
    ordered by class, so that a class is contiguous wherever it goes, and within a class as they come.  The
    channels of a group without exits are one class if its order is free, else each is one.
    """
    users: dict[Channel, list[tuple[Value, int]]] = {}
    for door, channels in sources.items():
        for k, channel in enumerate(channels):
            users.setdefault(channel, []).append((door, k))
    ranked = _by_position(groups, sources, position)
    number = {value: k for k, value in enumerate(groups)}
    members: dict[ChannelGroup, list[Value]] = {}
    for value, group in groups.items():
        members.setdefault(group, []).append(value)
    classes = {group: list(range(group.channels)) for group in ranked}
    for group, is_free in reversed(ranked.items()):
        if is_free:
            exits = [value for value in members[group] if value not in sources]
            keys = [
                [(number[d], classes[groups[d]][k]) for e in exits for d, k in users.get(Channel(e, c), [])]
                for c in range(group.channels)
            ]
            ranks = {key: rank for rank, key in enumerate(sorted({*map(tuple, keys)}))}
            classes[group] = [ranks[tuple(key)] for key in keys]
    orders: dict[ChannelGroup, list[int]] = {}
    places: dict[Channel, tuple[int, int]] = {}
    for group, is_free in ranked.items():
        doors = [value for value in members[group] if value in sources]
        came = (
            [places[channel] for channel in sources[doors[0]]]
            if doors and is_free
            else [(0, 0)] * group.channels
        )
        order = sorted(range(group.channels), key=lambda c: (classes[group][c], came[c], c))
        orders[group] = order
        for value in members[group]:
            places.update({Channel(value, c): (number[value], place) for place, c in enumerate(order)})
    return orders


def _by_position(
    groups: Mapping[Value, ChannelGroup],
    sources: Mapping[Value, Channels],
    position: Mapping[Op, int],
) -> dict[ChannelGroup, bool]:
    """Return whether the order of each group is free; a group comes before those that get its channels.

    The order of a group that gets channels after the first that it gives is not free: they might be its own.
    """
    last_door: dict[ChannelGroup, float] = {}
    first_exit: dict[ChannelGroup, float] = {}
    for value, group in groups.items():
        place = -1 if value.producer is None else position[value.producer]
        if value in sources:
            last_door[group] = max(last_door.get(group, -1), place)
        else:
            first_exit[group] = min(first_exit.get(group, math.inf), place)
    ranked = sorted(dict.fromkeys(groups.values()), key=lambda group: first_exit.get(group, math.inf))
    return {
        group: group.is_free and last_door.get(group, -1) <= first_exit.get(group, math.inf)
        for group in ranked
    }
