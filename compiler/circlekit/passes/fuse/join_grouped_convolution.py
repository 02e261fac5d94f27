# SPDX-License-Identifier: Apache-2.0
"""Join the convolutions into which an exporter has split a grouped convolution."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from circlekit.index_maps.index_map import IndexMap
from circlekit.index_maps.of_operators import Movement, movement_of
from circlekit.index_maps.unknown_dim import dims_of
from circlekit.ir.dtypes import f32
from circlekit.ir.enums import Activation
from circlekit.ir.graph import Graph
from circlekit.ir.op import Op
from circlekit.ir.shape_inference import fits
from circlekit.ir.value import Array, Value, format_shape
from circlekit.ops.convolution.conv import Conv2D
from circlekit.ops.movement.join import Concatenation
from circlekit.ops.movement.shape import Transpose
from circlekit.passes.support.axes import Perm, constant_perm
from circlekit.passes.support.conditions import remove_unused
from circlekit.passes.support.insertion import Inserter
from circlekit.rewrite.base import Context, GraphPass

CHANNELS = 3
"""The axis of channels in NHWC data."""

Movements = dict[Op, Movement | None]
"""{data movement: the result of ``movement_of``}.  With it, a SPLIT is examined once, not once per part."""


class JoinGroupedConvolution(GraphPass):
    """concatenation(conv(slice 1 of x), ..., conv(slice G of x))  ==  conv(x) of G groups.

    In a grouped CONV_2D, each group of output channels reads its own range of input channels; the filter has
    the depth of one range.  Transposes may stand before and after the convolutions.  There is no picture,
    because the number of groups is not fixed.  The targets of circle, onert and luci, lack the grouped form.
    """

    name = "join_grouped_convolution"
    formats = frozenset({"tflite"})

    def run_graph(self, graph: Graph, context: Context) -> int:
        return sum(self._join(graph, op, context) for op in graph.ops if isinstance(op, Concatenation))

    def _join(self, graph: Graph, op: Concatenation, context: Context) -> bool:
        """Replace ``op`` and the convolutions before it by one convolution, unless this is refused.

        Return whether they were replaced.
        """
        movements: Movements = {}
        groups = [_group(graph, value, movements) for value in op.values]
        known = [group for group in groups if group is not None]
        if not known:  # no operand comes from a convolution of a slice: not even a near miss
            return False
        sentence = _refusal(op, known)
        if not context.accepts(self.name, op, sentence, progress=1 + len(known)):
            return False
        _replace(graph, op, known)
        return True


def _refusal(op: Concatenation, groups: Sequence[_Group]) -> str | None:
    """Return why ``groups``, found among the operands of ``op``, do not become one convolution, or None."""
    result, (first, *_) = op.output, groups
    if len(groups) < max(len(op.values), 2):
        expected = (
            "expected 2 or more operands, each the result of a convolution of a slice that can be joined"
        )
        return f"%{result.name}: {expected}; this holds for {len(groups)} of {len(op.values)}"
    if op.act is not Activation.NONE:
        return f"%{result.name}: act is {op.act.name}, expected NONE"
    other = next((group for group in groups if group.kind != first.kind), None)
    if other is not None:
        expected = "expected the input, attributes, filter shape and transposes"
        return f"%{other.conv.output.name}: {expected} of %{first.conv.output.name}"
    data_axis = first.before[CHANNELS] if first.before else CHANNELS
    # group i must read the channels from i * depth on
    depth = first.conv.filter.static_shape[CHANNELS]
    for index, group in enumerate(groups):
        if not group.takes(data_axis, range(index * depth, (index + 1) * depth)):
            return f"%{group.conv.output.name}: does not read the channels of group {index} alone"
    if depth * len(groups) != first.data.known_shape[data_axis]:
        found = format_shape(first.data.shape)
        return f"%{first.data.name}: has shape {found}, {depth * len(groups)} channels are read"
    axis = first.after.index(CHANNELS) if first.after else CHANNELS
    return None if op.axis % 4 == axis else f"%{result.name}: axis is {op.axis}, expected {axis}"


def _replace(graph: Graph, op: Concatenation, groups: Sequence[_Group]) -> None:
    """Put one convolution in the place of ``op``, and remove the operators that only ``op`` used."""
    insert, (first, *_) = Inserter(graph, op), groups
    data = insert.transposed(first.data, first.before) if first.before else first.data
    filter = insert.constant("filter", np.concatenate([group.conv.filter.array() for group in groups]))
    bias = insert.constant("bias", np.concatenate([_bias(group.conv) for group in groups]))
    value = insert.make(Conv2D(data, filter, bias, **first.conv.attribute_items()))
    parts = list(op.values)
    insert.finish(insert.transposed(value, first.after) if first.after else value)
    remove_unused(graph, *parts)


class _Group(NamedTuple):
    """One of the parallel convolutions.

    ``before``, ``after``: the permutations of the transposes around it, None if there is no transpose.
    ``data``: the value of which the group reads ``part``.  ``part_map``: the index map from ``data`` to
    ``part``.
    """

    conv: Conv2D
    before: Perm | None
    after: Perm | None
    data: Value
    part: Value
    part_map: IndexMap

    @property
    def kind(self) -> tuple[Any, ...]:
        """The properties that all groups of one convolution share."""
        items = tuple(sorted(self.conv.attribute_items().items()))
        return self.before, self.after, self.data, self.conv.filter.static_shape, items

    def takes(self, axis: int, channels: range) -> bool:
        """Return whether the group reads ``channels`` along ``axis``, and all elements along the others."""
        shape = dims_of(self.data)
        ranges = [channels if a == axis else range(size) for a, size in enumerate(shape)]
        has_shape = dims_of(self.part) == tuple(map(len, ranges))
        return has_shape and self.part_map == IndexMap.sliced(shape, ranges)


def _group(graph: Graph, value: Value, movements: Movements) -> _Group | None:
    """Return the group whose convolution computes ``value`` from a part of another value, or None.

    ``movements``: what has been found before; the data movement that takes the part is added to it.
    A transpose may stand before and after the convolution.  These conditions must hold:

    - ``value`` and the result of the convolution have one use, and are no outputs.
    - The convolution obeys its shape rule.
    - Filter and bias are f32 constants without quantization, and not packed, sparse or compressed.
    - The other value has rank 4, and ``movement_of`` returns the movement that takes the part.
    """
    result, after = _without_transpose(value)
    conv = result.producer
    is_alone = all(v.use_count == 1 and not graph.is_output(v) for v in (value, result))
    if not isinstance(conv, Conv2D) or not is_alone or not fits(conv):
        return None
    constants = [v for v in (conv.filter, conv.bias) if v is not None]
    if not all(v.is_plain and v.dtype is f32 and v.quantization is None for v in constants):
        return None
    part, before = _without_transpose(conv.input)
    op = part.producer
    if op is None:
        return None
    if op not in movements:
        movements[op] = movement_of(op)
    movement = movements[op]
    part_map = None if movement is None else movement.maps[part.result_index]
    if movement is None or part_map is None or len(movement.sources) > 1 or movement.sources[0].rank != 4:
        return None
    return _Group(conv, before, after, movement.sources[0], part, part_map)


def _without_transpose(value: Value) -> tuple[Value, Perm | None]:
    """Return the operand and the permutation of the transpose that produces ``value``.

    Return ``value`` and None if another operator produces it.
    """
    op = value.producer
    perm = None if op is None else constant_perm(op)
    return (value, None) if not isinstance(op, Transpose) or perm is None else (op.input, perm)


def _bias(conv: Conv2D) -> Array:
    """Return the bias [output channels], zeros if there is none."""
    size = conv.filter.static_shape[0]
    return np.zeros(size, np.float32) if conv.bias is None else conv.bias.array().reshape(-1)
