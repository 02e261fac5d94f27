# SPDX-License-Identifier: Apache-2.0
"""Remove roundings to a grid: Quantize, Dequantize and FakeQuant."""

from __future__ import annotations

import numpy as np

from circlekit.ir.graph import Graph
from circlekit.ir.value import Value
from circlekit.ops.arithmetic.cast import Dequantize, Quantize
from circlekit.ops.matmul.dense import BatchMatMul, FullyConnected
from circlekit.passes.support.conditions import remove_unused
from circlekit.rewrite.base import Context, GraphPass
from circlekit.rewrite.rewrite import Rewrite, condition


class SameGrid(Rewrite):
    """quantize(x)  ==  x if x has the dtype, scale and zero point of the result."""

    quantized = True

    before = "z = Quantize(x)"
    after = "x"


class BackAgain(Rewrite):
    """quantize(dequantize(x))  ==  x on the same grid: each number rounds to itself."""

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
        return f"%{x.name}: expected up to 16 bits, got {x.dtype.short}"

    @condition
    def numbers_are_finite(self, x: Value) -> str | None:
        scale = np.zeros(0) if x.quantization is None else x.quantization.scale.astype(np.float64)
        if scale.size and (scale > 0).all() and scale.max() * 2.0**17 < float(np.finfo(np.float32).max):
            return None
        return f"%{x.name}: expected scales above 0 for which all values are finite in float32"


class RemoveRedundantQuantize(GraphPass):
    """Remove QUANTIZE to the parameters of its operand, and the first of two in a row that round alike.

    These have the same scale, and the range of the first contains that of the second.  They are no picture,
    because a picture cannot create a QUANTIZE: only its result says to which grid it rounds.
    """

    name = "remove_redundant_quantize"

    def run_graph(self, graph: Graph, context: Context) -> int:
        skipped = sum(self._skip(graph, op, context) for op in graph.ops if isinstance(op, Quantize))
        return skipped + sum(rule().run_graph(graph, context) for rule in (SameGrid, BackAgain))

    def _skip(self, graph: Graph, second: Quantize, context: Context) -> int:
        """Let ``second`` read the operand of the QUANTIZE before it, as long as that changes no value."""
        count = 0
        while isinstance(first := second.input.producer, Quantize):
            sentence = _limits_more(first.output, second.output)
            if not context.accepts(self.name, second, sentence, 4):
                break
            second.set_input(0, first.input)
            remove_unused(graph, first)
            count += 1
        return count


SameGrid.name = BackAgain.name = RemoveRedundantQuantize.name  # for their refusals


def _limits_more(y: Value, z: Value) -> str | None:
    """Why quantizing to ``y`` and then to ``z`` differs from quantizing to ``z``."""
    first, second = _steps(y), _steps(z)
    if first is None or second is None or first[0] != second[0]:
        return f"%{y.name}: expected the grid of %{z.name}, got another one"
    if first[1] <= second[1] and first[2] >= second[2]:
        return None
    return f"%{y.name}: is clamped to steps from {first[1]} to {first[2]}, the range of %{z.name} is larger"


def _steps(value: Value) -> tuple[float, int, int] | None:
    """The scale of ``value`` and its range in steps of it, both relative to 0; None for several scales."""
    parameters, dtype = value.quantization, value.dtype.numpy
    if parameters is None or parameters.scale.size != 1 or dtype is None or dtype.kind not in "iu":
        return None
    limits = np.iinfo(dtype)  # type: ignore[type-var]  # the kind is i or u
    zero = int(parameters.zero_point[0]) if parameters.zero_point.size else 0
    return float(parameters.scale[0]), int(limits.min) - zero, int(limits.max) - zero


class RemoveQdqForMpo(GraphPass):
    """dq(q2(dq(q1(product))))  becomes  dq(q2(product)): values are no longer rounded to the first grid.

    ``product`` is a FULLY_CONNECTED or a BATCH_MATMUL.  A plain pass, because a picture cannot create a
    QUANTIZE: only its result says to which grid it rounds.
    """

    name = "remove_qdq_for_mpo"
    changes_values = True

    def run_graph(self, graph: Graph, context: Context) -> int:
        return sum(self._remove(graph, op, context) for op in graph.ops if isinstance(op, Quantize))

    def _remove(self, graph: Graph, second: Quantize, context: Context) -> bool:
        back = second.input.producer
        first = back.input.producer if isinstance(back, Dequantize) else None
        if back is None or not isinstance(first, Quantize):
            return False
        source, sentence, progress = first.input, None, 4
        if not isinstance(source.producer, FullyConnected | BatchMatMul):
            found = "an input" if source.producer is None else type(source.producer).__name__
            sentence, progress = (
                f"%{source.name}: comes from {found}, expected FullyConnected or BatchMatMul",
                3,
            )
        elif any(not isinstance(user, Dequantize) for user in second.output.users):
            sentence = f"%{second.output.name}: has users other than Dequantize"
        if not context.accepts(self.name, second, sentence, progress):
            return False
        second.set_input(0, source)
        remove_unused(graph, back)
        return True


class RemoveQuantDequant(Rewrite):
    """dequantize(quantize(x))  becomes  x: values are no longer rounded or clamped to a range."""

    name = "remove_quantdequant"
    changes_values = True
    quantized = True
    shared = ("q",)

    before = """
        q = Quantize(x: f32)
        z = Dequantize(q)
    """
    after = "x"


class RemoveFakeQuant(Rewrite):
    """fake_quant(x)  becomes  x: values are no longer rounded to the grid or clamped to its range."""

    name = "remove_fakequant"
    changes_values = True
    quantized = True

    before = "y = FakeQuant(x)  {min: any, max: any, num_bits: any, narrow_range: any}"
    after = "x"
