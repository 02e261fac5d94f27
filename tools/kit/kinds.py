# SPDX-License-Identifier: Apache-2.0
"""What the elements of a tensor are: a dtype, plain or quantized; and one case, a small model with inputs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from circlekit.ir.dtypes import DType
from circlekit.ir.graph import Graph
from circlekit.ir.value import Array


class Kind(NamedTuple):
    dtype: DType
    quantized: bool = False

    @property
    def label(self) -> str:
        """A name for tables: ``i8 q`` is int8 with a scale."""
        return self.dtype.short + (" q" if self.quantized else "")


@dataclass
class Case:
    """``graphs``: the first is run, once for each of ``steps``, which are its inputs in order.

    ``label``: the row of the table, usually the kind of the data.  ``refused``: what the operator's own
    shape rule had to say against the model, or None.  ``tolerance``: of floats, in parts of the largest
    magnitude of the result, where it is not the kit's own.  ``optimized``: LiteRT's fast kernel is the
    oracle, because its reference is wrong (the operator's docstring says how).  ``magnitude``: what an
    activation cut down to the result; floats may differ by a part of that.
    """

    code: str
    label: str
    graphs: Sequence[Graph]
    steps: list[list[Array]]
    refused: str | None = None
    tolerance: float | None = None
    optimized: bool = False
    magnitude: float = 0.0


F32, F16, F64 = Kind(DType.FLOAT32), Kind(DType.FLOAT16), Kind(DType.FLOAT64)
I8, I16, I32, I64 = Kind(DType.INT8), Kind(DType.INT16), Kind(DType.INT32), Kind(DType.INT64)
U8, U16, U32, U64 = Kind(DType.UINT8), Kind(DType.UINT16), Kind(DType.UINT32), Kind(DType.UINT64)
BOOL, STRING = Kind(DType.BOOL), Kind(DType.STRING)
C64, C128 = Kind(DType.COMPLEX64), Kind(DType.COMPLEX128)
QI8, QU8, QI16 = Kind(DType.INT8, True), Kind(DType.UINT8, True), Kind(DType.INT16, True)

QUANTIZED = (QI8, QU8, QI16)
PLAIN = (F32, I8, I16, I32, I64, U8, U32, BOOL)
ARITHMETIC = (F32, F32, *QUANTIZED, I32, I64)
ALL = (*ARITHMETIC, I8, I16, U8, U32, BOOL, F16)
