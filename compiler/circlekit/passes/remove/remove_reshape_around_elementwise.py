# SPDX-License-Identifier: Apache-2.0
"""Compute elementwise operators between Reshapes in the shape before the first Reshape."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from functools import cached_property
from typing import ClassVar

import numpy as np

from circlekit.errors import counted
from circlekit.ir.graph import Graph
from circlekit.ir.op import Op
from circlekit.ir.shape_inference import misfit
from circlekit.ir.value import Array, Shape, Value, format_shape, same_grid
from circlekit.ops.dimensions import known_dims
from circlekit.ops.movement.shape import Reshape
from circlekit.passes.support.conditions import remove_unused, same_shape
from circlekit.rewrite.base import Context, GraphPass

MAX_BROADCAST_RANK = 4
"""Highest rank for which all runtimes have broadcasting kernels; no constant is extended beyond it."""

MAX_RESHAPED_ELEMENTS = 1 << 20
"""A constant that broadcasts to more elements than this is not adapted to another shape."""


@dataclass(eq=False, repr=False)
class Region:
    """Connected elementwise operators.  ``ops``: the operators, in order.

    ``starts``: the results of Reshapes that the operators read; the Reshapes are not part of the region.
    """

    ops: list[Op] = field(default_factory=list)
    starts: list[Value] = field(default_factory=list)

    @cached_property
    def uses(self) -> Counter[Value]:
        """The number of uses of each value by the operators of the region."""
        return Counter(v for op in self.ops for v in op.inputs if v is not None)

    @property
    def inside(self) -> list[Value]:
        """All values of the region, the results of the Reshapes first."""
        return [*self.starts, *(op.output for op in self.ops)]


def region_before(last: Reshape, dead_ends: set[Value]) -> Region | Value:
    """Return the region of elementwise operators between Reshapes and ``last``.

    If there is none, return the value at which the search stopped.

    ``last`` must read the result of an elementwise operator.  The operators of the region may read
    constants, results of Reshapes and results of one another; each must read a value that is not a constant.
    ``dead_ends``: values known to be in no region that can be rewritten; the search stops at them.  The
    function adds those that it finds.
    """
    region, seen = Region(), set[Value]()
    todo = [(last.input, False)]  # (value, whether the operands of its producer are done)
    while todo:
        value, operands_done = todo.pop()
        producer = value.producer
        if operands_done and producer is not None:
            region.ops.append(producer)
            continue
        if value in seen:
            continue
        if isinstance(producer, Reshape) and value is not last.input:
            region.starts.append(value)
            seen.add(value)
            continue
        operands = None if producer is None or value in dead_ends else operands_of(producer)
        if operands is None:
            dead_ends.update(seen.difference(region.starts))
            return value
        seen.add(value)
        todo += [(value, True), *((v, False) for v in reversed(operands))]
    return region if region.starts else last.input


def operands_of(op: Op) -> list[Value] | None:
    """Return the operands of an elementwise ``op`` that are not constant; None if all are constant.

    Return None for any other ``op``.
    """
    if not op.elementwise:
        return None
    values = [v for v in op.inputs if v is not None and not is_constant(v)]
    return values or None


def only_operand(op: Op) -> Value | None:
    """Return an operand if ``op`` is elementwise and all its other operands are constants of one element.

    Else return None.  The returned operand is not constant.
    """
    values = operands_of(op) or []
    others = [v for v in op.inputs if v is not None and is_constant(v)]
    return values[0] if len(values) == 1 and all(v.numel == 1 for v in others) else None


def is_constant(value: Value) -> bool:
    """Return whether ``value`` is a constant that no operator changes, not packed, sparse or compressed."""
    return value.is_plain and not value.is_variable


def obstacle(graph: Graph, region: Region, last: Reshape) -> str | None:
    """Return why the operators of ``region`` must keep their shapes; None if these may change."""
    sources, first = sources_of(region), region.starts[0]
    why = next((s for op in region.ops if (s := _shape_obstacle(graph, op.output, region, last))), None)
    if why is not None:
        return why
    if {-1, 0} <= {*(last.requested_shape() or ())}:
        return f"%{last.output.name}: its shape has -1 beside 0, so it depends on the shape of the operand"
    for op in (*region.ops, *(v.producer for v in region.starts if v.producer is not None)):
        if (why := misfit(op)) is not None:
            return f"%{op.output.name}: {why}"
    for value in region.inside:
        if value.quantization is not None and value.quantization.is_per_channel:
            return f"%{value.name}: is quantized along an axis"
        if value.shape is None:
            return f"%{value.name}: has an unknown rank"
        if value.shape != first.shape:
            changed = "rank" if value.rank != first.rank else "shape"
            return f"%{value.name}: is broadcast to another {changed}"
    for value, source in zip(region.starts, sources, strict=True):
        if source.shape is None:
            return f"%{source.name}: has an unknown rank"
        if source.is_variable:
            return f"%{source.name}: is a variable, which may change before it would be read"
        if not same_grid(source.quantization, value.quantization):
            return f"%{value.name}: has other quantization parameters than %{source.name}"
        if source.shape != sources[0].shape or (len(sources) > 1 and not source.is_static):
            return f"%{source.name}: expected the shape of %{sources[0].name}, which must be static"
    operands = (value for op in region.ops for value in op.inputs)
    return next((s for v in operands if (s := _unfit(v, first, sources[0]))), None)


def _shape_obstacle(graph: Graph, value: Value, region: Region, last: Reshape) -> str | None:
    """Return why ``value`` must keep its shape; None if it need not.

    It must if it is an output of the graph, or if other operators than those of ``region`` and ``last`` read
    it.
    """
    if graph.is_output(value):
        return f"%{value.name}: is an output of the graph, whose shape must stay"
    if value.use_count == region.uses[value] + last.inputs.count(value):
        return None
    return f"%{value.name}: has {counted(len(value.users), 'user')}, some outside of the Reshapes"


def saved(graph: Graph, region: Region, last: Reshape) -> tuple[int, str]:
    """Return (the number of Reshapes that would be removed, why one of ``starts`` stays).

    The reason is "" if none of ``starts`` stays.
    """
    reasons = [s for v in region.starts if (s := _shape_obstacle(graph, v, region, last))]
    freed = len(region.starts) - len(reasons) + is_removable(last, sources_of(region)[0])
    return freed, next(iter(reasons), "")


def is_removable(last: Reshape, source: Value) -> bool:
    """Return whether ``last`` changes nothing once its operand has the shape of ``source``."""
    is_same_shape = same_shape(source, last.output) is None
    return is_same_shape and same_grid(last.input.quantization, last.output.quantization)


def sources_of(region: Region) -> list[Value]:
    """Return the operands of the Reshapes before the region."""
    return [v.producer.input for v in region.starts if isinstance(v.producer, Reshape)]


def _unfit(value: Value | None, old: Value, new: Value) -> str | None:
    """Return why ``value`` cannot be reshaped for an operator that reads ``new`` instead of ``old``.

    ``new`` is ``old`` in another shape.  Return None if ``value`` can be reshaped, and also if it is
    not constant or has one element.
    """
    if value is None or not is_constant(value) or value.numel == 1:
        return None
    if value.quantization is not None and value.quantization.is_per_channel:
        return f"%{value.name}: is quantized along an axis"
    if not old.is_static or not new.is_static or old.numel > MAX_RESHAPED_ELEMENTS:
        most = MAX_RESHAPED_ELEMENTS
        return f"%{value.name}: is used with an unknown shape, or with more than {most} elements"
    array = _replacement(value.array(), old.static_shape, new.static_shape)
    if array.size > value.numel or array.ndim > max(MAX_BROADCAST_RANK, value.known_rank):
        shapes = f"{format_shape(value.shape)} cannot be reshaped for {format_shape(new.shape)}"
        return f"%{value.name}: shape {shapes}"
    return None


def _replacement(array: Array, old: tuple[int, ...], new: tuple[int, ...]) -> Array:
    """Return the smallest array that can replace ``array`` where shape ``new`` replaces shape ``old``.

    Broadcast to ``new``, it has the same elements in the same order as ``array`` broadcast to ``old``.
    Example: an array of [1, 6] that was broadcast to [2, 6] becomes [2, 3] for the shape [2, 2, 3].
    """
    whole: Array = np.broadcast_to(array, old).reshape(new)
    for axis in range(len(new)):  # if all slices along the axis are equal, keep the first
        head = whole.take(range(whole.shape[axis])[:1], axis)
        if whole.shape[axis] > 1 and np.array_equal(_bits(whole), np.broadcast_to(_bits(head), whole.shape)):
            whole = head
    while whole.shape[:1] == (1,):
        whole = whole[0]
    return np.ascontiguousarray(whole)  # this makes a scalar an array of one dimension


def _bits(array: Array) -> Array:
    """Return floats as integers of the same bits, so that NaN equals itself and 0.0 differs from -0.0."""
    return array.view(f"u{array.itemsize}") if array.dtype.kind == "f" else array


def move(graph: Graph, op: Op, new: dict[Value, Value], shape: Shape, old: Value) -> None:
    """Let the elementwise ``op`` work on data of ``shape``.

    Each operand that is a key of ``new`` is replaced by ``new[operand]``, constants are reshaped, and the
    result gets ``shape``.  ``old``: a value with the shape that the result had before.
    """
    for index, value in enumerate(op.inputs):
        if value is not None and value in new:
            op.set_input(index, new[value])
        elif value is None or not is_constant(value):
            continue
        elif value.numel != 1:
            array = _replacement(value.array(), old.static_shape, known_dims(shape))
            if array.shape != value.shape:
                op.set_input(index, _constant(graph, value, array))
        elif value.known_rank > len(shape):  # the constant of one element would raise the rank of the result
            op.set_input(index, _constant(graph, value, value.array().reshape(())))
    op.output.shape = shape


def _constant(graph: Graph, like: Value, array: Array) -> Value:
    """Return a new constant with the data ``array`` and the quantization of ``like``."""
    return Value.constant(graph.unique_name(like.name), array, like.quantization)


class RemoveReshapeAroundUnaryOp(GraphPass):
    """reshape(f(g(reshape(x, B))), C)  ==  reshape(f(g(x)), C), without any Reshape if x has shape C.

    f and g stand for any number of elementwise operators.  All Reshapes before f and g must read values of
    the same shape, a static one if there are several.  Each constant operand is replaced by a constant that
    broadcasts to this shape with the same effect, and that must not have more elements.  The results of f and
    g must not be outputs of the graph, and only the rewritten operators may use them.  At least one Reshape
    must become unnecessary.  Nothing may be quantized per channel.
    """

    name = "remove_reshape_around_unaryop"
    back: ClassVar[bool] = False  # whether x must have shape C

    def run_graph(self, graph: Graph, context: Context) -> int:
        dead_ends: set[Value] = set()
        reshapes = [op for op in graph.ops if isinstance(op, Reshape)]
        return sum(1 for op in reshapes if self._remove(graph, op, context, dead_ends))

    def _remove(self, graph: Graph, last: Reshape, context: Context, dead_ends: set[Value]) -> bool:
        """Rewrite the region before ``last``; return whether it did so.  ``dead_ends``: see region_before."""
        if context.refusals is not None:
            dead_ends = set()  # each Reshape gets the sentence about its own region
        region = region_before(last, dead_ends)
        if isinstance(region, Value):
            if context.partial_matches:
                reason = "" if region is last.input else f": it depends on %{region.name}"
                why = f"is not computed by elementwise operators from Reshapes and constants alone{reason}"
                context.refuse(self.name, last, f"%{last.input.name}: {why}", 1)
            return False
        sentence, sources = obstacle(graph, region, last), sources_of(region)
        if sentence is None and self.back:
            sentence = same_shape(sources[0], last.output)
        elif sentence is None:
            removed, reason = saved(graph, region, last)
            sentence = None if removed else reason
        if sentence is not None:
            dead_ends.update(op.output for op in region.ops)
        # a larger region is a nearer miss
        if not context.accepts(self.name, last, sentence, len(region.ops) + 3):
            return False
        end, new = last.input, dict(zip(region.starts, sources, strict=True))
        for op in region.ops:
            move(graph, op, new, sources[0].known_shape, region.starts[0])
        remove_unused(graph, *region.starts)
        # ``end`` can replace an output of the graph, because it is not an output itself (see obstacle)
        if is_removable(last, end):
            graph.replace(last.output, end)
            graph.remove(last)
        return True
