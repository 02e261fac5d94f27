# SPDX-License-Identifier: Apache-2.0
"""Take the grids out of a model that rounds: FAKE_QUANT, and QUANTIZE followed by DEQUANTIZE.

Quantization-aware training leaves such models.  What is left is the float model, and for each tensor that was
rounded the parameters of its grid, which its quantized form then has exactly.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from circlekit.errors import CirclekitError
from circlekit.interp.evaluate import evaluate
from circlekit.ir.dtypes import DType, f32, i8, i16
from circlekit.ir.graph import Graph, Model
from circlekit.ir.op import Op
from circlekit.ir.value import Value
from circlekit.ops.arithmetic.binary import Minimum
from circlekit.ops.arithmetic.cast import Dequantize, FakeQuant, Quantize
from circlekit.ops.quantization import is_quantized
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
        grids[constant.name] = grid.form
        graph.replace_uses(rounded, constant)
    elif isinstance(first, Dequantize):
        grids[rounded.name] = grid.form  # integers come in: DEQUANTIZE stays, what reads it is quantized
        return
    elif not grids.setdefault(source.name, grid.form).same_as(grid.form):
        return
    elif grid.last < grid.form.dtype.limits[1]:
        _clip(graph, source, last, grid, grids)
    else:
        _bypass(graph, source, rounded, grids)
    for op in dict.fromkeys((last, first)):
        if op.graph is graph and not any(v.use_count or graph.is_output(v) for v in op.results):
            graph.remove(op)


def _clip(graph: Graph, source: Value, last: Op, grid: Grid, grids: Grids) -> None:
    """Replace the rounding by a MINIMUM: the integers of the form go further than the grid."""
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
    if _is_weights(op) and np.all(2 * form.zero_point == smallest + largest + 1):
        shift = -int(form.zero_point[0])  # kernels take no other weights than those with 0 at 0
    reason = f"that of %{value.name} in the model"
    zero_points = tuple((form.zero_point + shift).tolist())
    plan = TensorPlan(dtype, tuple(form.scale.tolist()), zero_points, form.quantized_dimension, reason=reason)
    return Grid(plan, largest + shift)


def grid_of(op: FakeQuant) -> Grid | None:
    """Return the grid of a FAKE_QUANT as int8 or int16; None for a broken range.

    Source: ``FakeQuantWithMinMaxVars``, function ``Nudge``, which moves the range so that 0 is a step.
    """
    first, last = int(op.narrow_range), 2**op.num_bits - 1
    low, high = np.float32(op.min), np.float32(op.max)
    if not (np.isfinite(low) and np.isfinite(high) and low < high and 2 <= op.num_bits <= 16):
        return None
    step = float((high - low) / np.float32(last - first))
    zero = min(max(int(np.floor(first - float(low) / step + 0.5)), first), last)
    dtype: DType = i8 if op.num_bits <= 8 else i16
    shift = dtype.limits[0]
    if op.num_bits not in (8, 16):
        shift -= first  # the first step is the smallest integer
    if _is_weights(op) and 2 * zero == first + last:
        shift = -zero  # kernels take no other weights than those with 0 at 0
    reason = f"the range [{low:.4g}, {high:.4g}] of FAKE_QUANT %{op.output.name}"
    return Grid(TensorPlan(dtype, (step,), (zero + shift,), reason=reason), last + shift)


def _is_weights(op: FakeQuant | Dequantize) -> bool:
    """Return whether ``op``, or a QUANTIZE before it, reads a constant."""
    source = op.input.producer
    return op.input.is_const or (isinstance(source, Quantize) and source.input.is_const)
