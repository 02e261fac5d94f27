# SPDX-License-Identifier: Apache-2.0
"""Copy an operator with the dtypes, scales and attributes of a plan; ask whether a target runs the copy."""

from __future__ import annotations

from collections.abc import Mapping

from circlekit.ir.clone import copy_op
from circlekit.ir.dtypes import f32
from circlekit.ir.op import Op
from circlekit.ir.value import Value
from circlekit.ops.arithmetic.cast import Quantize
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

    ``operands``, ``results``, ``attributes``: see ``planned_op``.  If the target's table has the word ``any``
    in place of the dtypes of ``op``, the table says nothing about integer kernels.  Then the sentence says
    that no integer kernel of ``op`` is known.
    """
    entry = target.operators.get(op.code)
    if entry is not None and entry["forms"] == "any":
        return f"no integer kernel of {op.code} is known in {target.title}"
    return target.refusal(planned_op(op, operands, results, attributes))


def conversion_refusal(before: TensorForm, after: TensorForm, target: Target) -> str | None:
    """Return a sentence that says that ``target`` has no QUANTIZE from ``before`` to ``after``.

    Return None if the target has it, or if the forms are the same, because no QUANTIZE is needed then.
    """
    if before.same_as(after):
        return None
    convert = Quantize(Value("", f32, ()), results=[Value("", f32, ())])
    return target_refusal(convert, {0: before}, {0: after}, {}, target)


def planned_op(
    op: Op,
    operands: Mapping[int, TensorForm],
    results: Mapping[int, TensorForm],
    attributes: Mapping[str, object],
) -> Op:
    """Return a copy of ``op`` with the dtypes, scales and attributes of a plan; the copy is in no graph.

    ``operands``, ``results``: the planned forms, by index; operands and results without a planned form stay
    as they are.  ``attributes``: the attributes that a plan sets (``QuantizationRule.attributes``).
    The data of constants is not converted.  So a graph with the copy cannot be run.  The copy shows what a
    target must know: dtypes, quantization and attributes.  ``evaluate`` can run it on converted arrays.
    """
    inputs = [v and _planned(v, operands.get(i)) for i, v in enumerate(op.inputs)]
    outputs = [_planned(v, results.get(i)) for i, v in enumerate(op.results)]
    planned = copy_op(op, inputs, outputs)
    planned.version = None  # that of the file may lack the planned dtypes
    planned.attribute_values = {**op.attribute_values, **attributes}
    return planned


def _planned(value: Value, form: TensorForm | None) -> Value:
    """Return a copy of ``value`` with the dtype and the quantization of ``form``, but the same data.

    If ``form`` is None, the copy has the dtype and the quantization of ``value``.
    """
    dtype, quantization = value.dtype, value.quantization
    if form is not None:
        dtype, quantization = form.dtype, form.quantization(value.name)
    copy = Value(value.name, dtype, value.shape, value.data, quantization)
    copy.extra = value.extra
    return copy
