# SPDX-License-Identifier: Apache-2.0
"""Remove the rounding operators that quantization-aware training leaves in a float model; keep their grids.

A rounding operator is a FAKE_QUANT, or a QUANTIZE followed by a DEQUANTIZE.  It rounds a tensor to a grid:
equally spaced numbers that integers stand for.  A form (``TensorForm``) is the dtype, the scales and the zero
points of such integers.  Without rounding operators, the model is an ordinary float model.  The removed grids
are returned as forms, so that quantization can store each tensor in the form of its grid.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

import numpy as np

from circlekit.errors import CirclekitError
from circlekit.interp.evaluate import evaluate
from circlekit.ir.dtypes import f32
from circlekit.ir.enums import Activation
from circlekit.ir.graph import Graph, Model
from circlekit.ir.op import Op
from circlekit.ir.quantization_rule import OWN_RANGES
from circlekit.ir.value import Array, Value
from circlekit.ops.arithmetic.binary import Minimum
from circlekit.ops.arithmetic.cast import Dequantize, FakeQuant, Quantize
from circlekit.ops.quantized_values import followed_operand, is_quantized
from circlekit.quant.fake.operator_grids import Grid, grid_of, grids_of_user, stored_grid
from circlekit.quant.parameters import along_axis
from circlekit.quant.plan import TensorForm
from circlekit.quant.weights import is_computed_float, present_operand

Grids = dict[str, TensorForm]
"""The forms of the tensors that have a grid, by name of the tensor."""


def take_grids(model: Model) -> list[Grids]:
    """Remove the rounding operators of ``model`` in place; return the grids of each graph.

    The rounded tensor gets the form of the grid.  In four cases a MINIMUM with the largest number of the
    grid replaces the rounding operator.  The result of the MINIMUM is a tensor of its own, which gets the
    form of the grid:

    - The dtype of the form has integers above the grid.  The MINIMUM clips them.
    - The tensor already has another form, or its producer cannot produce the form of the grid.
    - Passes might remove the producer of the tensor, and with it the rounding.
    - The tensor is also used without this rounding, so it may get another form (``without_clipping``).

    A rounding operator stays if no int8 or int16 form has its grid, or if it rounds a computed tensor to
    several scales.  ``_take_one``, ``_rounded_constant`` and ``_bypass`` name rare cases in which it stays.
    """
    return [_take_from_graph(graph) for graph in model.graphs]


def _take_from_graph(graph: Graph) -> Grids:
    """Remove the rounding operators of ``graph``; return its grids."""
    grids: Grids = {}
    mixed = {value for value in graph.values() if _is_mixed(graph, value)}
    for op in list(graph):
        if isinstance(op, FakeQuant):
            _take_one(graph, op, op, grid_of(op), grids, mixed)
        elif isinstance(op, Dequantize):
            source = op.input.producer
            first = source if isinstance(source, Quantize) and source.input.dtype is f32 else op
            _take_one(graph, first, op, stored_grid(op.input), grids, mixed)
        elif isinstance(op, Quantize) and is_computed_float(op.input) and not grids_of_user(op):
            _take_stored(op, grids)
    return grids


def _take_stored(op: Quantize, grids: Grids) -> None:
    """Give the operand of the QUANTIZE ``op`` the form of the result, if the operand can have it.

    Integer operators read the result of ``op``.  So ``op`` stays, and changes nothing if the operand gets
    this form.  Other users of the operand read numbers that are not rounded.
    """
    grid = stored_grid(op.output)
    if grid is None or len(grid.form.scale) > 1 or grid.last < grid.form.dtype.limits[1]:
        return
    if op.input.name not in grids and _can_have(op.input, grid.form, grids):
        _give_form(op.input, replace(grid.form, rounds=False), grids)


def _is_mixed(graph: Graph, value: Value) -> bool:
    """Return whether ``value`` is rounded to a grid, and also used without rounding or in another grid."""
    grids = [grid for user in value.users for grid in grids_of_user(user) or [None]]
    forms = [grid.form for grid in grids if grid is not None]
    if not forms:
        return False
    is_same = all(form.same_as(forms[0]) for form in forms)
    return len(forms) < len(grids) or not is_same or graph.is_output(value)


def _take_one(
    graph: Graph, first: Op, last: Op, grid: Grid | None, grids: Grids, mixed: Collection[Value]
) -> None:
    """Remove the operators ``first`` and ``last``, which round a tensor, and add the grid to ``grids``.

    ``first`` and ``last`` are QUANTIZE and DEQUANTIZE, or twice the same operator: a FAKE_QUANT, or a
    DEQUANTIZE of integers that no QUANTIZE of floats made.  ``grid``: None if no int8 or int16 form has the
    grid.  ``mixed``: the tensors that are also used without this rounding.  Their ``TensorForm.rounds`` is
    False, so operators that stay float read numbers without rounding.  The docstring of ``take_grids`` lists
    the cases in which a MINIMUM is inserted.
    """
    source, rounded = first.inputs[0], last.output
    if grid is None or source is None:
        return
    if len(grid.form.scale) > 1 and not source.is_const:  # activations have one scale
        return
    if source.is_const:
        constant = _rounded_constant(graph, first, last)
        if constant is None:
            return
        grids[constant.name] = _with_zero_at_zero(grid.form, constant.array())
        graph.replace_uses(rounded, constant)
    elif isinstance(first, Dequantize):
        grids[rounded.name] = grid.form  # its operand is an integer tensor, so the DEQUANTIZE stays
        return
    elif _has_other_form(source, grid.form, grids) or not _can_have(source, grid.form, grids):
        _insert_minimum(graph, source, last, grid, grids)
    elif source in mixed:
        _give_form(source, replace(grid.form, rounds=False), grids)
        _insert_minimum(graph, source, last, grid, grids)
    elif grid.last < grid.form.dtype.limits[1] or _may_vanish(source, grid.form, grids):
        _give_form(source, grid.form, grids)
        _insert_minimum(graph, source, last, grid, grids)
    else:
        _give_form(source, grid.form, grids)
        _bypass(graph, source, rounded, grids)
    for op in dict.fromkeys((last, first)):  # ``last`` first: it reads the result of ``first``
        if op.graph is graph and not any(v.use_count or graph.is_output(v) for v in op.results):
            graph.remove(op)


def _with_zero_at_zero(form: TensorForm, numbers: Array) -> TensorForm:
    """Return ``form`` with zero points of 0 if it can then still store ``numbers``, else ``form`` itself.

    Kernels need zero points of 0 for weights.
    """
    steps = np.rint(numbers / along_axis(form.scales, form.axis, numbers.ndim))
    low, high = form.dtype.limits
    fits = ((steps >= low) & (steps <= high)).all()
    return replace(form, zero_point=(0,) * len(form.scale)) if fits else form


def _can_have(value: Value, form: TensorForm, grids: Grids) -> bool:
    """Return whether the quantized producer of ``value`` can produce ``form``.

    A graph input can have any form, and so can the result of a producer without a quantization rule.  Any
    other producer cannot produce ``form`` in these cases:

    - Its rule allows only another form.
    - Its rule allows only the zero point 0, and ``form`` has another zero point.
    - Its 8-bit kernel is too coarse to be used (``rounds_inside``).
    - Its result must have the form of an operand, and the operand has another form.
    - Its result must have the form of an operand that has no form yet and cannot get ``form``: the operand is
      constant or has another user, the producer computes means, or the operand's own producer cannot produce
      ``form``.

    The last two cases have an exception: a producer that pads (``operands_follow``) or clips by a fused
    activation, and computes no means.  It can produce ``form``, because a QUANTIZE can convert its operand.
    """
    while (op := value.producer) is not None and (rule := op.quantization_rule) is not None:
        if rule.rounds_inside or (rule.symmetric and any(form.zero_point)):
            return False
        if form.dtype in rule.fixed:
            scale, zero_point = rule.fixed[form.dtype]
            return form.scale == (scale,) and form.zero_point == (zero_point,)
        followed = followed_operand(op)
        if followed is None:
            return True
        if not rule.averages and (
            rule.operands_follow or getattr(op, "act", Activation.NONE) is not Activation.NONE
        ):
            return True
        known = grids.get(followed.name)
        if known is not None:
            return known.same_as(form)
        # with another user, the operand may need another form
        if followed.use_count != 1 or followed.is_const or rule.averages:
            return False
        value = followed
    return True


def _has_other_form(value: Value, form: TensorForm, grids: Grids) -> bool:
    """Return whether ``value`` already has a form that differs from ``form``."""
    return value.name in grids and not grids[value.name].same_as(form)


def _may_vanish(value: Value, form: TensorForm, grids: Grids) -> bool:
    """Return whether passes might remove the producer of ``value``, and with it the rounding to ``form``.

    Passes remove an ADD of 0, for example; the rounding is then lost if the operand has another form.
    """
    op = value.producer
    if op is None or (op.quantization_rule or OWN_RANGES).weights:  # layers with weights stay
        return False
    floats = list(filter(is_computed_float, op.inputs))
    return len(floats) == 1 and _has_other_form(floats[0], form, grids)


def _give_form(value: Value, form: TensorForm, grids: Grids) -> None:
    """Enter ``form`` in ``grids`` for ``value``.

    If the producer passes on the form of an operand (``followed_operand``), this operand gets ``form``, too,
    where that is possible.
    """
    while True:
        grids[value.name] = form
        followed = None if value.producer is None else followed_operand(value.producer)
        if followed is None or followed.name in grids or followed.use_count != 1:
            return
        if followed.is_const or not _can_have(followed, form, grids):
            return
        value = followed


def _insert_minimum(graph: Graph, source: Value, last: Op, grid: Grid, grids: Grids) -> None:
    """Let a MINIMUM of ``source`` and the largest number of ``grid`` produce the result of ``last``.

    The result gets the form of the grid.  If ``source`` has another form, quantization inserts a QUANTIZE
    before the MINIMUM.  The constant gets the form, too: passes may move the MINIMUM and rename its result,
    and ``given_forms.with_followed`` then finds the form by the constant.
    """
    name = last.output.name
    bound = Value.constant(graph.unique_name(f"{name}/highest"), np.array(grid.highest, np.float32))
    clipped = graph.insert_before(last, Minimum(source, bound))
    clipped.take_result(0, last.output)
    grids[name] = grids[bound.name] = grid.form


def remove_idle_bounds(model: Model) -> None:
    """Remove from a quantized model the MINIMUMs whose constant is the largest integer: they clip nothing.

    ``take_grids`` inserted them so that a tensor could get a second form.  A MINIMUM stays if its result is a
    graph output, or if its result and its operand have different shapes.
    """
    for graph in model.graphs:
        for op in [op for op in graph if isinstance(op, Minimum)]:
            source, bound = op.inputs
            if source is None or bound is None or not bound.is_const or not is_quantized(source):
                continue
            is_idle = (bound.array() == source.dtype.limits[1]).all() and source.shape == op.output.shape
            if is_idle and not graph.is_output(op.output):
                graph.replace_uses(op.output, source)
                graph.remove(op)


def _bypass(graph: Graph, source: Value, rounded: Value, grids: Grids) -> None:
    """Let the users of ``rounded`` read ``source``.

    If ``rounded`` is a graph output, ``rounded`` takes the place of ``source`` instead, so that the output
    keeps its name.  If ``source`` is also an output or an input, that is impossible, and nothing changes.
    """
    if graph.is_output(rounded) and source.producer is not None and not graph.is_output(source):
        grids[rounded.name] = grids.pop(source.name)
        graph.replace_uses(source, rounded)
        source.producer.take_result(source.result_index, rounded)
    elif not graph.is_output(rounded):
        graph.replace_uses(rounded, source)


def _rounded_constant(graph: Graph, first: Op, last: Op) -> Value | None:
    """Return a new constant with the rounded numbers of the constant operand of ``first``.

    ``first``, ``last``: the operators that round the constant.  Return None if an operator cannot be
    computed, if the constant is sparse or compressed, or if the rounded tensor is a graph output.
    """
    source = present_operand(first, 0)
    if not source.is_plain or graph.is_output(last.output):
        return None
    try:
        results = [source.array()]
        for op in dict.fromkeys((first, last)):
            results = evaluate(op, results)
    except CirclekitError:
        return None
    return Value.constant(graph.unique_name(f"{source.name}/rounded"), results[0])
