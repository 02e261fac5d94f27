# SPDX-License-Identifier: Apache-2.0
"""The form of an operator: the dtypes and kinds of quantization of operands and results, as a short text.

A runtime chooses the kernel of an operator by its form.  For example, ``f32,-,i8qc:f32`` means: a float
operand, an absent optional operand, an int8 operand quantized per channel, and a float result.  Absent
operands at the end are left out.  The suffixes are ``q`` for one scale, ``qc`` for a scale per channel or a
custom quantization without scales, ``qb`` for a scale per block, ``s`` for sparse data.  ``q`` and ``qc`` are
left out for float, int32 and int64 tensors, because no kernel is chosen by such a scale.  The scale may still
matter, though the form does not show it: QUANTIZE and DEQUANTIZE compute with the scale of an int32 tensor,
and some kernels of LiteRT refuse a bias whose scale is not the scale of the data times the scale of the
weights.
"""

from __future__ import annotations

from circlekit.ir.dtypes import i32, i64
from circlekit.ir.op import Op
from circlekit.ir.value import Value

ABSENT = "-"
"""The text for an absent optional operand."""


def type_text(value: Value | None) -> str:
    """Return the text for the dtype and quantization of an operand or result, such as ``i8qc``.

    Return ABSENT for None.
    """
    if value is None:
        return ABSENT
    sparse = "s" if "sparsity" in value.extra else ""
    quantization = value.quantization
    if quantization is None or (not quantization.scale.size and not quantization.details):
        return value.dtype.short + sparse
    if quantization.is_blockwise:
        return f"{value.dtype.short}qb{sparse}"
    if value.dtype.is_float or value.dtype in (i32, i64):
        return value.dtype.short + sparse
    return f"{value.dtype.short}{'q' if quantization.scale.size == 1 else 'qc'}{sparse}"


def form_of(op: Op) -> str:
    """Return the form of ``op``: the types of its operands and of its results.

    Absent operands at the end are left out.  Equal types in a variadic operand, or in variadic results,
    appear once.
    """
    operands = [type_text(value) for value in op.inputs]
    while operands and operands[-1] == ABSENT:
        operands.pop()
    declared = op.operands
    if declared and declared[-1].variadic:
        operands = _once(operands, len(declared) - 1)
    results = [type_text(value) for value in op.results]
    return f"{','.join(operands)}:{','.join(_once(results, 0) if op.variadic_results else results)}"


def _once(texts: list[str], first: int) -> list[str]:
    """Return ``texts`` in which no text occurs twice from index ``first`` on."""
    return texts[:first] + list(dict.fromkeys(texts[first:]))
