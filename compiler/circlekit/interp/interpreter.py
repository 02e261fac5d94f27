# SPDX-License-Identifier: Apache-2.0
"""Run models; choose which of LiteRT's kernel sets, reference or optimized, the results follow."""

from __future__ import annotations

from contextlib import suppress

from circlekit.errors import CirclekitError
from circlekit.interp.evaluate import Inputs, model_inputs
from circlekit.interp.graph_runner import GraphRunner, Observe, OnValue
from circlekit.ir.graph import Model
from circlekit.ir.value import Array
from circlekit.ops.numerics.output_stage import Kernels
from circlekit.ops.program.state import State


def select_kernels(model: Model, requested: Kernels | str | None = None) -> Kernels:
    """Return ``requested``, or by default the kernel set that LiteRT can run the whole model with.

    LiteRT takes all kernels from one set: its reference kernels, unless they lack the version of any
    operator of the model; then its optimized kernels.  ValueError for an unknown name.
    """
    if requested is not None:
        return Kernels(requested)
    for op in (op for graph in model.graphs for op in graph):
        last = op.reference_version
        with suppress(CirclekitError):  # a malformed operator: the error is raised where the operator runs
            if last is not None and (op.version or op.required_version()) > last:
                return Kernels.OPTIMIZED
    return Kernels.REFERENCE


class Interpreter:
    """Runs one model, any number of times; each thread needs an interpreter of its own.

    Variables and hash tables keep their contents from run to run, until ``reset``.  The model may be changed
    between runs, except for the contents of its constants: these need a new interpreter.

    ``kernels``: the set of LiteRT's kernels whose integer results to reproduce; by default the one that
    LiteRT would use for this model (see ``select_kernels``).
    """

    def __init__(self, model: Model, kernels: Kernels | str | None = None) -> None:
        self.model = model
        self._runner = GraphRunner(State(), model, select_kernels(model, kernels))

    @property
    def kernels(self) -> Kernels:
        """The set of LiteRT's kernels whose results are reproduced."""
        return self._runner.kernels

    @property
    def state(self) -> State:
        """Contents of variables and tables, and positions of random streams."""
        return self._runner.state

    def reset(self) -> None:
        """Discard the state: the next run is like the first."""
        self._runner.state = State()

    def run(
        self,
        inputs: Inputs,
        graph: int = 0,
        observe: Observe | None = None,
        on_value: OnValue | None = None,
    ) -> list[Array]:
        """Return the outputs of graph number ``graph``, in its order.

        ``inputs``: a sequence in the order of the graph's inputs, or a mapping by name.
        ``observe`` is called with each operator and its results, ``on_value`` with name and elements of each
        input and result.  The outputs share no memory with inputs or constants.

        Raises ShapeError if the inputs do not match the graph, UnsupportedError if an operator has no
        kernel, LimitError if the run needs more memory or graph calls than the limits allow.
        """
        arrays = model_inputs(self.model, graph, inputs)
        return self._runner.run(self.model.graphs[graph], arrays, observe, on_value)


def run(
    model: Model,
    inputs: Inputs,
    graph: int = 0,
    observe: Observe | None = None,
    on_value: OnValue | None = None,
    kernels: Kernels | str | None = None,
) -> list[Array]:
    """Run ``model`` once, from its initial state: see ``Interpreter.run``."""
    return Interpreter(model, kernels).run(inputs, graph, observe, on_value)
