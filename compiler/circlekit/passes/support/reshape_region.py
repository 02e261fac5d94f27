# SPDX-License-Identifier: Apache-2.0
"""Elementwise operators that stand between Reshapes: which they are, and in which shape they can work.

Over 120 lines because what stands there, whether it may move, and the move are one account of all values.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from circlekit.ir.graph import Graph
from circlekit.ir.op import Op
from circlekit.ir.value import Array, Shape, Value, format_shape
from circlekit.ops.movement.shape import Reshape
from circlekit.passes.support.conditions import same_shape

MOST_RANK = 4
"""Beyond it runtimes lack kernels that broadcast, so no constant of several elements gets that far."""

LARGEST = 1 << 20
"""Elements of a constant that are looked at for another shape."""


@dataclass(eq=False, repr=False)
class Region:
    """``ops``: in order; ``starts``: what the Reshapes before them give."""

    ops: list[Op] = field(default_factory=list)
    starts: list[Value] = field(default_factory=list)

    @cached_property
    def uses(self) -> Counter[Value]:
        """How often its operators read each value."""
        return Counter(v for op in self.ops for v in op.inputs if v is not None)

    @property
    def inside(self) -> list[Value]:
        """The values between the Reshapes, those that they give first."""
        return [*self.starts, *(op.output for op in self.ops)]


def region_before(last: Reshape, dead_ends: set[Value]) -> Region | None:
    """What makes the operand of ``last``, from Reshapes on; None where it comes from anything else too.

    ``dead_ends``: values that come from anything else; nobody walks along them twice.
    """
    region, seen = Region(), set[Value]()
    todo = [(last.input, False)]
    while todo:
        value, done = todo.pop()
        maker = value.producer
        if done and maker is not None:
            region.ops.append(maker)
            continue
        if value in seen:
            continue
        if isinstance(maker, Reshape) and value is not last.input:
            region.starts.append(value)
            seen.add(value)
            continue
        operands = None if maker is None or value in dead_ends else operands_of(maker)
        if operands is None:
            dead_ends.update(seen.difference(region.starts))
            return None
        seen.add(value)
        todo += [(value, True), *((v, False) for v in reversed(operands))]
    return region if region.starts else None


def operands_of(op: Op) -> list[Value] | None:
    """The operands, but for constants, of an operator that works on single elements; None of any other."""
    if not op.elementwise:
        return None
    values = [v for v in op.inputs if v is not None and not is_constant(v)]
    return values or None


def only_operand(op: Op) -> Value | None:
    """The one operand of an operator that works on each element of it alone; None for another operator."""
    values = operands_of(op) or []
    others = [v for v in op.inputs if v is not None and is_constant(v)]
    return values[0] if len(values) == 1 and all(v.numel == 1 for v in others) else None


def is_constant(value: Value) -> bool:
    return value.is_plain and not value.is_variable


def obstacle(graph: Graph, region: Region, last: Reshape) -> str | None:
    """Why the operators of ``region`` must keep their shape."""
    sources, first = sources_of(region), region.starts[0]
    why = next((s for op in region.ops if (s := _bound(graph, op.output, region, last))), None)
    if why is not None:
        return why
    for value in region.inside:
        if value.quantization is not None and value.quantization.is_per_channel:
            return f"%{value.name}: is quantized along an axis"
        if value.shape is None or value.shape != first.shape:
            sort = "rank" if value.rank != first.rank else "shape"
            return f"%{value.name}: is broadcast to another {sort}"
    for value, source in zip(region.starts, sources, strict=True):
        if source.shape is None:
            return f"%{source.name}: has an unknown rank"
        if source.quantization != value.quantization:
            return f"%{value.name}: has other quantization parameters than %{source.name}"
        if source.shape != sources[0].shape or (len(sources) > 1 and not source.is_static):
            return f"%{source.name}: has another shape than %{sources[0].name}, or one that is not known"
    return next((s for op in region.ops for v in op.inputs if (s := _unfit(v, first, sources[0]))), None)


def _bound(graph: Graph, value: Value, region: Region, last: Reshape) -> str | None:
    """Whether anybody but ``region`` and ``last`` has ``value``, as a sentence."""
    if graph.is_output(value):
        return f"%{value.name}: is an output of the graph, its shape must stay"
    if value.use_count == region.uses[value] + last.inputs.count(value):
        return None
    return f"%{value.name}: has {value.use_count} readers, one is wanted"


def saved(graph: Graph, region: Region, last: Reshape) -> tuple[int, str]:
    """How many Reshapes would go, and why not more."""
    bound = [s for v in region.starts if (s := _bound(graph, v, region, last))]
    same = same_shape(sources_of(region)[0], last.output)
    return len(region.starts) - len(bound) + (same is None), next(iter(bound), same or "")


def sources_of(region: Region) -> list[Value]:
    """What the Reshapes before the region read."""
    return [v.producer.input for v in region.starts if isinstance(v.producer, Reshape)]


def _unfit(value: Value | None, old: Value, new: Value) -> str | None:
    """Why the constant ``value``, used with values like ``old``, has no form for values like ``new``."""
    if value is None or not is_constant(value) or value.numel == 1:
        return None
    if value.quantization is not None and value.quantization.is_per_channel:
        return f"%{value.name}: is quantized along an axis"
    if not old.is_static or not new.is_static or old.numel > LARGEST:
        return f"%{value.name}: is read in an unknown shape, or one of very many elements"
    form = _form(value.array(), old.static_shape, new.static_shape)
    if form.size > value.numel or form.ndim > max(MOST_RANK, value.rank or 0):
        return f"%{value.name}: {format_shape(value.shape)} is no constant for {format_shape(new.shape)}"
    return None


def _form(array: Array, old: tuple[int, ...], new: tuple[int, ...]) -> Array:
    """The smallest array that is for ``new`` what ``array`` is for ``old``, bit by bit."""
    whole: Array = np.broadcast_to(array, old).reshape(new)
    for axis in range(len(new)):
        head = whole.take([0], axis)
        if whole.shape[axis] > 1 and np.array_equal(_bits(whole), np.broadcast_to(_bits(head), whole.shape)):
            whole = head
    while whole.ndim > 1 and whole.shape[0] == 1:
        whole = whole[0]
    return np.ascontiguousarray(whole)


def _bits(array: Array) -> Array:
    return array.view(f"u{array.itemsize}") if array.dtype.kind == "f" else array


def move(graph: Graph, op: Op, new: dict[Value, Value], shape: Shape | None, old: Value) -> None:
    """Let ``op`` read ``new`` in the place of its operands, of which ``old`` is one, and give ``shape``."""
    for index, value in enumerate(op.inputs):
        if value is not None and value in new:
            op.set_input(index, new[value])
        elif value is None or not is_constant(value):
            continue
        elif value.numel > 1 and shape is not None and old.is_static:
            form = _form(value.array(), old.static_shape, tuple(d or 0 for d in shape))
            if form.shape != value.shape:
                op.set_input(index, _constant(graph, value, form))
        elif (value.rank or 0) > len(shape or ()):
            op.set_input(index, _constant(graph, value, value.array().reshape(())))
    op.output.shape = shape


def _constant(graph: Graph, like: Value, array: Array) -> Value:
    return Value.constant(graph.unique_name(like.name), array, like.quantization)
