# SPDX-License-Identifier: Apache-2.0
"""Groups of dtypes for the declarations of operands.

An operand declares the dtypes that kernels of TFLite and circle take, and also the packed and half-precision
dtypes of stored models.

The order matters for literals in the text form, as in ``Add(%x, 2)``, if no other operand determines their
dtype.  A literal gets the first dtype of the group whose kind (bool, integer, float) can hold it.  So groups
for all numbers begin with i32, and integer literals stay integers.
"""

from __future__ import annotations

from circlekit.ir.dtypes import DType, bf16, boolean, f16, f32, f64, i8, i16, i32, i64, u8, u16, u32, u64

INDICES = (i32, i64)
"""Axes, shapes and other integers."""

REAL = (f32, i8, u8, i16, f16, bf16, f64)
"""Real numbers: floats, and integers that are quantized."""

BIAS = (f32, i32, i64, f16, bf16, f64)  # an integer bias has a small scale, so it needs 32 or 64 bits
INTEGERS = (i32, i64, i8, u8, i16, u16, u32, u64)
NUMBERS = (i32, f32, i8, u8, i16, i64, u16, u32, u64, f16, bf16, f64)
COMPLEX = (DType.COMPLEX64, DType.COMPLEX128)
ANY = tuple(dict.fromkeys((i32, f32, i64, boolean, *DType)))
"""Every dtype: for operators that only move data."""
