# SPDX-License-Identifier: Apache-2.0
"""The class Value and the classes that describe a tensor, to be imported together."""

from __future__ import annotations

from circlekit.ir.core import Value
from circlekit.ir.tensor import (
    BLOCKWISE,
    LARGEST_DIMENSION,
    MAX_RANK,
    Array,
    Quantization,
    Shape,
    TensorType,
    format_shape,
    same_array,
    same_grid,
)

__all__ = [
    "BLOCKWISE",
    "LARGEST_DIMENSION",
    "MAX_RANK",
    "Array",
    "Quantization",
    "Shape",
    "TensorType",
    "Value",
    "format_shape",
    "same_array",
    "same_grid",
]
