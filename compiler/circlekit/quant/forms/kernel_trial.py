# SPDX-License-Identifier: Apache-2.0
"""Run a planned integer kernel and the float one on the same numbers, to see how far they differ."""

from __future__ import annotations

import zlib
from collections.abc import Mapping

import numpy as np

from circlekit.errors import CirclekitError
from circlekit.interp.evaluate import evaluate
from circlekit.ir.dtypes import boolean, f32
from circlekit.ir.op import Op
from circlekit.ir.value import Array, Value
from circlekit.quant.apply import real_data, stored_data
from circlekit.quant.forms.given_forms import covered_range
from circlekit.quant.plan import TensorForm
from circlekit.quant.planned_op import planned_op

SEED = 17
"""This number and an operand's name are the seed of its random numbers, so every run has the same ones."""

Forms = Mapping[int, TensorForm]
"""Forms of operands or results by index."""


def kernel_errors(
    op: Op,
    operands: Forms,
    results: Forms,
    attributes: Mapping[str, object],
    given: Mapping[str, TensorForm],
    ranges: Mapping[str, tuple[float, float]],
) -> list[float]:
    """Return for each result the largest difference of the integer kernel of ``op`` from the float kernel.

    Both kernels run on random numbers, and then on zeros.  With zeros, the result of a layer is its bias, so
    an error of the bias shows.  Random numbers are rounded to the operand's given form or, without one, to
    its planned form.
    ``operands``, ``results``: the planned forms of float32 operands and results, by index.
    ``attributes``: those that the plan sets.
    ``given``: the forms that tensors had before planning, for example in training, by name of the tensor.
    ``ranges``: (min, max) of tensors, by name.
    The difference of a result without a form (the bool of a comparison) is infinite if an element differs.
    The list is empty if the kernels cannot be run alone, for example because a shape is unknown, or because
    an operand holds computed integers.
    """
    planned = planned_op(op, operands, results, attributes)
    worst = [0.0] * len(op.results)
    for share in (1.0, 0.0):
        pairs = [_numbers(v, operands.get(i), given, ranges, share) for i, v in enumerate(op.inputs)]
        if any(pair is None for pair in pairs):
            return []
        floats, integers = zip(*(pair for pair in pairs if pair is not None), strict=True)
        try:
            expected, actual = evaluate(op, floats), evaluate(planned, integers)
        except CirclekitError:
            return []
        for index, (reference, result) in enumerate(zip(expected, actual, strict=True)):
            worst[index] = max(worst[index], _difference(reference, result, results.get(index)))
    return worst


def _numbers(
    value: Value | None,
    form: TensorForm | None,
    given: Mapping[str, TensorForm],
    ranges: Mapping[str, tuple[float, float]],
    share: float,
) -> tuple[Array | None, Array | None] | None:
    """Return (numbers for the operand ``value``, the same numbers as integers of ``form``).

    Both are None for an absent operand, and both are the stored data for a constant without a form.  Numbers
    for an activation are uniformly distributed over ``share`` times its range; they are zeros if ``share`` is
    0.  Bools are random for any ``share``.  Return None if no numbers can be made.
    """
    if value is None:
        return None, None
    if value.is_const:
        if not value.is_plain:
            return None
        data = value.array()
        return data, data if form is None else stored_data(data, form)
    if value.shape is None or None in value.shape:
        return None
    random = np.random.default_rng([SEED, zlib.crc32(value.name.encode())])
    if value.dtype is boolean:
        chosen = random.integers(2, size=value.static_shape).astype(bool)
        return chosen, chosen
    if value.dtype is not f32 or form is None:
        return None
    low, high = ranges.get(value.name, covered_range(form))
    numbers = random.uniform(share * low, share * high, value.static_shape).astype(np.float32)
    grid = given.get(value.name, form)
    numbers = real_data(stored_data(numbers, grid), grid)
    return numbers, stored_data(numbers, form)


def _difference(reference: Array, result: Array, form: TensorForm | None) -> float:
    """Return the largest difference of ``result``, integers of ``form``, from the floats ``reference``.

    ``reference`` is first clipped to the range that ``form`` covers; elements with NaN in it do not count.
    ``form``: None for a bool.
    """
    if form is None:
        return 0.0 if np.array_equal(reference, result) else np.inf
    low, high = covered_range(form)
    differences = np.abs(real_data(result, form) - np.clip(reference, low, high))
    return float(differences[~np.isnan(reference)].max(initial=0.0))
