# SPDX-License-Identifier: Apache-2.0
"""Quantization of what is quantized so already."""

from __future__ import annotations

import numpy as np

from circlekit.ir.graph import Graph
from circlekit.ir.value import Value
from circlekit.ops.cast import Quantize
from circlekit.passes.remove.checks import remove_unread
from circlekit.rewrite.base import Context, GraphPass
from circlekit.rewrite.rewrite import Rewrite


class SameGrid(Rewrite):
    """quantize(x)  ==  x with the dtype, scale and zero point of the result."""

    quantized = True

    before = """
        z = Quantize(x)
    """
    after = "x"


class RemoveRedundantQuantize(GraphPass):
    """QUANTIZE to the parameters of its operand goes; of two in a row the first, where both round alike.

    They do with one scale, and where the first reaches as many steps of it below and above 0 as the
    second.  The latter is no picture: what QUANTIZE makes is told by its result alone.
    """

    name = "remove_redundant_quantize"

    def run_graph(self, graph: Graph, context: Context) -> int:
        skipped = sum(self._skip(graph, op, context) for op in graph.ops if isinstance(op, Quantize))
        return skipped + SameGrid().run_graph(graph, context)

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
            remove_unread(graph, first)
            count += 1
        return count


SameGrid.name = RemoveRedundantQuantize.name  # for its refusals alone


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
