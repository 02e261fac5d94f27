# SPDX-License-Identifier: Apache-2.0
"""Given forms of tensors: those that a model was trained with (see ``quant.fake.grids``).

If a grid does not use the largest integers of its dtype, ``quant.fake.grids`` puts a MINIMUM after the
tensor, which keeps its numbers within the grid.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from circlekit.ir.dtypes import DType, f32, i8, u8
from circlekit.ir.graph import Graph
from circlekit.ir.quantization_rule import OWN_RANGES
from circlekit.ir.value import Array, Value
from circlekit.ops.arithmetic.binary import Minimum
from circlekit.ops.elementwise import Unary
from circlekit.ops.quantization import followed_operand
from circlekit.quant.plan import TensorPlan
from circlekit.quant.scheme import Scheme

BETWEEN_INT8_AND_UINT8 = {(i8, u8): 128, (u8, i8): -128}
"""Added to integers of the first dtype it gives those of the second."""


def given_form(form: TensorPlan | None, dtype: DType | None) -> TensorPlan | None:
    """Return ``form`` in ``dtype`` with the same grid, that is, for the same real numbers.

    Return None for dtypes other than int8 and uint8, and if one of the arguments is None.
    """
    if form is None or dtype is None or form.dtype is dtype:
        return form if dtype is not None else None
    shift = BETWEEN_INT8_AND_UINT8.get((form.dtype, dtype))
    if shift is None:
        return None
    return replace(form, dtype=dtype, zero_point=tuple(z + shift for z in form.zero_point))


def fits_activations(form: TensorPlan | None, scheme: Scheme) -> bool:
    """Return whether activations may have this form: one scale, and the zero point 0 unless asymmetric."""
    return form is not None and len(form.scale) == 1 and (scheme.asymmetric or not any(form.zero_point))


def fits_weights(form: TensorPlan | None, scheme: Scheme, axis: int | None) -> bool:
    """Return whether weights may have this form: channels along ``axis``, zero points 0 unless uint8."""
    if form is None or scheme.block:
        return False
    if len(form.scale) > 1 and not (scheme.per_channel and form.axis == axis):
        return False
    return scheme.weights is u8 or not any(form.zero_point)


def finer_form(form: TensorPlan, numbers: Array, step: float) -> TensorPlan:
    """Return ``form`` with scales divided by a power of 2, so that they are at most ``step`` if possible.

    ``numbers``: weights on the grid of ``form``; their integers must still fit the dtype.  It helps grids of
    few bits: the scale of a bias follows from that of the weights, and is too coarse otherwise.
    """
    if not form.rounds:
        return form
    shape = [-1 if i == form.axis else 1 for i in range(numbers.ndim)] if len(form.scale) > 1 else []
    largest = np.abs(np.rint(numbers / form.scales.reshape(shape))).max(initial=1)
    factor = 1.0
    while max(form.scale) / factor > step and 2 * factor * largest <= form.dtype.limits[1]:
        factor *= 2
    return replace(form, scale=tuple(scale / factor for scale in form.scale))


def wanted_step(value: Value, given: Mapping[str, TensorPlan]) -> float | None:
    """Return the least step of the grids to which ``value`` is rounded, also after operators moved it.

    ``given``: the grids by tensor.  None if it is not rounded.
    """
    if value.name in given:
        return given[value.name].scale[0]
    rules = ((user, user.quantization_rule or OWN_RANGES) for user in value.users)
    moved = (v for user, rule in rules if rule.results_follow or rule.operands_follow for v in user.results)
    return min((step for v in moved if (step := wanted_step(v, given)) is not None), default=None)


def covered_range(form: TensorPlan) -> tuple[float, float]:
    """Return the lowest and the highest real number that integers of ``form`` stand for, in any channel."""
    low, high = form.dtype.limits
    pairs = list(zip(form.scale, form.zero_point, strict=True))
    return min(s * (low - z) for s, z in pairs), max(s * (high - z) for s, z in pairs)


def with_followed(graph: Graph, given: Mapping[str, TensorPlan]) -> dict[str, TensorPlan]:
    """Return ``given`` and the forms that follow from them after passes have changed the graph.

    Passes move the MINIMUM that clips to a grid (see ``quant.fake.grids``) before operators that only move
    elements, and name its result anew.  So its result gets the form of its bound, and an operand that is only
    moved gets the form of the result.
    """
    forms = dict(given)
    for op in graph if given else ():
        bound = op.inputs[1] if isinstance(op, Minimum) else None
        if bound is not None and bound.is_const and bound.name in given:
            forms.setdefault(op.output.name, given[bound.name])
    for op in reversed(list(graph) if given else []):
        source = followed_operand(op)
        if source is not None and op.data_movement and source.use_count == 1:
            form = forms.get(op.results[0].name)
            if form is not None:
                forms.setdefault(source.name, form)
    return forms


def add_ranges(graph: Graph, ranges: dict[str, tuple[float, float]]) -> None:
    """Add to ``ranges`` those of results that follow from the ranges of operands.

    A result of moved elements has the range of all operands together.  A function of one tensor is computed
    on 256 equally spaced numbers of the operand's range.  A tensor that only a MINIMUM reads gets the range
    of its result.
    """
    for op in graph:
        if not op.results or op.results[0].name in ranges:
            continue
        known = [_range(value, ranges) for value in op.inputs if value is not None and value.dtype is f32]
        if not known or None in known:
            continue
        low, high = (f(r[i] for r in known if r is not None) for i, f in ((0, min), (1, max)))
        if isinstance(op, Unary):
            with np.errstate(all="ignore"):
                results = op.kernel(np.linspace(low, high, 256, dtype=np.float32))
            low, high = float(results.min()), float(results.max())
        elif not op.data_movement:
            continue
        if np.isfinite([low, high]).all():
            ranges.update({value.name: (low, high) for value in op.results})
    for op in graph:
        source = op.inputs[0] if isinstance(op, Minimum) else None
        if source is not None and source.use_count == 1 and op.output.name in ranges:
            ranges.setdefault(source.name, ranges[op.output.name])


def _range(value: Value, ranges: Mapping[str, tuple[float, float]]) -> tuple[float, float] | None:
    """Return the range of a constant or of a tensor in ``ranges``; None for others."""
    if value.is_const and value.is_plain and value.numel:
        return float(value.array().min()), float(value.array().max())
    return ranges.get(value.name)
