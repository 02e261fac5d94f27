# SPDX-License-Identifier: Apache-2.0
"""Quantization of what is quantized so already."""

from __future__ import annotations

import numpy as np

from circlekit.ir.graph import Graph
from circlekit.ir.value import Value
from circlekit.ops.arithmetic.cast import Quantize
from circlekit.passes.support.conditions import remove_unused
from circlekit.rewrite.base import Context, GraphPass
from circlekit.rewrite.rewrite import Rewrite, condition


class SameGrid(Rewrite):
    """quantize(x)  ==  x with the dtype, scale and zero point of the result."""

    quantized = True

    before = """
        z = Quantize(x)
    """
    after = "x"


class BackAgain(Rewrite):
    """quantize(dequantize(x))  ==  x on the same grid: no number is so far from its own as to be rounded."""

    quantized = True
    shared = ("d",)

    before = """
        d = Dequantize(x)
        z = Quantize(d)
    """
    after = "x"

    @condition
    def of_few_bits(self, x: Value) -> str | None:
        kind = x.dtype.numpy
        if kind is not None and kind.kind in "iu" and kind.itemsize <= 2:
            return None
        return f"%{x.name}: is {x.dtype.short}, up to 16 bits are wanted"

    @condition
    def numbers_are_finite(self, x: Value) -> str | None:
        scale = np.zeros(0) if x.quantization is None else x.quantization.scale.astype(np.float64)
        if scale.size and (scale > 0).all() and scale.max() * 2.0**17 < float(np.finfo(np.float32).max):
            return None
        return f"%{x.name}: a scale that is not too large is wanted"


class RemoveRedundantQuantize(GraphPass):
    """QUANTIZE to the parameters of its operand goes; of two in a row the first, where both round alike.

    They do with one scale, and where the first reaches as many steps of it below and above 0 as the
    second.  The latter is no picture: what QUANTIZE makes is told by its result alone.
    """

    name = "remove_redundant_quantize"

    def run_graph(self, graph: Graph, context: Context) -> int:
        skipped = sum(self._skip(graph, op, context) for op in graph.ops if isinstance(op, Quantize))
        return skipped + sum(rule().run_graph(graph, context) for rule in (SameGrid, BackAgain))

    def _skip(self, graph: Graph, second: Quantize, context: Context) -> int:
        """Let ``second`` read what the QUANTIZE before it reads, as often as that changes nothing."""
        count = 0
        while isinstance(first := second.input.producer, Quantize):
            sentence = _limits_more(first.output, second.output)
            if sentence is not None:
                context.refuse(self.name, second, sentence, 4)
                break
            if not context.may_rewrite:
                break
            context.rewrites(second)
            second.set_input(0, first.input)
            remove_unused(graph, first)
            count += 1
        return count


SameGrid.name = BackAgain.name = RemoveRedundantQuantize.name  # for their refusals alone


def _limits_more(y: Value, z: Value) -> str | None:
    """Why quantizing to ``y`` first is not the same as quantizing to ``z`` at once."""
    first, second = _steps(y), _steps(z)
    if first is None or second is None or first[0] != second[0]:
        return f"%{y.name}: is rounded to another grid than %{z.name}"
    if first[1] <= second[1] and first[2] >= second[2]:
        return None
    return f"%{y.name}: is limited to steps from {first[1]} to {first[2]}, %{z.name} reaches further"


def _steps(value: Value) -> tuple[float, int, int] | None:
    """The scale of ``value``, and how many steps it reaches below and above 0; None for several scales."""
    parameters, dtype = value.quantization, value.dtype.numpy
    if parameters is None or parameters.scale.size != 1 or dtype is None or dtype.kind not in "iu":
        return None
    limits = np.iinfo(dtype)  # type: ignore[type-var]  # the kind is i or u
    zero = int(parameters.zero_point[0]) if parameters.zero_point.size else 0
    return float(parameters.scale[0]), int(limits.min) - zero, int(limits.max) - zero
