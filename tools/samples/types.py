# SPDX-License-Identifier: Apache-2.0
"""Which dtypes and quantization the operands of an operator may have."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from typing import Any, NamedTuple

import circlekit.ops  # noqa: F401  # declares the operators
from circlekit.ir.declaration import Operand
from circlekit.ir.dtypes import DType, i32, i64
from circlekit.ir.op import Op
from circlekit.ir.value import Quantization
from circlekit.testing.random_constants import is_parameter

QUANTIZABLE = (DType.INT8, DType.UINT8, DType.INT16, DType.INT4)

PROBED = (*(d for d in DType if d.numpy is not None), DType.STRING, DType.INT4)  # the dtypes to try

FILTERS = ("filter", "weights", "weight")
"""Operands that may have a dtype of their own, and scales per channel."""

DERIVED = ("in_data_type", "quantized_bias_type")
"""Attributes with a dtype that follows from the operands."""

per_tensor = Quantization.per_tensor


class Types(NamedTuple):
    """The types of a sample.  ``dtypes``: the dtypes of the operands, None for an absent operand.

    ``result``: the dtype of the result, None if it follows from the operands.  ``quantized``: tensors of
    QUANTIZABLE dtypes have a scale.  ``per_channel``: the index of the operand with several scales, or None.
    """

    dtypes: tuple[DType | None, ...]
    result: DType | None
    quantized: bool
    per_channel: int | None


def all_types(cls: type[Op]) -> Iterator[Types]:
    """Yield every combination of types; operands with the same declared dtypes have the same dtype.

    Filters, operands such as gamma, and optional ones have dtypes of their own.  Data and indices may have
    different dtypes even if their declared dtypes are the same.
    """
    groups: dict[Any, list[DType | None]] = {}
    keys = []
    for index, spec in enumerate(cls.operands):
        is_free = spec.optional or spec.name in FILTERS or (is_parameter(spec) and not is_index(spec))
        keys.append(index if is_free else (is_index(spec), frozenset(spec.dtypes)))
        known = [d for d in PROBED if d in spec.dtypes or not spec.dtypes]
        groups.setdefault(keys[-1], [*known, None] if spec.optional else list(known))
    for chosen in product(*groups.values()):
        by_key = dict(zip(groups, chosen, strict=True))
        dtypes = tuple(by_key[key] for key in keys)
        for result in _result_choices(cls):
            small = [i for i, d in enumerate(dtypes) if d in QUANTIZABLE and not is_index(cls.operands[i])]
            yield Types(dtypes, result, False, None)
            if small or result in QUANTIZABLE:
                yield Types(dtypes, result, True, None)
            yield from (Types(dtypes, result, True, i) for i in small if _may_be_per_channel(cls, i))


def types_of(cls: type[Op], form: str) -> Types | None:
    """Return the types of ``form``, a text such as ``f32,i8qc,-:f32`` (see ``targets.operator_form``).

    Return None if the form is not sampled.
    """
    left, right = (side.split(",") for side in form.split(":"))
    short = {d.short + suffix: d for d in PROBED for suffix in ("", "q", "qc")} | {"-": None}
    if any(text not in short for text in (*left, *right)) or len(left) > len(cls.operands):
        return None
    dtypes = [short[text] for text in left] + [None] * (len(cls.operands) - len(left))
    per_channel = [index for index, text in enumerate(left) if text.endswith("qc")]
    result = short[right[0]] if tuple(_result_choices(cls)) != (None,) else None
    return Types(tuple(dtypes), result, "q" in form, per_channel[0] if per_channel else None)


def is_index(spec: Operand) -> bool:
    """Return whether an operand holds axes, sizes (such as ``k`` of TOPK_V2) or indices."""
    data = (*FILTERS, "bias", "gamma", "beta")
    return spec.name == "k" or (is_parameter(spec) and spec.name not in data)


def _may_be_per_channel(cls: type[Op], index: int) -> bool:
    """Return whether an operand may have a scale per channel."""
    spec = cls.operands[index]
    if any(s.name in FILTERS for s in cls.operands):
        return spec.name in FILTERS
    return spec.name == "y" or (index == 0 and (cls.data_movement or cls.code == "DEQUANTIZE"))


def _result_choices(cls: type[Op]) -> Sequence[DType | None]:
    """Return the dtypes that the result may have; None alone if it follows from the operands."""
    if cls.code == "QUANTIZE":
        return (DType.INT8, DType.UINT8, DType.INT16)
    if cls.code in ("CAST", "BITCAST"):
        return PROBED[:-1]
    chosen = (a for a in cls.attributes if isinstance(a.default, DType))
    return (i32, i64) if any(a.name not in DERIVED for a in chosen) else (None,)
