# SPDX-License-Identifier: Apache-2.0
"""Base classes of elementwise operators with one operand, or with two operands that broadcast."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np

from circlekit.errors import ModelError
from circlekit.ir.dtypes import DType
from circlekit.ir.op import Op, operand
from circlekit.ir.quantization_rule import OWN_RANGES, QuantizationRule
from circlekit.ir.value import Array, TensorType
from circlekit.ops.checks import no_quantized_kernel, require_numpy_kind, require_same_dtype
from circlekit.ops.dimensions import broadcast_shapes
from circlekit.ops.numerics.float_functions import rounded_for
from circlekit.ops.numerics.lookup_tables import real_function
from circlekit.ops.operand_dtypes import NUMBERS, REAL
from circlekit.ops.quantized_values import is_quantized_8_or_16_bits, zero_point_of


class Elementwise(Op, elementwise=True):
    """A function of each element of the operands.

    A subclass defines ``function`` or ``compute`` for data that are not quantized, and ``quantized`` for data
    that are quantized in 8 or 16 bits.  ``kinds``: the kinds of dtypes that ``compute`` takes, as letters of
    numpy: f float, i signed, u unsigned, b bool, c complex, O object.  Kernels hold bfloat16 as float32.
    """

    kinds: ClassVar[str] = ""
    function: ClassVar[Callable[..., Array] | None] = None

    def compute(self, *args: Any, **kwargs: Any) -> Array:
        """Return the results for operands of the same dtype, without regard to any scale."""
        function = type(self).function
        assert function is not None  # a subclass defines it or overrides compute
        return np.asarray(function(*args))

    def quantized(self, *args: Any, **kwargs: Any) -> Array:
        """Return the integer results for operands quantized in 8 or 16 bits.

        Raise UnsupportedError for a dtype without a quantized kernel.
        """
        raise no_quantized_kernel(self, self.inputs[0] or self.output)

    def depends_on_position(self) -> bool:
        """Return whether equal elements may have different results at different positions."""
        return False


class Unary(Elementwise, layout_operands=("input",), kinds="f"):
    """A function of each element of one operand.

    By default, quantized elements are dequantized, ``real`` is applied, and its results are quantized (for
    int16 see ``real_function``).  ``quantized_dtypes``: the dtypes for which LiteRT has quantized kernels.
    ``rejects_negative``: the kernel raises ModelError if a quantized element stands for a negative number.
    """

    quantization_rule: ClassVar[QuantizationRule | None] = OWN_RANGES

    input = operand(*REAL)

    quantized_dtypes: ClassVar[tuple[DType, ...]] = ()
    rejects_negative: ClassVar[bool] = False

    def infer(self) -> TensorType:
        return TensorType(self.input.dtype, self.input.shape)

    def kernel(self, input: Array) -> Array:
        if is_quantized_8_or_16_bits(self.input):
            if self.input.dtype not in self.quantized_dtypes:
                raise no_quantized_kernel(self, self.input)
            if self.rejects_negative and np.any(input < zero_point_of(self.input)):
                raise ModelError(f"{self.code}: expected numbers >= 0, got a negative number")
            return self.quantized(input)
        require_numpy_kind(self, input, self.kinds)
        return rounded_for(self.compute(input), self.output)

    def quantized(self, x: Array) -> Array:
        return real_function(x, self.input, self.output, self.real)

    def real(self, x: Array) -> Array:
        """Return the results for dequantized float32 numbers, rounded to float32 as in LiteRT's tables."""
        return np.asarray(self.compute(x.astype(np.float64)), np.float32)


class Binary(Elementwise, layout_operands=("lhs", "rhs"), kinds="fiu"):
    """A function of each pair of elements of two operands that broadcast.

    ``ignores_scales``: the dtypes whose scales LiteRT ignores, so that ``compute`` gets the integers.
    """

    quantization_rule: ClassVar[QuantizationRule | None] = OWN_RANGES

    lhs = operand(*NUMBERS)
    rhs = operand(*NUMBERS)

    ignores_scales: ClassVar[tuple[DType, ...]] = ()

    def infer(self) -> TensorType:
        require_same_dtype("lhs", self.lhs, "rhs", self.rhs)
        return TensorType(self.lhs.dtype, broadcast_shapes(self.lhs.shape, self.rhs.shape))

    def kernel(self, lhs: Array, rhs: Array) -> Array:
        if is_quantized_8_or_16_bits(self.lhs) and self.lhs.dtype not in self.ignores_scales:
            return self.quantized(lhs, rhs)
        require_numpy_kind(self, lhs, self.kinds)
        return rounded_for(self.compute(lhs, rhs), self.output)

    def broadcasts_beyond_4d(self) -> bool:
        """Return whether the operands have different shapes, and one has more than four dimensions."""
        shapes = self.lhs.shape, self.rhs.shape
        return shapes[0] != shapes[1] and any(len(shape or ()) > 4 for shape in shapes)
