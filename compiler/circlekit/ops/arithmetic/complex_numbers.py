# SPDX-License-Identifier: Apache-2.0
"""Complex numbers and the Fourier transform.  Source: TFLite complex_support, rfft2d."""

from __future__ import annotations

import numpy as np

from circlekit.errors import ShapeError
from circlekit.ir.dtypes import DType, f32, f64, i32
from circlekit.ir.op import Op, operand
from circlekit.ir.value import Array, TensorType, format_shape
from circlekit.ops.checks import require_float, require_length
from circlekit.ops.constant_operands import int_list, static_int_vector
from circlekit.ops.elementwise import PerElement
from circlekit.ops.operand_dtypes import COMPLEX


class OfComplex(PerElement):
    """One real number for each complex one."""

    input = operand(*COMPLEX)

    layout_operands = ("input",)

    def infer(self) -> TensorType:
        parts = {DType.COMPLEX64: f32, DType.COMPLEX128: f64}
        dtype = parts.get(self.input.dtype)
        if dtype is None:
            raise ShapeError(f"expected complex numbers for input, got {self.input.dtype.short}")
        return TensorType(dtype, self.input.shape)


class Real(OfComplex, code="REAL", options=None):
    """The real part."""

    def kernel(self, input: Array) -> Array:
        return np.array(input.real)


class Imag(OfComplex, code="IMAG", options=None):
    """The imaginary part."""

    def kernel(self, input: Array) -> Array:
        return np.array(input.imag)


class ComplexAbs(OfComplex, code="COMPLEX_ABS", options=None):
    """The magnitude."""

    def kernel(self, input: Array) -> Array:
        return np.abs(input)


class Rfft2d(Op, code="RFFT2D"):
    """The Fourier transform of real matrices, cropped or zero-padded to ``fft_length`` (powers of two).

    The last axis keeps the frequencies from 0 to half its length.
    """

    input = operand(f32)
    fft_length = operand(i32)

    def infer(self) -> TensorType:
        require_length(self.fft_length.shape, 2, "fft_length")
        shape = self.input.shape
        if shape is None:
            return TensorType(DType.COMPLEX64, None)
        if len(shape) < 2:
            raise ShapeError(f"expected input of rank 2 or more, got shape {format_shape(shape)}")
        sizes = static_int_vector(self.fft_length)
        if sizes is None:
            return TensorType(DType.COMPLEX64, (*shape[:-2], None, None))
        return TensorType(DType.COMPLEX64, (*shape[:-2], sizes[0], sizes[1] // 2 + 1))

    def kernel(self, input: Array, fft_length: Array) -> Array:
        require_float(self, input)
        sizes = int_list(fft_length)
        if any(n < 1 or n & (n - 1) for n in sizes):
            raise ShapeError(f"expected powers of two for fft_length, got {sizes}")
        return np.fft.rfft2(input.astype(np.float64), s=sizes, axes=(-2, -1)).astype(np.complex64)
