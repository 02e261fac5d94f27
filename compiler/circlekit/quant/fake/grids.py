# SPDX-License-Identifier: Apache-2.0
"""Take the grids out of a model that rounds: FAKE_QUANT, and QUANTIZE followed by DEQUANTIZE.

Quantization-aware training leaves such models.  What is left is the float model, and for each tensor that was
rounded the parameters of its grid, which its quantized form then has exactly.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from circlekit.errors import CirclekitError
from circlekit.interp.evaluate import evaluate
from circlekit.ir.dtypes import DType, f32, i8, i16
from circlekit.ir.graph import Graph, Model
from circlekit.ir.op import Op
from circlekit.ir.value import Array, Value
from circlekit.ops.arithmetic.binary import Minimum
from circlekit.ops.arithmetic.cast import Dequantize, FakeQuant, Quantize
from circlekit.ops.quantization import followed_operand, is_quantized
from circlekit.quant.plan import TensorPlan

Grids = dict[str, TensorPlan]


class Grid(NamedTuple):
    """Equally spaced numbers: those of ``form`` up to the integer ``last``, which may not be its largest."""

    form: TensorPlan
    last: int

    @property
    def highest(self) -> float:
        """The number that the integer ``last`` stands for."""
        return self.form.scale[0] * (self.last - self.form.zero_point[0])


def take_grids(model: Model) -> list[Grids]:
    """Remove the operators that round from every graph of ``model``, in place; return the grids by name.

    An operator stays where a tensor is rounded to two different grids, or to one that is not understood.
    Where a grid has fewer steps than its dtype has integers, a MINIMUM does what is left of its clipping.
    """
    return [_take(graph) for graph in model.graphs]


def _take(graph: Graph) -> Grids:
    grids: Grids = {}
    for op in list(graph):
        if isinstance(op, FakeQuant):
            _take_one(graph, op, op, grid_of(op), grids)
        elif isinstance(op, Dequantize):
            source = op.input.producer
            is_pair = isinstance(source, Quantize) and source.input.dtype is f32
            _take_one(graph, source if is_pair and source else op, op, stored_grid(op), grids)
    return grids


def _take_one(graph: Graph, first: Op, last: Op, grid: Grid | None, grids: Grids) -> None:
    """Remove the chain from ``first`` to ``last`` if its grid is known and fits that of its tensor."""
    source, rounded = first.inputs[0], last.output
    if grid is None or source is None:
        return
    if source.is_const:
        constant = _rounded_constant(graph, first, last)
        if constant is None:
            return
        grids[constant.name] = _with_zero_at_zero(grid.form, constant.array())
        graph.replace_uses(rounded, constant)
    elif isinstance(first, Dequantize):
        grids[rounded.name] = grid.form  # integers come in: DEQUANTIZE stays, what reads it is quantized
        return
    elif grids.get(source.name, grid.form) != grid.form:
        return
    elif not _can_have(source, grid.form, grids):
        _clip(graph, source, last, grid, grids)
    elif grid.last < grid.form.dtype.limits[1]:
        _give(source, grid.form, grids)
        _clip(graph, source, last, grid, grids)
    else:
        _give(source, grid.form, grids)
        _bypass(graph, source, rounded, grids)
    for op in dict.fromkeys((last, first)):
        if op.graph is graph and not any(v.use_count or graph.is_output(v) for v in op.results):
            graph.remove(op)


def _with_zero_at_zero(form: TensorPlan, numbers: Array) -> TensorPlan:
    """Return ``form`` with zero points 0, without which kernels take no weights, if the numbers then fit."""
    shape = [-1 if i == form.axis else 1 for i in range(numbers.ndim)] if len(form.scale) > 1 else []
    steps = np.rint(numbers / form.scales.reshape(shape))
    low, high = form.dtype.limits
    fits = steps.min(initial=0) >= low and steps.max(initial=0) <= high
    return replace(form, zero_point=(0,) * len(form.scale)) if fits else form


def _can_have(value: Value, form: TensorPlan, grids: Grids) -> bool:
    """Return whether the operator that produces ``value`` can give it ``form``, as far as that is known."""
    op = value.producer
    rule = None if op is None else op.quantization_rule
    if op is None or rule is None:
        return True
    if form.dtype in rule.fixed:
        return (form.scale, form.zero_point) == tuple((x,) for x in rule.fixed[form.dtype])
    followed = followed_operand(op)
    if followed is None:
        return True
    known = grids.get(followed.name)
    if known is not None:
        return known.same_as(form)
    return followed.use_count == 1 and followed.producer is not None and _can_have(followed, form, grids)


def _give(value: Value, form: TensorPlan, grids: Grids) -> None:
    """Give ``value`` this form, and the operand that its producer does not scale."""
    grids[value.name] = form
    followed = None if value.producer is None else followed_operand(value.producer)
    if followed is not None and followed.name not in grids:
        _give(followed, form, grids)


def _clip(graph: Graph, source: Value, last: Op, grid: Grid, grids: Grids) -> None:
    """Replace the rounding by a MINIMUM, before which integers of another form are quantized again.

    The integers of the form go further than the grid, or the producer of ``source`` cannot have this form.
    """
    name = last.output.name
    bound = Value.constant(graph.unique_name(f"{name}/highest"), np.array(grid.highest, np.float32))
    clipped = graph.insert_before(last, Minimum(source, bound))
    clipped.take_result(0, last.output)
    grids[name] = grid.form


def _bypass(graph: Graph, source: Value, rounded: Value, grids: Grids) -> None:
    """Let the users of ``rounded`` read ``source``; a graph output keeps its name."""
    if graph.is_output(rounded) and source.producer is not None and not graph.is_output(source):
        grids[rounded.name] = grids.pop(source.name)
        graph.replace_uses(source, rounded)
        source.producer.take_result(source.result_index, rounded)
    elif not graph.is_output(rounded):
        graph.replace_uses(rounded, source)


def _rounded_constant(graph: Graph, first: Op, last: Op) -> Value | None:
    """Return a constant with the numbers that the chain computes; None if it cannot be computed."""
    source = first.inputs[0]
    assert source is not None  # the caller checked it
    if not source.is_plain or graph.is_output(last.output):
        return None
    try:
        results = [source.array()]
        for op in dict.fromkeys((first, last)):
            results = evaluate(op, results)
    except CirclekitError:
        return None
    return Value.constant(graph.unique_name(f"{source.name}/rounded"), results[0])


def stored_grid(op: Dequantize) -> Grid | None:
    """Return the grid of the integers that a DEQUANTIZE reads; None for more than 16 bits."""
    value = op.input
    form = value.quantization
    if form is None or not is_quantized(value) or not 0 < value.dtype.bits <= 16:
        return None
    dtype = i8 if value.dtype.bits <= 8 else i16
    smallest, largest = value.dtype.limits
    shift = dtype.limits[0] - smallest  # the smallest integers stand for the same number
    reason = f"that of %{value.name} in the model"
    zero_points = tuple((form.zero_point + shift).tolist())
    plan = TensorPlan(dtype, tuple(form.scale.tolist()), zero_points, form.quantized_dimension, reason=reason)
    return Grid(replace(plan, rounds=True), largest + shift)


def grid_of(op: FakeQuant) -> Grid | None:
    """Return the grid of a FAKE_QUANT as int8 or int16; None for a broken range.

    Source: ``FakeQuantWithMinMaxVars``, function ``Nudge``, which moves the range so that 0 is a step.
    """
    first, last = int(op.narrow_range), 2**op.num_bits - 1
    low, high = np.float32(op.min), np.float32(op.max)
    if not (np.isfinite(low) and np.isfinite(high) and low < high and 2 <= op.num_bits <= 16):
        return None
    step, zero = op.grid()
    dtype: DType = i8 if op.num_bits <= 8 else i16
    shift = dtype.limits[0]
    if op.num_bits not in (8, 16):
        shift -= first  # the first step is the smallest integer
    reason = f"the range [{low:.4g}, {high:.4g}] of FAKE_QUANT %{op.output.name}"
    plan = TensorPlan(dtype, (float(step),), (int(zero) + shift,), reason=reason, rounds=True)
    return Grid(plan, last + shift)
