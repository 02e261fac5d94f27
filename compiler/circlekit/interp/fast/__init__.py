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
        filter, bias = (None if v is None else _constant_elements(v) for v in (op.filter, op.bias))
        if filter is None or (bias is None and op.bias is not None):
            return None
        return _convolution(op, filter, bias)
    except (CirclekitError, ValueError, ArithmeticError):  # the plain kernel reports the error
        return None


def may_be_prepared(value: Value) -> bool:
    """Return whether a fast path may hold ``value`` in a prepared form, and so ignore new elements."""
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


def _convolution(op: ConvolutionLayer, filter: Array, bias: Array | None) -> FastKernel | None:
    """Return the fast path of ``op``; None for

    - a grouped convolution;
    - a filter that is empty or not finite;
    - an input whose number of channels is 0 or unknown.

    Raise UnsupportedError for dynamic quantization.
    """
    depth = op.input.shape[3]
    if not depth or filter.size == 0 or not np.isfinite(filter).all():
        return None
    if isinstance(op, DepthwiseConv2D):
        return FastDepthwiseConv2D(op, depth, filter, bias) if filter.shape[3] % depth == 0 else None
    kind = FastTransposeConv if isinstance(op, TransposeConv) else FastConv2D
    return kind(op, depth, filter, bias) if depth == filter.shape[3] else None
