# SPDX-License-Identifier: Apache-2.0
"""Operators that keep state, run several times by the interpreter and by LiteRT."""

from __future__ import annotations

from collections.abc import Sequence

from circlekit.interp.interpreter import Interpreter
from circlekit.ir.dtypes import DType
from circlekit.ir.graph import Graph, Model
from circlekit.ir.op import Op
from circlekit.ir.value import Array, Quantization, Shape, Value
from tests.ops.litert import FLOAT_TOLERANCE, assert_close, check_shapes, graph_of, run_steps


def state(dtype: DType, shape: Shape, quantization: Quantization | None = None) -> Value:
    """A variable tensor."""
    value = Value("", dtype, shape, None, quantization)
    value.is_variable = True
    return value


def check_runs(
    op: Op | Sequence[Graph],
    steps: Sequence[Sequence[Array]],
    tolerance: float = FLOAT_TOLERANCE,
    optimized: bool = False,
) -> list[list[Array]]:
    """Assert that each run of the first graph gives LiteRT's results; return our results.

    Variables keep their elements from run to run.  ``steps``: the inputs of each run.
    ``optimized``: compare with LiteRT's optimized kernels instead of its reference kernels.
    The shape rule of a single operator must give the shapes of the first run.
    """
    graphs = [op.graph or graph_of(op)] if isinstance(op, Op) else list(op)
    interpreter = Interpreter(Model(graphs))
    wanted = run_steps(graphs, steps, optimized)
    got = [interpreter.run(inputs) for inputs in steps]
    if isinstance(op, Op):
        check_shapes(op, got[0])
    for ours, theirs in zip(got, wanted, strict=True):
        for x, y in zip(ours, theirs, strict=True):
            assert_close(x, y, tolerance)
    return got
