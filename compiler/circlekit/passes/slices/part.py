# SPDX-License-Identifier: Apache-2.0
"""A part of a value that a slice can take."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from circlekit.index_maps.unknown_dim import dims_of
from circlekit.ir.graph import Graph
from circlekit.ir.value import Shape, Value
from circlekit.ops.dimensions import element_count
from circlekit.passes.support.axes import is_movable, taken


class Part(NamedTuple):
    """A part of a value: certain indices along some axes, and all indices along the other axes.

    ``ranges``: (axis, indices) for each axis of which only certain indices belong to the part.
    ``dropped``: axes of ``value`` that the part does not have, because only one index of them is taken.
    """

    value: Value
    ranges: tuple[tuple[int, range], ...]
    dropped: frozenset[int] = frozenset()

    @property
    def is_new(self) -> bool:
        """Whether the part differs from the whole value, so that a new value is needed for it."""
        return bool(self.ranges or self.dropped)

    @property
    def shape(self) -> Shape:
        """The shape of the part; None stands for an unknown dimension."""
        ranges, dims = dict(self.ranges), enumerate(self.value.shape or ())
        return tuple(len(ranges[a]) if a in ranges else dim for a, dim in dims if a not in self.dropped)

    @property
    def size(self) -> int:
        """The number of elements; an unknown dimension counts as 1."""
        return element_count(self.shape)

    @property
    def bytes(self) -> int:
        """The size of the part in bytes; an element without a fixed size (a string) counts as a byte."""
        return (self.size * (self.value.dtype.bits or 8) + 7) // 8

    @property
    def has_data(self) -> bool:
        """Whether ``constant`` can return this part: the value must be a plain constant with one use.

        The quantization must have no ``details``.  If the part drops axes, it must not be per channel either.
        """
        value = self.value
        loses_channels = value.quantization is not None and value.quantization.is_per_channel and self.dropped
        return value.is_plain and value.use_count == 1 and is_movable(value) and not loses_channels

    def constant(self, graph: Graph) -> Value:
        """Return a new constant with the data of the part; ``has_data`` and ``is_new`` must be true."""
        made = self.value
        for axis, indices in self.ranges:
            made = taken(graph, made, np.array(indices), axis)
        if not self.dropped:
            return made
        data = made.array().squeeze(tuple(self.dropped))
        return Value.constant(graph.unique_name(self.value.name), data, made.quantization)


def part_of(value: Value, ranges: Mapping[int, range], dropped: frozenset[int]) -> Part:
    """Return the part of ``value`` with the indices in ``ranges``, by axis, and all indices of other axes.

    An axis of which ``ranges`` has all indices is left out of ``Part.ranges``.
    """
    dims = dims_of(value)
    taken_axes = (axis for axis in sorted(ranges) if ranges[axis] != range(dims[axis]))
    return Part(value, tuple((axis, ranges[axis]) for axis in taken_axes), dropped)
