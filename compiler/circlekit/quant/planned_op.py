# SPDX-License-Identifier: Apache-2.0
"""Copy an operator with the dtypes, scales and attributes of a plan; ask whether a target runs the copy."""

from __future__ import annotations

from collections.abc import Mapping

from circlekit.ir.op import Op
from circlekit.ir.value import Value
from circlekit.quant.plan import TensorForm
from circlekit.targets.target import Target


def target_refusal(
    op: Op,
    operands: Mapping[int, TensorForm],
    results: Mapping[int, TensorForm],
    attributes: Mapping[str, object],
    target: Target,
) -> str | None:
    """Return a sentence that says why ``target`` cannot run ``op`` as planned; None if it can.

    The other arguments: see ``planned_op``.  If the target's table lists ``op`` with the word ``any`` in
    place of dtypes, no integer kernel of ``op`` is known, and the sentence says so.
    """
    entry = target.operators.get(op.code)
    if entry is not None and entry["forms"] == "any":
        return f"no integer kernel of {op.code} is known in {target.title}"
    return target.refusal(planned_op(op, operands, results, attributes))


def planned_op(
    op: Op,
    operands: Mapping[int, TensorForm],
    results: Mapping[int, TensorForm],
    attributes: Mapping[str, object],
) -> Op:
    """Return a copy of ``op`` with the dtypes, scales and attributes of a plan; the copy is in no graph.

    ``operands``, ``results``: the planned forms of operands and results, by index; the others stay as they
    are.  ``attributes``: the attributes that a plan sets (``QuantizationRule.attributes``).
    The data of constants is not converted: only dtypes, quantization and attributes of the copy are right.
    """
    inputs = [v and _planned(v, operands.get(i)) for i, v in enumerate(op.inputs)]
    outputs = [_planned(v, results.get(i)) for i, v in enumerate(op.results)]
    return type(op)(*inputs, results=outputs, **{**op.attribute_values, **attributes})


def _planned(value: Value, form: TensorForm | None) -> Value:
    """Return a copy of ``value`` with the dtype and the quantization of ``form``, but the same data."""
    dtype, quantization = value.dtype, value.quantization
    if form is not None:
        dtype, quantization = form.dtype, form.quantization(value.name)
    copy = Value(value.name, dtype, value.shape, value.data, quantization)
    copy.extra = value.extra
    return copy
