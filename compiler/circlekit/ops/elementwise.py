# SPDX-License-Identifier: Apache-2.0
"""Base classes of elementwise operators: one operand, or two that broadcast."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np

from circlekit.ir.dtypes import bf16
from circlekit.ir.op import operand
from circlekit.ir.tape import NOW, Tape
from circlekit.ir.value import Array, TensorType
from circlekit.ops.checks import no_quantized_kernel, require_numpy_kind, require_same_dtype
from circlekit.ops.dimensions import broadcast_shapes, common_shape
from circlekit.ops.numerics.bfloat16 import rounded_for
from circlekit.ops.numerics.narrow import bound_narrow, bound_pairs, stored
from circlekit.ops.numerics.pairs import Pairwise
from circlekit.ops.quantization import is_quantized_8_or_16_bits
from circlekit.ops.versions import VersionedByDtype


def aligned(x: Array, y: Array, out: Array) -> tuple[Array, Array, Array]:
    """The same elements in the shapes that numpy's functions are quickest with: equal ones, or one number."""
    arrays = (x, y, out)
    if not all(a.flags.c_contiguous and a.size in (1, out.size) for a in arrays):
        return arrays
    x, y, out = (a.reshape(()) if a.size == 1 < out.size else a.reshape(-1) for a in arrays)
    return x, y, out


class Unary(VersionedByDtype):
    """The same function of every element.  ``kinds``: the numpy kinds that it is computed on."""

    input = operand()

    kinds: ClassVar[str] = "f"
    layout_operands = ("input",)

    def infer(self) -> TensorType:
        return TensorType(self.input.dtype, self.input.shape)

    def kernel(self, input: Array) -> Array:
        if is_quantized_8_or_16_bits(self.input):
            return self.quantized(input)
        require_numpy_kind(self, input, self.kinds)
        return rounded_for(self.compute(input), self.output)

    def bind(self, tape: Tape, input: Array) -> Array | None:
        if is_quantized_8_or_16_bits(self.input):
            return bound_narrow(tape, self, self.quantized, input)
        if self.output.dtype is bf16:
            return None
        require_numpy_kind(self, input, self.kinds)
        out = tape.empty(input.shape, input.dtype)
        self.write(tape, input, out)
        tape.limit(out, self.reached(tape.reach(input)))
        return out

    def reached(self, reach: float) -> float:
        """A magnitude that no result but NaN exceeds, where no element but NaN exceeds ``reach``."""
        return np.inf

    def quantized(self, x: Array) -> Array:
        """The results, quantized as the output, of ``x``, quantized in 8 or 16 bits as the input."""
        raise no_quantized_kernel(self, self.input)

    function: ClassVar[Callable[..., Any] | None] = None
    """numpy's function of an array and a place for the results; operators without one have ``compute``."""

    def compute(self, x: Array) -> Array:
        """The results, of the same dtype as ``x``."""
        out = np.empty(x.shape, x.dtype)
        self.write(NOW, x, out)
        return out

    def write(self, tape: Tape, x: Array, out: Array) -> None:
        """The calls that make the results ``out``."""
        if self.function is None:
            tape.do(stored, self.compute, x, out)
        else:
            tape.do(self.function, x, out)

    def permuted(self, perm: tuple[int, ...]) -> dict[str, Any] | None:
        return {}


class Binary(VersionedByDtype):
    """The same function of every two elements that broadcasting brings together."""

    lhs = operand()
    rhs = operand()

    kinds: ClassVar[str] = "fiu"
    layout_operands = ("lhs", "rhs")

    def infer(self) -> TensorType:
        require_same_dtype("lhs", self.lhs, "rhs", self.rhs)
        return TensorType(self.lhs.dtype, broadcast_shapes(self.lhs.shape, self.rhs.shape))

    def kernel(self, lhs: Array, rhs: Array) -> Array:
        if is_quantized_8_or_16_bits(self.lhs):
            return self.quantized(lhs, rhs)
        require_numpy_kind(self, lhs, self.kinds)
        return rounded_for(self.compute(lhs, rhs), self.output)

    def bind(self, tape: Tape, lhs: Array, rhs: Array) -> Array | None:
        if is_quantized_8_or_16_bits(self.lhs):
            return bound_pairs(tape, self, self.quantized, lhs, rhs, self.sketch())
        if self.output.dtype is bf16:
            return None
        out = tape.empty(common_shape(lhs, rhs), self.output.dtype.numpy)
        require_numpy_kind(self, lhs, self.kinds)
        self.write(tape, *aligned(lhs, rhs, out))
        return out

    def sketch(self) -> Pairwise | None:
        """What ``quantized`` of 8 bits may be in floats."""
        return None

    def quantized(self, x: Array, y: Array) -> Array:
        """The results, quantized as the output, of elements quantized in 8 or 16 bits as the operands."""
        raise no_quantized_kernel(self, self.lhs)

    function: ClassVar[Callable[..., Any] | None] = None
    """numpy's function of both and a place for the results; operators without one have ``compute``."""

    def compute(self, x: Array, y: Array) -> Array:
        """The broadcast results; ``x`` and ``y`` have one dtype."""
        out = np.empty(common_shape(x, y), x.dtype)
        self.write(NOW, x, y, out)
        return out

    def write(self, tape: Tape, x: Array, y: Array, out: Array) -> None:
        """The calls that make the results ``out``."""
        if self.function is None or out.dtype.hasobject or x.dtype.hasobject:
            tape.do(stored, self.compute, x, y, out)
        else:
            tape.do(self.function, x, y, out)

    def permuted(self, perm: tuple[int, ...]) -> dict[str, Any] | None:
        return {}

    def broadcasts_beyond_4d(self) -> bool:
        """Whether the operands' shapes differ and one has more than four dimensions."""
        ranks = [v.rank or 0 for v in (self.lhs, self.rhs)]
        return self.lhs.shape != self.rhs.shape and max(ranks) > 4
