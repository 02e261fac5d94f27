# SPDX-License-Identifier: Apache-2.0
"""Kinds of tensor data (a dtype, quantized or not), and the case: a small model with inputs."""

from __future__ import annotations

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
        """The name in tables; ``i8 q`` is quantized int8."""
        return self.dtype.short + (" q" if self.quantized else "")


@dataclass
class Case:
    """A ``graph`` of one operator and the ``inputs`` of a run.

    ``label``: the row of the table, usually the kind of data.  ``refused``: the error of the operator's
    shape rule, or None.  ``optimized``: compare with the optimized kernels, where the reference is wrong.
    ``magnitude``: largest magnitude before a fused activation, if it is larger than that of the result.
    """

    code: str
    label: str
    graph: Graph
    inputs: list[Array]
    refused: str | None = None
    optimized: bool = False
    magnitude: float = 0.0


KINDS = {
    kind.dtype.short + ("q" if kind.quantized else ""): kind
    for kind in (*map(Kind, DType), *(Kind(d, True) for d in (DType.INT8, DType.UINT8, DType.INT16)))
}
"""By name: ``f32``, ``i8``, ``i8q`` for quantized int8, ..."""

HYBRID = KINDS["hybrid"] = Kind(DType.VARIANT)
"""Float data with int8 weights."""

F32, I8, I16, I32 = (KINDS[name] for name in ("f32", "i8", "i16", "i32"))
QI8, QU8, QI16 = (KINDS[name] for name in ("i8q", "u8q", "i16q"))
