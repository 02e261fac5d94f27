# SPDX-License-Identifier: Apache-2.0
"""Ask a target whether it runs an operator in the forms that a plan gives to its tensors."""

from __future__ import annotations

from collections.abc import Mapping

from circlekit.ir.op import Op
from circlekit.ir.value import Value
from circlekit.quant.plan import TensorPlan
from circlekit.targets.target import Target


def trial_refusal(
    op: Op,
    operands: Mapping[int, TensorPlan],
    results: Mapping[int, TensorPlan],
    attributes: Mapping[str, object],
    target: Target,
) -> str | None:
    """Return why ``target`` cannot run ``op`` with operands and results of these forms; None if it can.

    ``operands``, ``results``: forms by index.  ``attributes``: those that ``op`` gets when it is quantized.
    A target whose table lists no forms of the operator counts as one that cannot.
    """
    entry = target.operators.get(op.code)
    if entry is not None and entry["forms"] == "any":
        return f"no integer kernel of {op.code} is known in {target.title}"
    return target.refusal(planned_op(op, operands, results, attributes))


def planned_op(
    op: Op,
    operands: Mapping[int, TensorPlan],
    results: Mapping[int, TensorPlan],
    attributes: Mapping[str, object],
) -> Op:
    """Return a copy of ``op``, in no graph, with operands and results of these forms (``trial_refusal``)."""
    inputs = [v and _planned(v, operands.get(i)) for i, v in enumerate(op.inputs)]
    outputs = [_planned(v, results.get(i)) for i, v in enumerate(op.results)]
    return type(op)(*inputs, results=outputs, **{**op.attribute_values, **attributes})


def _planned(value: Value, plan: TensorPlan | None) -> Value:
    """Return a copy of ``value`` with the dtype and the quantization of the plan, but the same data."""
    dtype, quantization = value.dtype, value.quantization
    if plan is not None:
        dtype, quantization = plan.dtype, plan.quantization(value.name)
    copy = Value(value.name, dtype, value.shape, value.data, quantization)
    copy.extra = value.extra
    return copy
