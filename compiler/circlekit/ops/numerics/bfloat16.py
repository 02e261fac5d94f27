# SPDX-License-Identifier: Apache-2.0
"""bfloat16 numbers, which kernels hold as float32 with the lower 16 bits 0."""

from __future__ import annotations

import numpy as np

from circlekit.ir.dtypes import bf16
from circlekit.ir.value import Array, Value


def round_to_bfloat16(x: Array) -> Array:
    """Return float32 numbers rounded to the nearest bfloat16, ties to even; NaN becomes a quiet NaN."""
    bits = np.ascontiguousarray(x, np.float32).view(np.uint32)
    rounded = (bits + (0x7FFF + ((bits >> 16) & 1))) & np.uint32(0xFFFF0000)
    quiet = np.uint32(0x7FC00000) | (bits & np.uint32(0x80000000))
    return np.asarray(np.where(np.isnan(x), quiet, rounded), np.uint32).view(np.float32)


def rounded_for(array: Array, value: Value) -> Array:
    """Return ``array`` as a result ``value`` holds it: rounded where the dtype of ``value`` is bfloat16."""
    return round_to_bfloat16(array) if value.dtype is bf16 else np.asarray(array)
