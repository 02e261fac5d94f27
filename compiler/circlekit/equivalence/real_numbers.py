# SPDX-License-Identifier: Apache-2.0
"""Convert between quantized values and real numbers, to compare a float model with its quantized form."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from circlekit.ir.graph import Model
from circlekit.ir.value import Array, Value
from circlekit.ops.arithmetic.cast import saturated
from circlekit.ops.quantized_values import is_quantized, per_tensor_quantization, zero_point_of


def real_numbers(value: Value, array: Array) -> Array:
    """Return as float64 the real numbers that ``array`` stands for; ``array`` has the elements of ``value``.

    Elements are dequantized if ``value`` has an integer dtype and one scale; otherwise, they are only
    converted to float64.  Complex numbers and strings are returned unchanged.
    """
    form = per_tensor_quantization(value)
    if form is None or not is_quantized(value):
        return array.astype(np.float64) if array.dtype.kind in "fiub" else array
    return (array.astype(np.float64) - zero_point_of(value)) * float(form.scale[0])


def stored_numbers(value: Value, numbers: Array) -> Array:
    """Return ``numbers`` as elements of ``value``, in its dtype.

    If ``value`` has an integer dtype and one scale, the numbers are quantized, that is, divided by the scale,
    rounded to nearest, and moved by the zero point.  For an integer dtype with no scale or several, fractions
    are cut off.  Floats beyond the range of an integer dtype become the nearest limit; NaN becomes the
    highest integer.  The dtype must be one that numpy has.
    """
    form, dtype = per_tensor_quantization(value), value.dtype.numpy
    if form is not None and is_quantized(value):
        numbers = np.rint(numbers / float(form.scale[0])) + zero_point_of(value)
    if dtype is not None and dtype.kind in "iu" and numbers.dtype.kind == "f":
        return saturated(numbers, dtype)
    with np.errstate(over="ignore"):  # a number may exceed float16
        return numbers.astype(dtype)


def inputs_for(
    model: Model, other: Model, inputs: Sequence[Array] | Mapping[str, Array]
) -> Sequence[Array] | Mapping[str, Array] | None:
    """Convert ``inputs``, which are inputs of ``other``, to the types of the inputs of ``model``.

    "Type" means here dtype, scale and zero point.  If the types are equal, ``inputs`` is returned unchanged.
    Return None if the inputs of the models differ in names or ranks, or if both types and shapes differ.
    """
    theirs, own = other.main.inputs, model.main.inputs
    if [(v.name, v.rank) for v in theirs] != [(v.name, v.rank) for v in own]:
        return None
    if have_equal_types(theirs, own):
        return inputs
    if [v.shape for v in theirs] != [v.shape for v in own]:
        return None
    arrays = [inputs[v.name] for v in theirs] if isinstance(inputs, Mapping) else inputs
    return [stored_numbers(b, real_numbers(a, x)) for a, b, x in zip(theirs, own, arrays, strict=True)]


def have_equal_types(first: Sequence[Value], second: Sequence[Value]) -> bool:
    """Return whether the values have equal dtypes, scales and zero points, pair by pair.

    Several scales count as no scale: a value with several scales equals any value of the same dtype that does
    not have exactly one scale.
    """
    return list(map(_form, first)) == list(map(_form, second))


def _form(value: Value) -> tuple[object, ...]:
    """Return (dtype, scale, zero point), or (dtype,) if ``value`` is not quantized with one scale."""
    form = per_tensor_quantization(value)
    if form is None or not is_quantized(value):
        return (value.dtype,)
    return value.dtype, float(form.scale[0]), zero_point_of(value)
