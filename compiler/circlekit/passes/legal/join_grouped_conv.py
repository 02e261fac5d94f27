# SPDX-License-Identifier: Apache-2.0
"""Write the convolutions of a grouped convolution, which exporters split, as one operator for XNNPACK."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from circlekit.ir.dtypes import f32
from circlekit.ir.enums import Activation
from circlekit.ir.graph import Graph
from circlekit.ir.op import Op
from circlekit.ir.value import Array, Value
from circlekit.ops.convolution.conv import Conv2D
from circlekit.ops.movement.join import Concatenation
from circlekit.ops.movement.shape import Transpose
from circlekit.passes.engine.legalize import Replacement
from circlekit.passes.support.axes import Perm, constant_perm
from circlekit.passes.support.axis_indices import axis_indices, moved_operand
from circlekit.passes.support.conditions import remove_unused
from circlekit.passes.support.insertion import Inserter

CHANNELS = 3
"""The axis of channels in NHWC data."""


class JoinGroupedConv(Replacement):
    """concatenation(conv(slice 1 of x), ..., conv(slice G of x))  ==  conv(x) of G groups.

    Transposes may stand between the slices and the convolutions, and behind these.
    """

    targets = frozenset({"litert-xnnpack"})  # takes both forms; the single operator is faster
    kinds = (Concatenation,)

    def wants(self, op: Op) -> bool:
        return self.is_forced and {target.name for target in self.runtimes} <= self.targets

    def results(self, op: Op, insert: Inserter) -> list[Value] | None:
        assert isinstance(op, Concatenation)  # by kinds
        groups = [_group(insert.graph, value) for value in op.values]
        first = groups[0]
        if first is None or len(groups) < 2 or op.act is not Activation.NONE:
            return None
        before, after = first.before or (0, 1, 2, CHANNELS), first.after or (0, 1, 2, CHANNELS)
        depth = first.conv.filter.static_shape[CHANNELS]
        for index, group in enumerate(groups):
            if group is None or group.kind != first.kind:
                return None
            if not group.takes(before[CHANNELS], range(index * depth, (index + 1) * depth)):
                return None
        if depth * len(groups) != first.data.static_shape[before[CHANNELS]] or op.axis % 4 != after.index(
            CHANNELS
        ):
            return None
        convs = [group.conv for group in groups if group is not None]
        data = insert.transposed(first.data, first.before) if first.before else first.data
        filter = insert.constant("filter", np.concatenate([conv.filter.array() for conv in convs]))
        bias = insert.constant("bias", np.concatenate([_bias(conv) for conv in convs]))
        value = insert.make(Conv2D(data, filter, bias, **first.conv.attribute_items()))
        return [insert.transposed(value, first.after) if first.after else value]

    def _replace(self, graph: Graph, op: Op) -> bool:
        parts = [value for value in op.inputs if value is not None]
        is_replaced = super()._replace(graph, op)
        for value in parts if is_replaced else ():
            remove_unused(graph, value)
        return is_replaced


class _Group(NamedTuple):
    """The convolution of one group.

    ``before``, ``after``: the transposes around it, None for none.  ``indices``: for each axis of ``data``,
    the indices that it reads.
    """

    conv: Conv2D
    before: Perm | None
    after: Perm | None
    data: Value
    indices: list[Array]

    @property
    def kind(self) -> tuple[Any, ...]:
        """What is the same for all groups of a convolution."""
        items = tuple(sorted(self.conv.attribute_items().items()))
        return self.before, self.after, self.data, self.conv.filter.static_shape, items

    def takes(self, axis: int, channels: range) -> bool:
        """Return whether the group reads ``channels`` along ``axis``, and all elements along the others."""
        wanted = [channels if a == axis else range(size) for a, size in enumerate(self.data.static_shape)]
        pairs = zip(self.indices, wanted, strict=True)
        return all(np.array_equal(found, np.array(numbers)) for found, numbers in pairs)


def _group(graph: Graph, value: Value) -> _Group | None:
    """Return the group whose result is ``value``; None if it is no plain convolution of part of a value."""
    result, after = _without_transpose(value)
    conv = result.producer
    is_alone = all(v.use_count == 1 and not graph.is_output(v) for v in (value, result))
    if not isinstance(conv, Conv2D) or not is_alone:
        return None
    constants = [v for v in (conv.filter, conv.bias) if v is not None]
    if not all(v.is_plain and v.dtype is f32 and v.quantization is None for v in constants):
        return None
    part, before = _without_transpose(conv.input)
    movement = part.producer
    lists = None if movement is None else axis_indices(movement)
    data = None if movement is None else moved_operand(movement)
    if lists is None or data is None or data.rank != 4 or part.rank != 4:
        return None
    return _Group(conv, before, after, data, lists[part.result_index])


def _without_transpose(value: Value) -> tuple[Value, Perm | None]:
    """Return the operand of the transpose that produces ``value``, and its permutation, if there is one."""
    op = value.producer
    perm = None if op is None else constant_perm(op)
    return (value, None) if not isinstance(op, Transpose) or perm is None else (op.input, perm)


def _bias(conv: Conv2D) -> Array:
    size = conv.filter.static_shape[0]
    return np.zeros(size, np.float32) if conv.bias is None else conv.bias.array().reshape(-1)
