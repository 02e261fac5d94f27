# SPDX-License-Identifier: Apache-2.0
"""Work with given forms: forms that tensors had before planning, for example in training.

``quant.fake.grids`` finds them.
The numbers that a form can store are its grid.  A model may be trained with fewer bits than the dtype has,
for example 4 bits stored as int8.  The form then stands for a larger grid than the trained one.  To limit
the tensor to the trained grid, ``quant.fake.grids`` inserts a MINIMUM with a constant after the tensor.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from circlekit.ir.dtypes import DType, f32, i8, u8
from circlekit.ir.graph import Graph
from circlekit.ir.op import Op
from circlekit.ir.quantization_rule import OWN_RANGES
from circlekit.ir.value import Array, Value
from circlekit.ops.arithmetic.binary import Minimum
from circlekit.ops.elementwise import Unary
from circlekit.ops.quantized_values import followed_operand
from circlekit.quant.parameters import along_axis
from circlekit.quant.plan import TensorForm
from circlekit.quant.scheme import Scheme
from circlekit.quant.weights import is_float

BETWEEN_INT8_AND_UINT8 = {(i8, u8): 128, (u8, i8): -128}
"""For each pair of dtypes, the number to add to an integer of the first dtype.

The sum is the integer of the second dtype that stands for the same real number.
"""


def given_form(form: TensorForm | None, dtype: DType | None) -> TensorForm | None:
    """Return ``form`` converted to ``dtype``, so that its integers stand for the same real numbers.

    int8 and uint8 can be converted to each other; a form that already has ``dtype`` is returned unchanged.
    Return None for all other pairs of dtypes, and if one of the arguments is None.
    """
    if form is None or dtype is None:
        return None
    if form.dtype is dtype:
        return form
    shift = BETWEEN_INT8_AND_UINT8.get((form.dtype, dtype))
    if shift is None:
        return None
    return replace(form, dtype=dtype, zero_point=tuple(z + shift for z in form.zero_point))


def fits_activations(form: TensorForm | None, scheme: Scheme) -> bool:
    """Return whether an activation of ``scheme`` may have this form.

    It must have one scale, and the zero point 0 unless the scheme is asymmetric.  False for None.
    """
    return form is not None and len(form.scale) == 1 and (scheme.asymmetric or not any(form.zero_point))


def fits_weights(form: TensorForm | None, scheme: Scheme, axis: int | None) -> bool:
    """Return whether weights of ``scheme``, with channels along ``axis``, may have this form.

    Zero points must be 0 unless weights are uint8.  A form with several scales must have them along ``axis``,
    and the scheme must have a scale for each channel.  False for None, and for a scheme with blocks.
    """
    if form is None or scheme.block:
        return False
    if len(form.scale) > 1 and not (scheme.per_channel and form.axis == axis):
        return False
    return scheme.weights is u8 or not any(form.zero_point)


def finer_form(form: TensorForm, numbers: Array, step: float) -> TensorForm:
    """Return ``form`` with scales that are divided by a power of 2 so that they are at most ``step``.

    The purpose is a finer scale of the bias, which is computed from the scale of the weights.
    ``numbers``: the weights, which are on the grid of ``form``.  The finer grid includes the grid of
    ``form``, so the weights keep their numbers.  The zero points stay.
    The scales are divided only as far as the integers fit the dtype.  A form that was not used in training
    (``rounds`` is False) is returned unchanged.
    """
    if not form.rounds:
        return form
    scales, zeros = (along_axis(part, form.axis, numbers.ndim) for part in (form.scales, form.zero_points))
    steps = np.rint(numbers / scales)
    high = form.dtype.limits[1]
    low = max(form.dtype.limits[0] + form.narrow, -high)  # weights do not use -128
    factor = 1
    while max(form.scale) / factor > step and 2 * factor <= high:
        stored = 2 * factor * steps + zeros
        if stored.min(initial=high) < low or stored.max(initial=low) > high:
            break
        factor *= 2
    return replace(form, scale=tuple(scale / factor for scale in form.scale))


def wanted_step(value: Value, given: Mapping[str, TensorForm]) -> float | None:
    """Return the scale of the form to which ``value`` will be rounded; None if it will not be rounded.

    The form is the given form of ``value``.  If there is none, the form is that of a result of an operator
    that reads ``value`` without requantizing it, such as RESHAPE; of several such results, the one with the
    smallest scale counts.  If a result has no given form, its own users are examined in the same way.
    ``given``: the given forms by name of the tensor.
    """
    steps, found = [], [value]
    seen = {value}
    for moved in found:  # grows in the loop
        if moved.name in given:
            steps.append(given[moved.name].scale[0])
            continue
        for user in moved.users:
            rule = user.quantization_rule or OWN_RANGES
            if rule.results_follow or rule.operands_follow:
                found += [result for result in user.results if result not in seen]
                seen.update(user.results)
    return min(steps, default=None)


def covered_range(form: TensorForm) -> tuple[float, float]:
    """Return the lowest and the highest real number that ``form`` can store, over all channels."""
    low, high = form.dtype.limits
    pairs = list(zip(form.scale, form.zero_point, strict=True))
    return min(s * (low - z) for s, z in pairs), max(s * (high - z) for s, z in pairs)


def without_clipping(
    given: Mapping[str, TensorForm], ranges: Mapping[str, tuple[float, float]]
) -> dict[str, TensorForm]:
    """Return the forms ``given`` without those that would clip numbers which some users read.

    These are forms of tensors that not all users read in this form (``TensorForm.rounds`` is False), and
    whose observed range is more than one step wider than the form.  ``ranges``: (min, max) by name of the
    tensor.
    """
    kept = {}
    for name, form in given.items():
        low, high = covered_range(form)
        least, most = ranges.get(name, (low, high))
        step = max(form.scale)
        if form.rounds or (least >= low - step and most <= high + step):
            kept[name] = form
    return kept


def with_followed(graph: Graph, given: Mapping[str, TensorForm]) -> dict[str, TensorForm]:
    """Return the forms ``given`` and the forms that follow from them, by name of the tensor.

    Such forms are needed because passes change the model after the forms were found.  For example, if a pass
    moves a MINIMUM before a RESHAPE, the result of the MINIMUM gets a new name, which has no given form.
    These forms follow:

    - The result of a MINIMUM gets the given form of its constant.
    - The operand of an operator that only moves elements gets the form of the result, unless other operators
      read the operand, too.
    - The result of an elementwise function such as RELU gets the form of the operand if the function maps
      every number of this form to a number of this form.  So does the result of an operator that only moves
      elements of its operand.
    """
    forms = dict(given)
    for op in graph if given else ():
        bound = op.inputs[1] if isinstance(op, Minimum) else None
        if bound is not None and bound.is_const and bound.name in given:
            forms.setdefault(op.output.name, given[bound.name])
        numbers = [v for v in op.inputs if v is not None and v.dtype is f32]
        form = forms.get(numbers[0].name) if len(numbers) == 1 else None
        moves = op.data_movement and numbers == [followed_operand(op)]
        if form is not None and (moves or (isinstance(op, Unary) and _is_in_grid(op, form))):
            forms.update((v.name, form) for v in op.results if v.dtype is f32 and v.name not in forms)
    for op in reversed(list(graph) if given else []):
        source = followed_operand(op)
        if source is not None and op.data_movement and source.use_count == 1:
            form = forms.get(op.results[0].name)
            if form is not None:
                forms.setdefault(source.name, form)
    return forms


def _is_in_grid(op: Unary, form: TensorForm) -> bool:
    """Return whether ``op`` maps every number that ``form`` can store to such a number.

    For simplicity, return False for forms of more than 8 bits or with several scales.
    """
    if len(form.scale) != 1 or form.dtype.bits > 8:
        return False
    low, high = form.dtype.limits
    numbers = form.scale[0] * (np.arange(low, high + 1) - form.zero_point[0])
    with np.errstate(all="ignore"):
        steps = op.kernel(numbers.astype(np.float32)) / form.scale[0] + form.zero_point[0]
        nearest = np.rint(steps)  # differences below 1e-3 are errors of float arithmetic
        return bool(np.all((np.abs(steps - nearest) < 1e-3) & (low <= nearest) & (nearest <= high)))


def given_ranges(
    graph: Graph, given: Mapping[str, TensorForm], observed: Mapping[str, tuple[float, float]]
) -> dict[str, tuple[float, float]]:
    """Return (min, max) by name of the tensor: the range that each form in ``given`` covers.

    A form of more than 8 bits may cover a much wider range than the numbers need.  If 8 bits had to cover
    that range, the steps would be too coarse.  So the range of such a form ends where the observed range
    ends.  ``observed``: (min, max) by name of the tensor.
    The range of the result of a MINIMUM that limits a tensor to its grid ends at the MINIMUM's constant.
    """
    ranges = {name: covered_range(form) for name, form in given.items()}
    for name in ranges.keys() & observed.keys():
        if given[name].dtype.bits > 8:
            ends = *ranges[name], *observed[name]
            ranges[name] = max(ends[0], min(ends[1], ends[2])), min(ends[1], max(ends[0], ends[3]))
    for op in graph if given else ():
        bound = op.inputs[1] if isinstance(op, Minimum) else None
        if bound is not None and bound.is_const and bound.name in given and op.output.name in given:
            low, high = ranges[op.output.name]
            ranges[op.output.name] = low, min(high, float(bound.array().max()))
    return ranges


def finer_activation(form: TensorForm, low: float, high: float) -> TensorForm | None:
    """Return ``form`` with a smaller scale and a zero point with which it still covers ``low`` to ``high``.

    ``low``, ``high``: numbers that ``form`` can store.  The new form covers 0, too, so that its zero point
    fits the dtype.  ``form`` has one scale.  The scale is divided by the largest possible power of 2, so the
    new form can store every number of ``form`` from ``low`` to ``high``.  Return None if both ends are 0, or
    if the dtype cannot cover them with half the scale.
    """
    low, high = min(low, 0.0), max(high, 0.0)
    if low == high:
        return None
    least, greatest = form.dtype.limits
    factor = 1
    while 2 * factor * (high - low) / form.scale[0] <= greatest - least:
        factor *= 2
    if factor == 1:
        return None
    first = round(factor * low / form.scale[0])  # ``low`` becomes the lowest integer
    return replace(form, scale=(form.scale[0] / factor,), zero_point=(least - first,))


def add_ranges(graph: Graph, ranges: dict[str, tuple[float, float]]) -> None:
    """Add to ``ranges``, (min, max) by name of the tensor, the ranges that follow from them.

    Only tensors without a range get one:

    - The result of data movement gets the union of the operands' ranges.
    - The result of an elementwise function of one tensor gets the range of the function's values for 256
      equally spaced numbers of the operand's range.
    - A tensor that only a MINIMUM reads gets the range of the MINIMUM's result.
    """
    for op in graph:
        if all(value.name in ranges for value in op.results):
            continue
        ends = range_of_operands(op, ranges)
        if ends is None:
            continue
        low, high = ends
        if isinstance(op, Unary):
            with np.errstate(all="ignore"):
                results = op.kernel(np.linspace(low, high, 256, dtype=np.float32))
            low, high = float(results.min()), float(results.max())
        elif not op.data_movement:
            continue
        if np.isfinite([low, high]).all():
            for value in op.results:
                ranges.setdefault(value.name, (low, high))
    for op in graph:
        source = op.inputs[0] if isinstance(op, Minimum) else None
        if source is not None and source.use_count == 1 and op.output.name in ranges:
            ranges.setdefault(source.name, ranges[op.output.name])


def range_of_operands(op: Op, ranges: Mapping[str, tuple[float, float]]) -> tuple[float, float] | None:
    """Return the union of the ranges of the float operands of ``op``; empty constants do not count.

    Return None if there are no such operands, or if the range of at least one is unknown.
    """
    found = [_range(v, ranges) for v in op.inputs if is_float(v) and not (v.is_const and v.numel == 0)]
    known = [ends for ends in found if ends is not None]
    if not known or len(known) < len(found):
        return None
    return min(ends[0] for ends in known), max(ends[1] for ends in known)


def _range(value: Value, ranges: Mapping[str, tuple[float, float]]) -> tuple[float, float] | None:
    """Return the range (min, max) of ``value``; None if it is unknown.

    The range of a plain constant is that of its finite numbers.  All others are in ``ranges``.
    """
    if value.is_plain:
        numbers = value.array()[np.isfinite(value.array())]
        return (float(numbers.min()), float(numbers.max())) if numbers.size else None
    return ranges.get(value.name)
