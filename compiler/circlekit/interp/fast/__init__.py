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
from circlekit.interp.fast.fully_connected import FastFullyConnected
from circlekit.ir.op import Op
from circlekit.ir.value import Array, Value
from circlekit.ops.arithmetic.cast import Dequantize
from circlekit.ops.constant_operands import constant_elements
from circlekit.ops.convolution.conv import DepthwiseConv2D, TransposeConv
from circlekit.ops.convolution.convolution_layer import ConvolutionLayer
from circlekit.ops.matmul.dense import FullyConnected

FastKernel = Callable[..., Array]
"""A function with the arguments of ``Op.kernel``: an array or None for each operand; returns one result."""


def prepare(op: Op) -> FastKernel | None:
    """Return a fast path for ``op`` with prepared constants; None if there is none (use ``op.kernel``).

    There are fast paths for elementwise operators on integers of 8 or 16 bits (see ``has_table``), for most
    convolutions of rank 4 (see ``_convolution``), and for FULLY_CONNECTED with integer weights.  Filter or
    weights, and the bias if there is one, must be constant.  The result of a DEQUANTIZE of a constant counts
    as constant, so that a model with float16 weights runs like one with the same weights as float32.
    """
    if has_table(op):
        return ElementwiseTable(op)
    try:
        if isinstance(op, FullyConnected) and op.weights.dtype.is_integer:
            constants = _constants(op.weights, op.bias)
            return constants and FastFullyConnected(op, *constants)
        if isinstance(op, ConvolutionLayer):
            constants = _constants(op.filter, op.bias)
            return constants and _convolution(op, *constants)
        return None
    # the plain kernel reports the error, or needs less memory
    except (CirclekitError, ValueError, ArithmeticError, MemoryError):
        return None


def may_be_prepared(value: Value) -> bool:
    """Return whether a fast path may hold a prepared copy of ``value``, and so ignore new elements of it."""
    return value.is_const or _dequantize_of_constant(value) is not None


def _dequantize_of_constant(value: Value) -> Dequantize | None:
    """Return the DEQUANTIZE that makes ``value`` from a constant; None if there is none."""
    producer = value.producer
    return producer if isinstance(producer, Dequantize) and producer.input.is_const else None


def _constant_elements(value: Value) -> Array | None:
    """Return the elements of a constant, or of the result of a DEQUANTIZE of a constant; else None."""
    dequantize = _dequantize_of_constant(value)
    if dequantize is not None:
        return np.asarray(dequantize.kernel(constant_elements(dequantize.input)))
    return constant_elements(value) if value.is_const else None


def _constants(weights: Value, bias: Value | None) -> tuple[Array, Array | None] | None:
    """Return the elements of ``weights`` and ``bias``; None if a present one is not constant."""
    elements = [None if v is None else _constant_elements(v) for v in (weights, bias)]
    if elements[0] is None or (elements[1] is None and bias is not None):
        return None
    return elements[0], elements[1]


def _convolution(op: ConvolutionLayer, filter: Array, bias: Array | None) -> FastKernel | None:
    """Return the fast path of ``op``; None for

    - a rank other than 4;
    - a grouped convolution, or a filter whose channels do not fit those of the input;
    - a filter that is empty or not finite;
    - an input whose number of channels is 0 or unknown.

    Raise UnsupportedError for dynamic quantization: a float input with an integer filter.
    """
    if op.input.rank != 4 or filter.ndim != 4:
        return None
    depth = op.input.shape[3]
    if not depth or filter.size == 0 or not np.isfinite(filter).all():
        return None
    if isinstance(op, DepthwiseConv2D):
        return FastDepthwiseConv2D(op, depth, filter, bias) if filter.shape[3] % depth == 0 else None
    kind = FastTransposeConv if isinstance(op, TransposeConv) else FastConv2D
    return kind(op, depth, filter, bias) if depth == filter.shape[3] else None
