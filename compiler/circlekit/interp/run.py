# SPDX-License-Identifier: Apache-2.0
"""One run of a model, or of a graph, after which nothing of it is kept."""

from __future__ import annotations

from collections.abc import Sequence

from circlekit.interp.interpreter import Inputs, Interpreter, Observe, OnValue, Runner, checked, fitting
from circlekit.interp.kernels import kernels_of
from circlekit.ir.graph import Graph, Model
from circlekit.ir.value import Array
from circlekit.ops.numerics.kernel_flavor import Kernels
from circlekit.ops.program.state import State

__all__ = ["Interpreter", "Observe", "run", "run_graph"]


def run(
    model: Model,
    inputs: Inputs,
    graph: int = 0,
    observe: Observe | None = None,
    on_value: OnValue | None = None,
    kernels: Kernels | None = None,
) -> list[Array]:
    """What a new ``Interpreter`` of the model gives in its first run."""
    arrays = fitting(model, graph, inputs)
    runner = Runner(State(), model, kernels=kernels_of(model, kernels))
    return runner.observed(model.graphs[graph], arrays, observe, on_value)


def run_graph(
    graph: Graph, inputs: Sequence[Array], observe: Observe | None = None, state: State | None = None
) -> list[Array]:
    """Outputs of ``graph`` for ``inputs``, in its order; they share no memory with inputs or constants.

    ``state``: what earlier runs left; nothing by default.
    """
    runner = Runner(State() if state is None else state)
    runner.observe = observe
    return runner.run(graph, checked(graph, inputs))
