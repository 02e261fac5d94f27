# SPDX-License-Identifier: Apache-2.0
"""Find groups of values whose channels, the indices of the last axis, must have the same order.

To change the order of a group, three kinds of constants are permuted in the same way: the weights of the
layers that compute its values, those of the layers that read its values, and the constants of all operators
between these layers.  The order is free if this is possible.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from functools import singledispatch
from typing import NamedTuple

import numpy as np

from circlekit.index_maps.of_operators import movement_of
from circlekit.index_maps.unknown_dim import dims_of, has_known_channels
from circlekit.index_maps.write_back import by_axis
from circlekit.ir.graph import Graph
from circlekit.ir.op import Op
from circlekit.ir.shape_inference import fits
from circlekit.ir.value import Array, Value
from circlekit.ops.arithmetic.activation import PRelu
from circlekit.ops.constant_operands import static_int_vector
from circlekit.ops.convolution.conv import DepthwiseConv2D
from circlekit.ops.convolution.pool import AveragePool2D, L2Pool2D, MaxPool2D
from circlekit.ops.elementwise import Elementwise
from circlekit.ops.movement.pad import Padded
from circlekit.ops.movement.resize_images import Resize
from circlekit.ops.reduction.reduce import Reduction
from circlekit.passes.layout.permute_channels import (
    has_weights_alone,
    permute_inputs,
    permute_outputs,
    rounds_channels_alike,
    weights_of,
)
from circlekit.passes.support.axes import is_movable, taken


class Channelwise(NamedTuple):
    """The operands of an operator that computes each channel of its result from the same channel of its data.

    ``data``: the operands that have the channels of the result.  ``constants``: for each constant that has an
    axis of channels, the index of the operand and this axis.
    """

    data: tuple[Value, ...]
    constants: tuple[tuple[int, int], ...] = ()


def channelwise(op: Op) -> Channelwise | None:
    """Return the operands of ``op`` if it computes each channel of its result separately; else None.

    Return None also if ``op`` is not pure, has several results or breaks its shape rule, if the number of
    channels is 1, unknown or above MAX_CHANNELS (unknown_dim.py), or unless ``rounds_channels_alike``.
    """
    if not op.pure or len(op.results) != 1 or not has_known_channels(op.output) or not fits(op):
        return None
    channels = dims_of(op.output)[-1]
    return _channelwise(op) if channels > 1 and rounds_channels_alike(op, channels) else None


@singledispatch
def _channelwise(op: Op) -> Channelwise | None:
    """Return the operands that ``channelwise`` returns, for an ``op`` that moves data.

    The index map of ``op`` gives the source position of each result element: ``offset`` plus the sum of digit
    * stride over the factors (extent, stride), where each digit is from 0 to extent - 1.  For example, the
    transpose of [2, 3, C] to [3, 2, C] has the factors (3, C), (2, 3 * C), (C, 1).
    For the classes of operators that are registered below, other functions replace this one.
    """
    movement = movement_of(op)
    if movement is None or len(movement.sources) != 1 or movement.maps[0] is None:
        return None
    source, found = movement.sources[0], movement.maps[0]
    channels = dims_of(op.output)[-1]
    if not has_known_channels(source) or dims_of(source)[-1] != channels:
        return None
    # The innermost factor must copy the channels in order, that is with extent ``channels`` and stride 1.
    # The offset and the other strides must be whole rows of channels.
    rows, row = by_axis(found.factors, (found.size // channels, channels)) or ([], [])
    if row != [(channels, 1)] or any(n % channels for n in (found.offset, *(stride for _, stride in rows))):
        return None
    return Channelwise((source,))


@_channelwise.register(Elementwise)
@_channelwise.register(PRelu)
def _elementwise(op: Op) -> Channelwise | None:
    channels = dims_of(op.output)[-1]
    data, constants = [], []
    for index, value in enumerate(op.inputs):
        if value is None or value.shape is None:
            return None
        last = value.shape[-1] if value.shape else 1
        if last == channels and value.is_const:
            constants.append((index, len(value.shape) - 1))
        elif last == channels:
            data.append(value)
        elif last != 1:  # with 1, it is the same for all channels
            return None
    return Channelwise(tuple(data), tuple(constants))


@_channelwise.register(AveragePool2D)
@_channelwise.register(L2Pool2D)
@_channelwise.register(MaxPool2D)
@_channelwise.register(Resize)
def _image(op: AveragePool2D | L2Pool2D | MaxPool2D | Resize) -> Channelwise | None:
    return Channelwise((op.input,))


@_channelwise.register
def _padded(op: Padded) -> Channelwise | None:
    paddings = static_int_vector(op.paddings)  # the last two numbers pad the channels
    return None if paddings is None or paddings[-2:] != [0, 0] else Channelwise((op.input,))


@_channelwise.register
def _reduction(op: Reduction) -> Channelwise | None:
    axes, rank = static_int_vector(op.axis), op.input.rank or 0
    return None if axes is None or {-1, rank - 1} & {*axes} else Channelwise((op.input,))


@_channelwise.register
def _depthwise(op: DepthwiseConv2D) -> Channelwise | None:
    channels = dims_of(op.output)[-1]
    if op.input.shape is None or op.input.shape[-1] != channels or not op.filter.is_const:
        return None
    constants = [(index, (value.rank or 0) - 1) for index, value in enumerate(op.inputs) if index and value]
    return Channelwise((op.input,), tuple(constants))


@dataclass(eq=False, repr=False)
class ChannelGroup:
    """``values`` whose channels have the same order.  ``obstacle``: why this order is fixed, or None.

    ``producers``, ``users``: the layers that compute or read the values; their weights change with the order.
    ``constants``: the constants of operators within the group that have an axis of channels, as (operator,
    index of the operand, this axis).
    """

    values: list[Value]
    obstacle: str | None = None
    producers: list[Op] = field(default_factory=list)
    users: list[Op] = field(default_factory=list)
    constants: list[tuple[Op, int, int]] = field(default_factory=list)

    @property
    def is_free(self) -> bool:
        return self.obstacle is None

    @property
    def channels(self) -> int:
        return dims_of(self.values[0])[-1]


class GroupFinder:
    """Finds the group of a value.

    ``movers``: operators that only move data, and will disappear.  ``moved``: their results, which consist of
    channels of other values, and will be computed in another way.
    ``groups``: the group of each value found so far.  ``added``: the group of each operator within a group.
    """

    def __init__(self, graph: Graph, moved: Collection[Value], movers: Collection[Op]) -> None:
        self.graph, self.moved, self.movers = graph, moved, movers
        self.groups: dict[Value, ChannelGroup] = {}
        self.added: dict[Op, ChannelGroup] = {}

    def group_of(self, value: Value) -> ChannelGroup:
        """Return the group of ``value``; the first call finds the group."""
        if value not in self.groups:
            group = self.groups[value] = ChannelGroup([value])
            for member in group.values:  # the list grows in the loop
                group.obstacle = self.visit(group, member)
                if group.obstacle is not None:
                    break
        return self.groups[value]

    def visit(self, group: ChannelGroup, value: Value) -> str | None:
        """Add the operators around ``value``, and the values that must have the same order, to ``group``.

        Return why the order is fixed; None if it is not.
        """
        quantization, producer = value.quantization, value.producer
        if self.graph.is_output(value):
            return f"%{value.name}: is an output of the graph"
        if producer is None:
            return f"%{value.name}: is an input of the graph or a constant"
        is_per_channel = quantization is not None and quantization.is_per_channel
        if is_per_channel or not is_movable(value) or not has_known_channels(value):
            cause = "it is a variable, or because of its shape or its quantization"
            return f"%{value.name}: its channels cannot change places, because {cause}"
        if value not in self.moved and not self.add_producer(group, producer):
            return _in_its_own_order(producer)
        for op in dict.fromkeys(value.users):
            if op not in self.movers and not self.add_user(group, value, op):
                return _in_its_own_order(op)
        return None

    def add_producer(self, group: ChannelGroup, op: Op) -> bool:
        """Add ``op`` to ``group``; return whether ``op`` can compute its result in any order."""
        weights = weights_of(op)
        if weights is None:
            return self.add(group, op)
        group.producers.append(op)
        is_alone = has_weights_alone(op) and weights.static_shape[0] == group.channels
        return is_alone and rounds_channels_alike(op, group.channels)

    def add_user(self, group: ChannelGroup, value: Value, op: Op) -> bool:
        """Add ``op`` to ``group``; return whether ``op`` can read ``value`` in any order."""
        weights = weights_of(op)
        if weights is None:
            return self.add(group, op)
        group.users.append(op)
        is_data = getattr(op, "input", None) is value and op.inputs.count(value) == 1
        return is_data and weights.static_shape[-1] == group.channels

    def add(self, group: ChannelGroup, op: Op) -> bool:
        """Add the operands and the result of ``op`` to ``group``; return whether the order stays free.

        Three conditions must hold: ``op`` computes each channel separately, its constants can be permuted
        along the axis of channels, and its operands and its result are in no other group.
        """
        if op in self.added:
            return self.added[op] is group
        found = channelwise(op)
        if found is None or dims_of(op.output)[-1] != group.channels:
            return False
        for index, axis in found.constants:
            value = op.inputs[index]
            if value is None or not value.is_plain or value.static_shape[axis] != group.channels:
                return False
            if not is_movable(value):
                return False
        for value in (*found.data, op.output):
            if value not in self.groups:
                self.groups[value] = group
                group.values.append(value)
            if self.groups[value] is not group:
                return False
        group.constants += ((op, *constant) for constant in found.constants)
        self.added[op] = group
        return True


def _in_its_own_order(op: Op) -> str:
    """Return a sentence that says that ``op`` fixes the order of its channels."""
    name = "".join(f"%{value.name}: " for value in op.results[:1]) + type(op).__name__
    has_weights = hasattr(op, "weights") or hasattr(op, "filter")
    also = ", or shares its weights with another operator" if has_weights else ""
    return f"{name} needs its channels in one order{also}"


def permute_group(graph: Graph, group: ChannelGroup, order: Sequence[int]) -> None:
    """Change the order of the channels of ``group``, by permuting weights and other constants.

    ``order[new]``: the old index of the channel that gets the index ``new``.  The values get new names,
    because they hold other data.  Operators that have been removed from ``graph`` are ignored.
    """
    permutation: Array = np.array(order)
    for layer in (op for op in group.producers if op.graph is graph):
        permute_outputs(graph, layer, permutation)
    for layer in (op for op in group.users if op.graph is graph):
        permute_inputs(graph, layer, permutation)
    for op, index, axis in (constant for constant in group.constants if constant[0].graph is graph):
        value = op.inputs[index]
        assert value is not None  # as when the group was found
        op.set_input(index, taken(graph, value, permutation, axis))
    for value in group.values:
        value.name = graph.unique_name(f"{value.name}/channels")
