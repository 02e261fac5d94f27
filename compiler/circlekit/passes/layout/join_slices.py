# SPDX-License-Identifier: Apache-2.0
"""Replace slices that together take a whole value by one SPLIT, SPLIT_V or UNPACK."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from circlekit.index_maps.of_operators import movement_of
from circlekit.index_maps.unknown_dim import dims_of, is_unknown, written
from circlekit.index_maps.write_back import sliced
from circlekit.ir.graph import Graph
from circlekit.ir.op import Op
from circlekit.ir.value import Value
from circlekit.ops.movement.gather import Gather
from circlekit.ops.movement.join import Split, SplitV, Unpack
from circlekit.ops.movement.shape import Reshape
from circlekit.ops.movement.slice import Slice, StridedSlice
from circlekit.passes.layout.movement_writer import MovementWriter, drop
from circlekit.rewrite.base import Context, GraphPass


class _Part(NamedTuple):
    """A slice: ``op`` takes the indices from ``start`` up to, but not including, ``stop`` along ``axis``."""

    start: int
    stop: int
    op: Op
    axis: int

    @property
    def result(self) -> Value:
        """The value that the slice produces."""
        return self.op.results[0]


class JoinSlices(GraphPass):
    """x[:, 0:n], x[:, n:2n], ...  ==  split(x), or unpack(x) if n = 1.

    For n = 1, UNPACK is chosen unless SPLIT needs fewer Reshapes.  If a slice has another shape than its part
    of the split, a Reshape follows.  A GATHER of consecutive indices is a slice, too.
    """

    name = "join_slices"
    obeys_target = True

    def run_graph(self, graph: Graph, context: Context) -> int:
        groups: dict[tuple[Value | None, int], list[_Part]] = {}  # by sliced value and axis
        for op in graph.ops:
            part = _part_of(op) if isinstance(op, Slice | StridedSlice | Gather) else None
            if part is not None:
                groups.setdefault((op.inputs[0], part.axis), []).append(part)
        order = {op: index for index, op in enumerate(graph.ops)} if groups else {}
        ordered = [sorted(parts, key=lambda part: part.start) for parts in groups.values()]
        writer = MovementWriter(graph, context)
        return sum(self.join(writer, parts, order, context) for parts in ordered)

    def join(
        self, writer: MovementWriter, parts: Sequence[_Part], order: Mapping[Op, int], context: Context
    ) -> bool:
        """Replace ``parts``, slices of one value along one axis, sorted by ``start``, by one operator.

        Reshapes may follow this operator.  ``order``: the position of each operator in the graph.  The parts
        must cover each index of the axis exactly once, the replacement must not have more operators than
        the slices (both counted after legalization), and the target and ``context`` must accept it.
        Otherwise return False, and change nothing.
        """
        old, graph = [part.op for part in parts], writer.graph
        first = min(old, key=order.__getitem__)
        sentence, new = _obstacle(parts), list[Op]()
        if sentence is None:
            forms = (_joined(graph, parts, kind, first.results[0].name) for kind in _kinds(parts))
            new = writer.cheapest(forms)
            sentence = writer.refusal(old, new)
            count = writer.cost(new).ops
            if sentence is None and count > writer.cost(old).ops:
                more = f"{count} operators instead of {writer.cost(old).ops}"
                sentence = f"%{first.output.name}: the replacement, with its Reshapes, would have {more}"
        if not context.accepts(self.name, first, sentence, len(parts)):
            drop(new)
            return False
        for op in new:
            graph.insert_before(first, op)
        reshapes = {op.inputs[0]: op for op in new[1:]}  # by the result of new[0] that the Reshape reads
        for part, value in zip(parts, tuple(new[0].results), strict=True):
            producer = reshapes.get(value, new[0])
            producer.take_result(0 if value in reshapes else value.result_index, part.result)
            graph.remove(part.op)
        return True


def _part_of(op: Op) -> _Part | None:
    """Return ``op`` as a part if it takes some consecutive indices along one axis, all along the others.

    Return None for other operators.
    """
    movement = movement_of(op)
    if movement is None or movement.maps[0] is None:
        return None
    shape = dims_of(movement.sources[0])
    found = sliced(movement.maps[0], shape)  # a slice, and a permutation of the slice
    if found is None or not found[1].is_identity:
        return None
    ranges = found[0].ranges
    axes = [axis for axis, dim in enumerate(shape) if len(ranges[axis]) != dim]
    if len(axes) != 1 or is_unknown(shape[axes[0]]) or ranges[axes[0]].step != 1:
        return None
    return _Part(ranges[axes[0]].start, ranges[axes[0]].stop, op, axes[0])


def _obstacle(parts: Sequence[_Part]) -> str | None:
    """Return a sentence unless ``parts``, sorted by ``start``, take each index of the axis exactly once."""
    source, axis = parts[0].op.inputs[0], parts[0].axis
    assert source is not None  # the operand of a slice
    expected, dim = 0, dims_of(source)[axis]
    for part in parts:
        if part.start != expected:
            break
        expected = part.stop
    else:
        if expected == dim:
            return None
    return f"%{source.name}: the slices do not take each of the {dim} indices of axis {axis} exactly once"


def _kinds(parts: Sequence[_Part]) -> Sequence[type[Op]]:
    """Return the kinds of operators that can replace ``parts``; those with fewer operands come first."""
    sizes = [part.stop - part.start for part in parts]
    if len({*sizes}) > 1:
        return [SplitV]
    return [Unpack, Split, SplitV] if sizes[0] == 1 else [Split, SplitV]


def _joined(graph: Graph, parts: Sequence[_Part], kind: type[Op], base: str) -> list[Op]:
    """Return an operator of ``kind`` whose results are ``parts``, and Reshapes to the shapes of the slices.

    All results are named after ``base``.  The operators are not in the graph yet.
    """
    axis, sizes = parts[0].axis, [part.stop - part.start for part in parts]
    source = parts[0].op.inputs[0]
    assert source is not None  # the operand of a slice

    def constant(name: str, numbers: int | Sequence[int]) -> Value:
        return Value.constant(graph.unique_name(f"{base}/{name}"), np.array(numbers, np.int32))

    joined: Op
    if kind is Unpack:
        joined = Unpack(source, num=len(parts), axis=axis)
    elif kind is Split:
        joined = Split(constant("split_dim", axis), source, num_splits=len(parts))
    else:
        joined = SplitV(
            source, constant("size_splits", sizes), constant("split_dim", axis), num_splits=len(parts)
        )
    pairs = [(v, dims_of(p.result)) for v, p in zip(joined.results, parts, strict=True)]
    reshapes = [
        Reshape(value, constant("shape", written(shape)), new_shape=written(shape))
        for value, shape in pairs
        if dims_of(value) != shape
    ]
    for op in (joined, *reshapes):
        for value in op.results:
            value.name = graph.unique_name(f"{base}/{type(op).__name__}")
            value.quantization = source.quantization
    return [joined, *reshapes]
