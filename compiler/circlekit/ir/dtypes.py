# SPDX-License-Identifier: Apache-2.0
"""The element types of tensors (dtypes), with their names, numpy dtypes and sizes in bits."""

from __future__ import annotations

import math
from enum import Enum

import numpy as np
from numpy.typing import DTypeLike


class DType(Enum):
    """One element type.  The names of the members are those of the schema's ``TensorType``.

    ``short``: the name in the text form.  ``numpy``: the numpy dtype, or None if numpy has none.  A type
    without a numpy dtype is *packed*: its constants are kept as the bytes of the file.  ``bits``: the size of
    an element in bits; 0 for types whose elements have no fixed size of their own (strings, for example).
    """

    FLOAT32 = ("f32", "<f4", 32)
    FLOAT16 = ("f16", "<f2", 16)
    FLOAT64 = ("f64", "<f8", 64)
    BFLOAT16 = ("bf16", None, 16)
    INT8 = ("i8", "i1", 8)
    INT16 = ("i16", "<i2", 16)
    INT32 = ("i32", "<i4", 32)
    INT64 = ("i64", "<i8", 64)
    UINT8 = ("u8", "u1", 8)
    UINT16 = ("u16", "<u2", 16)
    UINT32 = ("u32", "<u4", 32)
    UINT64 = ("u64", "<u8", 64)
    BOOL = ("bool", "?", 8)
    COMPLEX64 = ("c64", "<c8", 64)
    COMPLEX128 = ("c128", "<c16", 128)
    STRING = ("str", None, 0)
    RESOURCE = ("resource", None, 0)
    VARIANT = ("variant", None, 0)
    INT4 = ("i4", None, 4)
    UINT4 = ("u4", None, 4)
    INT2 = ("i2", None, 2)
    FLOAT8_E4M3FN = ("f8e4m3fn", None, 8)
    FLOAT8_E5M2 = ("f8e5m2", None, 8)
    GGML_Q4_0 = ("ggml_q4_0", None, 0)
    GGML_Q4_1 = ("ggml_q4_1", None, 0)
    GGML_Q8_0 = ("ggml_q8_0", None, 0)
    GGML_Q8_1 = ("ggml_q8_1", None, 0)
    MXFP4 = ("mxfp4", None, 0)
    MXINT8 = ("mxint8", None, 0)

    short: str
    numpy: np.dtype[np.generic] | None
    bits: int

    def __init__(self, short: str, numpy: str | None, bits: int) -> None:
        self.short = short
        self.numpy = None if numpy is None else np.dtype(numpy)
        self.bits = bits

    def __repr__(self) -> str:
        return self.short

    @property
    def is_float(self) -> bool:
        """Whether this is f16, bf16, f32 or f64.  Floats of 8 bits do not count."""
        return self in _FLOATS

    @property
    def is_integer(self) -> bool:
        """Whether this is an integer type of any width, packed or not; bool does not count."""
        return self in _INTEGERS

    @property
    def limits(self) -> tuple[int, int]:
        """The smallest and the largest number of an integer type; meaningless or a ValueError for others."""
        if self.short.startswith("u"):
            return 0, (1 << self.bits) - 1
        return -(1 << (self.bits - 1)), (1 << (self.bits - 1)) - 1

    @property
    def float_limits(self) -> tuple[float, float]:
        """``limits`` as float64; 2^63 - 1 and 2^64 - 1 are rounded down to numbers that float64 holds."""
        low, high = self.limits
        largest = float(high)
        return float(low), largest if largest <= high else math.nextafter(largest, 0)

    @staticmethod
    def of(numpy: DTypeLike) -> DType:
        """Return the element type of a numpy dtype; raise KeyError if there is none.

        A big-endian dtype has none.
        """
        return _BY_NUMPY[np.dtype(numpy)]


_FLOATS = frozenset({DType.FLOAT32, DType.FLOAT16, DType.FLOAT64, DType.BFLOAT16})
_INTEGERS = frozenset(t for t in DType if t.short[0] in "iu" and t.short[1:].isdigit())  # i4, u16 and so on
_BY_NUMPY: dict[np.dtype[np.generic], DType] = {t.numpy: t for t in DType if t.numpy is not None}
BY_SHORT: dict[str, DType] = {t.short: t for t in DType}
"""Every element type by its name in the text form, such as ``f32``."""

# short names of the dtypes that are used most; ``boolean``, because ``bool`` is Python's type
f32, f16, bf16, f64 = DType.FLOAT32, DType.FLOAT16, DType.BFLOAT16, DType.FLOAT64
i8, i16, i32, i64 = DType.INT8, DType.INT16, DType.INT32, DType.INT64
u8, u16, u32, u64 = DType.UINT8, DType.UINT16, DType.UINT32, DType.UINT64
boolean = DType.BOOL
