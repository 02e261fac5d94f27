# SPDX-License-Identifier: Apache-2.0
"""Fast paths: faster kernels with the results of the plain kernels (floats: up to rounding).

A kernel is here only if it makes some model at least 1.3 times as fast.  Models that run for less than a
millisecond do not count.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from circlekit.errors import CirclekitError
from circlekit.interp.fast.convolution import FastConv2D, FastDepthwiseConv2D, FastTransposeConv
from circlekit.interp.fast.elementwise_table import ElementwiseTable, has_table
from circlekit.interp.operand_arrays import with_operands
from circlekit.ir.op import Op
from circlekit.ir.value import Array, Value
from circlekit.ops.arithmetic.cast import Dequantize
from circlekit.ops.constant_operands import constant_elements
from circlekit.ops.convolution.conv import DepthwiseConv2D, TransposeConv
from circlekit.ops.convolution.convolution_layer import ConvolutionLayer

FastKernel = Callable[..., Array]
"""A function with the arguments of ``Op.kernel``: an array or None for each operand; returns one result."""


def prepare(op: Op) -> FastKernel | None:
    """Return a fast path for ``op`` with prepared constants; None if there is none (use ``op.kernel``).

    There are fast paths for elementwise operators on integers of few bits (see ``has_table``), and for most
    convolutions of rank 4 whose filter and bias are constant (see ``_convolution``).  The result of a
    DEQUANTIZE of a constant counts as constant, so that a model with float16 weights runs like one with the
    same weights as float32.
    """
    if has_table(op):
        return ElementwiseTable(op)
    if not isinstance(op, ConvolutionLayer):
        return None
    values = dict(op.operand_items())
    shapes = [values[name].shape for name in ("input", "filter") if name in values]
    if [len(shape or ()) for shape in shapes] != [4, 4]:
        return None
    try:
        op = _with_dequantized_weights(op)
        is_constant = op.filter.is_const and (op.bias is None or op.bias.is_const)
        return _convolution(op) if is_constant else None
    except (CirclekitError, ValueError, ArithmeticError):  # the plain kernel reports the error
        return None


def _with_dequantized_weights(op: ConvolutionLayer) -> ConvolutionLayer:
    """Return a copy of ``op`` in which weights that a DEQUANTIZE makes from a constant are constants."""

    def dequantized(value: Value | None) -> Array | None:
        producer = None if value is None else value.producer
        if not isinstance(producer, Dequantize) or not producer.input.is_const:
            return None
        return np.asarray(producer.kernel(constant_elements(producer.input)))

    arrays = [dequantized(v) if v in (op.filter, op.bias) else None for v in op.inputs]
    return with_operands(op, arrays, constant=True)


def _convolution(op: ConvolutionLayer) -> FastKernel | None:
    """Return the fast path of ``op``; None for

    - a grouped convolution;
    - a filter that is empty or not finite;
    - an input whose number of channels is 0 or unknown.

    Raise UnsupportedError for dynamic quantization.
    """
    depth, filter = op.input.shape[3], constant_elements(op.filter)
    if not depth or filter.size == 0 or not np.isfinite(filter).all():
        return None
    if isinstance(op, DepthwiseConv2D):
        return FastDepthwiseConv2D(op, depth) if filter.shape[3] % depth == 0 else None
    kind = FastTransposeConv if isinstance(op, TransposeConv) else FastConv2D
    return kind(op, depth) if depth == filter.shape[3] else None
