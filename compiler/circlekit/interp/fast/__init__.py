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
from circlekit.ir.value import Array
from circlekit.ops.constant_operands import constant_elements
from circlekit.ops.convolution.conv import DepthwiseConv2D, TransposeConv
from circlekit.ops.convolution.convolution_layer import ConvolutionLayer

FastKernel = Callable[..., Array]
"""A function with the arguments of ``Op.kernel``: an array or None for each operand; returns one result."""


def prepare(op: Op) -> FastKernel | None:
    """Return a fast path for ``op`` with prepared constants; None if there is none (use ``op.kernel``).

    There are fast paths for elementwise operators on integers of few bits (see ``has_table``), and for most
    convolutions of rank 4 whose filter and bias are constant (see ``_convolution``).
    """
    if has_table(op):
        return ElementwiseTable(op)
    if not isinstance(op, ConvolutionLayer):
        return None
    values = dict(op.operand_items())
    shapes = [values[name].shape for name in ("input", "filter") if name in values]
    if [len(shape or ()) for shape in shapes] != [4, 4]:
        return None
    if any(values[name].data is None for name in ("filter", "bias") if name in values):
        return None
    try:
        return _convolution(op)
    except (CirclekitError, ValueError, ArithmeticError):  # the plain kernel reports the error
        return None


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
